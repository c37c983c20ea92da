// dense: every tile there. blocks: square tiles, each there with a probability.
#include <fmt/format.h>

#include <cmath>

#include "base/hash.hpp"
#include "problems/families.hpp"
#include "problems/uniform_values.hpp"

namespace tessera {

HashRule uniform_values(std::uint64_t seed, Stream stream) {
    return [seed, stream](const TileInfo& info) -> HashTileValues {
        return {tile_state(seed, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(info.tile.value)), 1.0};
    };
}

void set_values(Problem& problem, HashRule a, HashRule b) {
    problem.make_a = hash_generator<double>(a);
    problem.hash_a = std::move(a);
    problem.make_b = hash_generator<double>(b);
    problem.hash_b = std::move(b);
}

Shape with_uniform_norms(const TileGrid& grid, std::vector<std::int64_t> ordinals) {
    std::vector<double> norms(ordinals.size());
    const std::int64_t columns = grid.tiling(1).tile_count();
    for (std::size_t i = 0; i < ordinals.size(); ++i) {
        const TileIndex row{ordinals[i] / columns}, column{ordinals[i] % columns};
        norms[i] = std::sqrt(static_cast<double>(grid.tiling(0).size(row) * grid.tiling(1).size(column)));
    }
    return Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
}

Problem make_dense(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t tile) {
    const Tiling rows = Tiling::uniform(m, tile), columns = Tiling::uniform(n, tile), inner = Tiling::uniform(k, tile);
    const auto all = [](const TileGrid& grid) {
        std::vector<std::int64_t> ordinals(grid.tile_total());
        for (std::size_t i = 0; i < ordinals.size(); ++i) ordinals[i] = static_cast<std::int64_t>(i);
        return with_uniform_norms(grid, std::move(ordinals));
    };
    Problem p;
    p.name = fmt::format("dense:{},{},{},{}", m, n, k, tile);
    p.spec = "mk,kn->mn";
    p.a = all({rows, inner});
    p.b = all({inner, columns});
    set_values(p, uniform_values(1, Stream::values_a), uniform_values(1, Stream::values_b));
    return p;
}

Problem make_blocks(std::int64_t count, std::int64_t size, double occupancy, std::uint64_t seed) {
    const TileGrid grid{Tiling::uniform(count * size, size), Tiling::uniform(count * size, size)};
    const auto choose = [&](Stream stream) {
        const std::uint64_t state = combine(seed, static_cast<std::uint64_t>(stream));
        std::vector<std::int64_t> ordinals;
        ordinals.reserve(static_cast<std::size_t>(1.1 * occupancy * static_cast<double>(grid.tile_total())) + 16);
        for (std::int64_t tile = 0; tile < grid.tile_total(); ++tile)
            if (to_unit(combine(state, static_cast<std::uint64_t>(tile))) < occupancy) ordinals.push_back(tile);
        ordinals.shrink_to_fit();
        return with_uniform_norms(grid, std::move(ordinals));
    };
    Problem p;
    p.name = fmt::format("blocks:{},{},{}", count, size, occupancy) + (seed == 1 ? "" : fmt::format(",{}", seed));
    p.spec = "mk,kn->mn";
    p.a = choose(Stream::choice_a);
    p.b = choose(Stream::choice_b);
    set_values(p, uniform_values(seed, Stream::values_a), uniform_values(seed, Stream::values_b));
    return p;
}

}  // namespace tessera
