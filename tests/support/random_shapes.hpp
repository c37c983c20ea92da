#pragma once
// Random numbers and tilings for tests.

#include <cstdint>
#include <random>
#include <vector>

#include "tessera/index/tiling.hpp"

namespace tessera::testing {

using Random = std::mt19937_64;

inline std::int64_t pick(Random& r, std::int64_t lo, std::int64_t hi) {
    return std::uniform_int_distribution<std::int64_t>(lo, hi)(r);
}

/// One to so many tiles, each of one to so many elements.
inline Tiling random_tiling(Random& r, std::int64_t most_tiles, std::int64_t most) {
    std::vector<std::int64_t> sizes;
    for (auto n = pick(r, 1, most_tiles); n > 0; --n) sizes.push_back(pick(r, 1, most));
    return Tiling::from_sizes(sizes);
}

}  // namespace tessera::testing
