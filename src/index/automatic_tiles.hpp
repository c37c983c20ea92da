#pragma once
// Tile sizes for dense arrays that nobody tiled: from the spec and the extents alone, so that the order of summation is
// the same on every machine.

#include <array>
#include <cstdint>

#include "tessera/index/contraction_spec.hpp"
#include "tessera/index/index_vector.hpp"

namespace tessera {

/// By label: elements of its tiles (the last ones may be smaller). 1 for labels the spec does not have.
using TileSizes = std::array<std::int64_t, 256>;

/// Contracted labels: tiles of about 256 products, with a few cache lines along the fastest index of A and of B. Rows
/// and columns: about 256 each, batches about 64, with the same care for the fastest indices.
TileSizes automatic_tile_sizes(const ContractionSpec& spec, const IndexVector& a, const IndexVector& b);

}  // namespace tessera
