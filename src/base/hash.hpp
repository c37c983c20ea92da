#pragma once
// splitmix64: the one source of pseudo-random numbers, the same bits everywhere (CPU, GPU, any thread count).

#include <cstdint>

namespace tessera {

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t z) {
    z += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/// State and one more number, mixed.
constexpr std::uint64_t combine(std::uint64_t state, std::uint64_t value) { return mix64(state ^ value); }

/// 52 bits as a double in (-1, 1), never exactly +-1 or 0.
constexpr double to_signed_unit(std::uint64_t bits) {
    return (static_cast<double>(static_cast<std::int64_t>(bits >> 12)) + 0.5) * 0x1p-51 - 1.0;
}

}  // namespace tessera
