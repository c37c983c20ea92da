#pragma once
// splitmix64: the one source of pseudo-random numbers, the same bits everywhere (CPU, GPU, any thread count).
// docs/ALKANE.md, "Tile values", states the definition for other programs.

#include <cstdint>

namespace tessera {

/// By how much splitmix64's state grows per output.
inline constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15ULL;
inline constexpr std::uint64_t kMixFirst = 0xbf58476d1ce4e5b9ULL;
inline constexpr std::uint64_t kMixSecond = 0x94d049bb133111ebULL;

/// One step of splitmix64 (Steele, Lea, Flood 2014): its output from state z.
constexpr std::uint64_t mix64(std::uint64_t z) {
    z += kGamma;
    z = (z ^ (z >> 30)) * kMixFirst;
    z = (z ^ (z >> 27)) * kMixSecond;
    return z ^ (z >> 31);
}

/// Output number `value` of splitmix64 started at `state`. Along consecutive values that is one addition and one mix64.
constexpr std::uint64_t combine(std::uint64_t state, std::uint64_t value) { return mix64(state + value * kGamma); }

/// What is left to combine with the element's number, for every element of a tile.
constexpr std::uint64_t tile_state(std::uint64_t seed, std::uint64_t tensor, std::uint64_t tile) {
    return combine(combine(seed, tensor), tile);
}

/// An odd whole number between -2^52 and 2^52 from the upper 53 bits: exact as a double, symmetric, never 0.
constexpr double to_signed_odd(std::uint64_t bits) {
    return static_cast<double>((static_cast<std::int64_t>(bits) >> 11) | 1);
}

/// A double in (-1, 1), never exactly +-1 or 0.
constexpr double to_signed_unit(std::uint64_t bits) { return to_signed_odd(bits) * 0x1p-52; }

/// A double in [0, 1).
constexpr double to_unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace tessera
