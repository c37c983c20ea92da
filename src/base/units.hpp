#pragma once
// Bytes, flops and seconds as people read and write them.

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr std::int64_t kTileAlignment = 64;  // bytes: every tile starts on a cache line of its own

constexpr std::int64_t align_up(std::int64_t bytes, std::int64_t to = kTileAlignment) {
    return (bytes + to - 1) / to * to;
}

/// "512 B", "1.21 MiB", "16.0 GiB"
std::string format_bytes(std::int64_t bytes);
/// "1.64 Tflop"
std::string format_flops(double flops);
/// "83.4 ms", "12.3 s", "4 min 5 s"
std::string format_seconds(double seconds);
/// "1,770,732"
std::string format_count(std::int64_t n);
/// The text on one line: line breaks and other control characters as \\n or \\x1b. File names may hold any of them.
std::string one_line(std::string_view text);
/// "16GiB", "512MiB", "1.5GB", "65536": a positive number of bytes, or UserError.
std::int64_t parse_bytes(std::string_view text);

}  // namespace tessera
