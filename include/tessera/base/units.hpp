#pragma once
// Bytes as people read and write them: 8_GiB in code, "8GiB" in text.

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// "512 B", "1.21 MiB", "16.0 GiB"
std::string format_bytes(std::int64_t bytes);
/// "16GiB", "512MiB", "1.5GB", "65536": a positive number of bytes, or UserError.
std::int64_t parse_bytes(std::string_view text);

namespace detail {
/// More than 63 bits do not compile.
consteval std::int64_t whole_bytes(unsigned long long count, std::int64_t unit) {
    if (count > static_cast<unsigned long long>(INT64_MAX / unit)) throw "more bytes than 63 bits can count";
    return static_cast<std::int64_t>(count) * unit;
}
consteval std::int64_t fractional_bytes(long double count, std::int64_t unit) {
    if (count * static_cast<long double>(unit) >= 0x1p63L) throw "more bytes than 63 bits can count";
    return static_cast<std::int64_t>(count * static_cast<long double>(unit));
}
}  // namespace detail

/// 8_GiB, 1.5_GB: `using namespace tessera` has them too. Fractions of a byte are dropped.
inline namespace literals {

#define TESSERA_BYTES(unit, bytes)                                                                           \
    consteval std::int64_t operator""_##unit(unsigned long long n) { return detail::whole_bytes(n, bytes); } \
    consteval std::int64_t operator""_##unit(long double n) { return detail::fractional_bytes(n, bytes); }
TESSERA_BYTES(kB, 1'000)
TESSERA_BYTES(MB, 1'000'000)
TESSERA_BYTES(GB, 1'000'000'000)
TESSERA_BYTES(TB, 1'000'000'000'000)
TESSERA_BYTES(KiB, std::int64_t{1} << 10)
TESSERA_BYTES(MiB, std::int64_t{1} << 20)
TESSERA_BYTES(GiB, std::int64_t{1} << 30)
TESSERA_BYTES(TiB, std::int64_t{1} << 40)
#undef TESSERA_BYTES

}  // namespace literals

}  // namespace tessera
