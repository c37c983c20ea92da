#pragma once
// What the matrix problems share: elements uniform in (-1, 1), hence norms of at most sqrt(elements).

#include <cstdint>
#include <vector>

#include "problems/families.hpp"

namespace tessera {

HashRule uniform_values(std::uint64_t seed, Stream stream);
/// The problem's generators from their rules.
TESSERA_API void set_values(Problem& problem, HashRule a, HashRule b);
/// The matrix's tiles with these ordinals, sorted, each with its bound as norm.
Shape with_uniform_norms(const TileGrid& grid, std::vector<std::int64_t> ordinals);

}  // namespace tessera
