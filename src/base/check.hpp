#pragma once
// Checks that throw, with their operands in the message.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>

#include "tessera/base/api.hpp"
#include "tessera/base/error.hpp"

namespace TESSERA_API tessera {

template <class... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> text, Args&&... args) {
    throw UserError(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
    if (!ok) [[unlikely]]
        throw UserError(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void ensure(bool ok, fmt::format_string<Args...> text, Args&&... args) {
    if (!ok) [[unlikely]]
        throw InternalError("internal: " + fmt::format(text, std::forward<Args>(args)...));
}

/// a * b, or a UserError naming what overflowed. Both must be non-negative.
inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b, const char* what) {
    std::int64_t r = 0;
    require(!__builtin_mul_overflow(a, b, &r), "{}: {} x {} does not fit in 64 bits", what, a, b);
    return r;
}

inline std::int64_t checked_add(std::int64_t a, std::int64_t b, const char* what) {
    std::int64_t r = 0;
    require(!__builtin_add_overflow(a, b, &r), "{}: {} + {} does not fit in 64 bits", what, a, b);
    return r;
}

}  // namespace tessera
