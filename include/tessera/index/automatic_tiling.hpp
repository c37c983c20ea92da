#pragma once
// Tiles for dense data that nobody tiled.

#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/index/index_vector.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

/// Tiles of an operand of a spec, by its number from 0: from the spec and the operand's extents alone, the same on
/// every machine. Indices that several operands have get the same tiles in each. Of two operands contracted in these
/// tiles the result has the bits that contract() of the arrays themselves gives.
TileGrid automatic_grid(std::string_view spec, int operand, const IndexVector& extents);

}  // namespace tessera
