#include "base/units.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "base/check.hpp"

namespace tessera {

namespace {

template <std::size_t N>
std::string scaled(double value, double step, const std::array<const char*, N>& units) {
    std::size_t u = 0;
    while (std::abs(value) >= step && u + 1 < N) value /= step, ++u;
    if (u == 0) return fmt::format("{:.0f} {}", value, units[0]);
    return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, units[u]);
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
    return scaled(static_cast<double>(bytes), 1024, std::array{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"});
}

std::string format_flops(double flops) {
    return scaled(flops, 1000, std::array{"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop", "Eflop"});
}

std::string format_seconds(double s) {
    if (s < 1e-3) return fmt::format("{:.1f} us", s * 1e6);
    if (s < 1) return fmt::format("{:.1f} ms", s * 1e3);
    if (s < 100) return fmt::format("{:.2f} s", s);
    return fmt::format("{:.0f} min {:.0f} s", std::floor(s / 60), std::fmod(s, 60));
}

std::string format_count(std::int64_t n) {
    std::string digits = std::to_string(n);
    const std::ptrdiff_t sign = n < 0;
    for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > sign; i -= 3) digits.insert(i, ",");
    return digits;
}

std::string one_line(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\n')
            out += "\\n";
        else if (c == '\t')
            out += "\\t";
        else if (c == '\r')
            out += "\\r";
        else if (static_cast<unsigned char>(c) < ' ' || c == 127)
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out;
}

std::int64_t parse_bytes(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    std::string_view unit = text.substr(end - text.data());
    while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
    struct Unit {
        const char* name;
        double bytes;
    };
    static constexpr Unit units[] = {{"", 1},         {"B", 1},     {"KiB", 1024.},  {"MiB", 1048576.}, {"kB", 1e3},
                                     {"KB", 1e3},     {"MB", 1e6},  {"GB", 1e9},     {"TB", 1e12},      {"GiB", 0x1p30},
                                     {"TiB", 0x1p40}, {"K", 1024.}, {"M", 1048576.}, {"G", 0x1p30},     {"T", 0x1p40}};
    for (const auto& u : units)
        if (error == std::errc{} && unit == u.name) {
            const double bytes = value * u.bytes;
            require(std::isfinite(bytes) && bytes >= 1 && bytes < 0x1p62, "size '{}' is not between 1 byte and 4 EiB",
                    text);
            return static_cast<std::int64_t>(bytes);
        }
    user_error("size '{}': write a number of bytes with B, KiB, MiB, GiB, TiB (or kB, MB, GB, TB), as in 16GiB", text);
}

}  // namespace tessera
