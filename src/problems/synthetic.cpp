// synthetic: tiles of random sizes; nonzero tiles removed one by one at random down to a density.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/hash.hpp"
#include "problems/families.hpp"
#include "problems/uniform_values.hpp"

namespace tessera {

namespace {

/// Number `i` of the stream as a whole number in 0..bound-1.
std::int64_t below(std::uint64_t state, std::int64_t i, std::int64_t bound) {
    const double x = to_unit(combine(state, static_cast<std::uint64_t>(i))) * static_cast<double>(bound);
    return std::min(static_cast<std::int64_t>(x), bound - 1);
}

/// Sizes uniform in lo..hi until the extent is used up; the last tile is what is left.
Tiling random_tiling(std::int64_t extent, std::int64_t lo, std::int64_t hi, std::uint64_t state) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = extent, i = 0; left > 0; ++i) {
        sizes.push_back(std::min(left, lo + below(state, i, hi - lo + 1)));
        left -= sizes.back();
    }
    return Tiling::from_sizes(sizes);
}

/// Takes tiles away in random order, and stops at the first that would bring the density below the target.
Shape thinned(const TileGrid& grid, double density, std::uint64_t state) {
    std::vector<std::int64_t> tiles(grid.tile_total());
    std::iota(tiles.begin(), tiles.end(), std::int64_t{0});
    const std::int64_t columns = grid.tiling(1).tile_count();
    const auto elements = [&](std::int64_t tile) {
        return grid.tiling(0).size(TileIndex{tile / columns}) * grid.tiling(1).size(TileIndex{tile % columns});
    };
    const double all = static_cast<double>(grid.element_total());
    std::int64_t kept = grid.element_total();
    while (!tiles.empty()) {
        const auto count = static_cast<std::int64_t>(tiles.size());
        const std::int64_t at = below(state, count, count);
        const std::int64_t left = kept - elements(tiles[at]);
        if (static_cast<double>(left) / all < density) break;
        kept = left;
        tiles[at] = tiles.back();
        tiles.pop_back();
    }
    std::sort(tiles.begin(), tiles.end());
    return with_uniform_norms(grid, std::move(tiles));
}

}  // namespace

Problem make_synthetic(std::int64_t m, std::int64_t n, std::int64_t k, double density, std::int64_t lo, std::int64_t hi,
                       std::uint64_t seed) {
    const auto state = [&](Stream stream) { return combine(seed, static_cast<std::uint64_t>(stream)); };
    const Tiling rows = random_tiling(m, lo, hi, state(Stream::sizes_m));
    const Tiling columns = random_tiling(n, lo, hi, state(Stream::sizes_n));
    const Tiling inner = random_tiling(k, lo, hi, state(Stream::sizes_k));
    Problem p;
    p.name = fmt::format("synthetic:{},{},{},{}", m, n, k, density);
    if (lo != 512 || hi != 2048 || seed != 1) p.name += fmt::format(",{},{}", lo, hi);
    if (seed != 1) p.name += fmt::format(",{}", seed);
    p.spec = "mk,kn->mn";
    p.a = thinned({rows, inner}, density, state(Stream::choice_a));
    p.b = thinned({inner, columns}, density, state(Stream::choice_b));
    set_values(p, uniform_values(seed, Stream::values_a), uniform_values(seed, Stream::values_b));
    return p;
}

}  // namespace tessera
