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

/// A tile of pseudo-random numbers that hosts and devices make alike: uniform in (-scale, scale), element e from output
/// number e of splitmix64 started at state (docs/ALKANE.md, "Tile values").
struct HashTileValues {
    std::uint64_t state = 0;
    double scale = 1;
};
/// The registered device generator: which numbers a tile has. Called from several threads at once.
using HashRule = std::function<HashTileValues(const TileInfo& info)>;
/// The same tiles, made on the host.
template <Scalar T>
TileGenerator<T> hash_generator(HashRule rule);

}  // namespace tessera
