#pragma once
// How an operand's tiles are made where they are needed: on the host, or on a device.

#include <cstdint>
#include <functional>
#include <span>
#include <variant>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

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
/// Which numbers a tile has. Called from several threads at once.
using HashRule = std::function<HashTileValues(const TileInfo& info)>;
/// The same tiles, made on the host.
template <Scalar T>
TESSERA_API TileGenerator<T> hash_generator(HashRule rule);

/// A tile to be made in a device's memory: element e of the row-major tile at data + (e / columns) * pitch + e %
/// columns, counted in elements.
struct DeviceTile {
    TileInfo info;
    void* data = nullptr;
    std::int64_t rows = 0, columns = 0, pitch = 0;
};
/// Device code of a tile source: starts kernels that fill the tiles, on this stream (a cudaStream_t) of the current
/// device, and need not wait for them. Called with some tiles at a time, by several threads at once; what it throws
/// ends the contraction. It takes no device memory of its own: budgets do not know of it.
using DeviceLaunch = std::function<void(std::span<const DeviceTile> tiles, void* stream)>;
/// How devices make the tiles that a TileGenerator makes on the host: not at all, by the rule of the built-in hash
/// generator, or by kernels of the caller's own. The bits should be the host's, or results depend on where tiles are
/// made.
using DeviceGenerator = std::variant<std::monostate, HashRule, DeviceLaunch>;
/// Whether there is one.
bool makes_tiles(const DeviceGenerator& generator);

}  // namespace tessera
