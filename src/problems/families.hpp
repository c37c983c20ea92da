#pragma once
// One maker per family of problems; arguments are already valid (src/problems/problem.cpp checks them).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/problems/problem.hpp"

namespace tessera {

Problem make_dense(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t tile);
Problem make_blocks(std::int64_t count, std::int64_t size, double occupancy, std::uint64_t seed);
Problem make_synthetic(std::int64_t m, std::int64_t n, std::int64_t k, double density, std::int64_t lo, std::int64_t hi,
                       std::uint64_t seed);

/// name: of the tiling, as the problem's text has it.
struct AlkaneTiling {
    std::string name;
    std::int64_t occupied_clusters, ao_clusters;
};
/// v1, v2 or v3 for so many carbons; nothing for other names.
std::optional<AlkaneTiling> published_tiling(std::string_view name, std::int64_t carbons);
Problem make_alkane(std::int64_t carbons, const AlkaneTiling& tiling, bool minimal_basis);

/// What combine()s with the seed first, so that each use of it has its own numbers.
enum class Stream : std::uint64_t { values_a, values_b, choice_a, choice_b, sizes_m, sizes_n, sizes_k };

/// More tiles than this in a matrix problem is refused: nothing useful is left to do with them.
inline constexpr std::int64_t kMostTiles = 100'000'000;
inline constexpr std::int64_t kMostCarbons = 1000;

}  // namespace tessera
