#include "tessera/storage/tile_source.hpp"

#include "base/hash_fill.hpp"

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

bool makes_tiles(const DeviceGenerator& generator) {
    if (const auto* rule = std::get_if<HashRule>(&generator)) return static_cast<bool>(*rule);
    if (const auto* launch = std::get_if<DeviceLaunch>(&generator)) return static_cast<bool>(*launch);
    return false;
}

template <Scalar T>
TileGenerator<T> hash_generator(HashRule rule) {
    return [rule = std::move(rule)](const TileInfo& info, std::span<T> tile) {
        const auto values = rule(info);
        hash_fill(values.state, values.scale, tile);
    };
}
template TileGenerator<float> hash_generator<float>(HashRule);
template TileGenerator<double> hash_generator<double>(HashRule);
template TileGenerator<std::complex<float>> hash_generator<std::complex<float>>(HashRule);
template TileGenerator<std::complex<double>> hash_generator<std::complex<double>>(HashRule);

}  // namespace tessera
