#pragma once
// Where an operand's tiles come from, and where result tiles go.

#include <cstdint>
#include <functional>
#include <span>

#include "tessera/base/scalar.hpp"
#include "tessera/index/tile_grid.hpp"

namespace tessera {

/// Which tile is wanted: its number, coordinates, extents, and the first element along each index.
struct TileInfo {
    TileOrdinal tile;
    IndexVector coordinates, extents, begin;
};
TileInfo tile_info(const TileGrid& grid, TileOrdinal tile);

/// Fills a tile, row-major. Called from several threads at once; must depend on the tile alone.
template <Scalar T>
using TileGenerator = std::function<void(const TileInfo& info, std::span<T> tile)>;

}  // namespace tessera
