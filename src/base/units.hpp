#pragma once
// Flops, seconds and counts as people read them; bytes are in the public header.

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/base/units.hpp"

namespace TESSERA_API tessera {

inline constexpr std::int64_t kTileAlignment = 64;  // bytes: every tile starts on a cache line of its own

constexpr std::int64_t align_up(std::int64_t bytes, std::int64_t to = kTileAlignment) {
    return (bytes + to - 1) / to * to;
}

/// "1.64 Tflop"
std::string format_flops(double flops);
/// "83.4 ms", "12.3 s", "4 min 5 s"
std::string format_seconds(double seconds);
/// "1,770,732"
std::string format_count(std::int64_t n);
/// The text on one line: line breaks and other control characters as \\n or \\x1b. File names may hold any of them.
std::string one_line(std::string_view text);

}  // namespace tessera
