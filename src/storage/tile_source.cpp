#include "tessera/storage/tile_source.hpp"

namespace tessera {

TileInfo tile_info(const TileGrid& grid, TileOrdinal tile) {
    TileInfo info{tile, grid.coordinates(tile), {}, {}};
    for (int d = 0; d < grid.rank(); ++d) {
        const TileIndex t{info.coordinates[d]};
        info.extents.push_back(grid.tiling(d).size(t));
        info.begin.push_back(grid.tiling(d).begin(t).value);
    }
    return info;
}

}  // namespace tessera
