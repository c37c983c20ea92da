#include "chem/pairs.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera::chem {

PairIndex::PairIndex(Tiling single) : single_(std::move(single)) {
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < single_.tile_count(); ++i)
        for (std::int64_t j = 0; j <= i; ++j) {
            sizes.push_back(i == j ? size(i) * (size(i) + 1) / 2 : size(i) * size(j));
            tile_i_.push_back(i);
        }
    pairs_ = Tiling::from_sizes(sizes);
}

GeneratedTensor<double> unpacked(const Tensor<double>& x, const PairIndex& pairs) {
    std::vector<Tiling> tilings{pairs.single(), pairs.single()};
    for (int d = 1; d < x.rank(); ++d) tilings.push_back(x.grid().tiling(d));
    const TileGrid grid(std::move(tilings));
    std::vector<ShapeEntry> entries;
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        const auto at = x.grid().coordinates(x.shape().tile(s));
        IndexVector to{pairs.tile_i(at[0]), pairs.tile_j(at[0])};
        for (int d = 1; d < x.rank(); ++d) to.push_back(at[d]);
        // A diagonal tile holds each pair once, its square twice.
        const double norm = x.shape().norm_of(s) * (to[0] == to[1] ? 1.4142135623730952 : 1.0);
        entries.push_back({grid.ordinal(to), norm});
        if (to[0] == to[1]) continue;
        std::swap(to[0], to[1]);
        entries.push_back({grid.ordinal(to), norm});
    }
    auto make = [&x, &pairs](const TileInfo& info, std::span<double> out) {
        const auto i = info.coordinates[0], j = info.coordinates[1];
        const auto pair_tile = pairs.tile_of(std::max(i, j), std::min(i, j));
        IndexVector from{pair_tile};
        for (int d = 2; d < info.coordinates.size(); ++d) from.push_back(info.coordinates[d]);
        const auto tile = x.tile(from);
        const auto columns = info.extents[1];
        const auto run = static_cast<std::int64_t>(out.size()) / (info.extents[0] * columns);
        pairs.for_each(pair_tile, [&](std::int64_t a, std::int64_t b, std::int64_t place) {
            const double* row = tile.data() + place * run;
            if (i >= j) std::copy_n(row, run, out.data() + (a * columns + b) * run);
            if (i <= j) std::copy_n(row, run, out.data() + (b * columns + a) * run);
        });
    };
    return {Shape(grid, std::move(entries)), std::move(make)};
}

Tensor<double> pack_pairs(const Tensor<double>& x, const PairIndex& pairs) {
    const TileGrid grid{pairs.pairs(), x.grid().tiling(2), x.grid().tiling(3)};
    std::vector<ShapeEntry> entries;
    for (auto o : x.shape().ordinals()) {
        const auto at = x.grid().coordinates(TileOrdinal{o});
        if (at[0] >= at[1]) entries.push_back({grid.ordinal({pairs.tile_of(at[0], at[1]), at[2], at[3]}), 0.0});
    }
    return Tensor<double>::generate(Shape(grid, std::move(entries)), [&](const TileInfo& info, std::span<double> out) {
        const auto p = info.coordinates[0], tj = pairs.tile_j(p);
        const auto tile = x.tile({pairs.tile_i(p), tj, info.coordinates[1], info.coordinates[2]});
        const auto run = info.extents[1] * info.extents[2];
        pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
            std::copy_n(tile.data() + (i * pairs.size(tj) + j) * run, run, out.data() + place * run);
        });
    });
}

Tensor<double> unpack_pairs(const Tensor<double>& x, const PairIndex& pairs) {
    const TileGrid grid{pairs.single(), pairs.single(), x.grid().tiling(1), x.grid().tiling(2)};
    std::vector<ShapeEntry> entries;
    for (auto o : x.shape().ordinals()) {
        const auto at = x.grid().coordinates(TileOrdinal{o});
        const auto i = pairs.tile_i(at[0]), j = pairs.tile_j(at[0]);
        entries.push_back({grid.ordinal({i, j, at[1], at[2]}), 0.0});
        if (i != j) entries.push_back({grid.ordinal({j, i, at[2], at[1]}), 0.0});
    }
    // On the diagonal x(p, a, b) serves (i, j, a, b) and (j, i, b, a), which may be tiles of their own.
    std::sort(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.tile.value < b.tile.value; });
    std::vector<std::int64_t> ordinals;
    for (const auto& e : entries) {
        const auto at = grid.coordinates(e.tile);
        ordinals.push_back(e.tile.value);
        if (at[0] == at[1]) ordinals.push_back(grid.ordinal({at[0], at[1], at[3], at[2]}).value);
    }
    std::sort(ordinals.begin(), ordinals.end());
    ordinals.erase(std::unique(ordinals.begin(), ordinals.end()), ordinals.end());
    std::vector<double> norms(ordinals.size(), 0.0);
    const Shape shape = Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
    return Tensor<double>::generate(shape, [&](const TileInfo& info, std::span<double> out) {
        const auto ti = info.coordinates[0], tj = info.coordinates[1];
        const auto p = pairs.tile_of(std::max(ti, tj), std::min(ti, tj));
        const auto na = info.extents[2], nb = info.extents[3];
        const auto straight = x.tile({p, info.coordinates[2], info.coordinates[3]});
        const auto swapped = x.tile({p, info.coordinates[3], info.coordinates[2]});
        std::fill(out.begin(), out.end(), 0.0);
        pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
            if (ti >= tj && !straight.empty())
                std::copy_n(straight.data() + place * na * nb, na * nb,
                            out.data() + (i * info.extents[1] + j) * na * nb);
            if (ti > tj || (ti == tj && i == j) || swapped.empty()) return;
            double* to = out.data() + (j * info.extents[1] + i) * na * nb;
            const double* from = swapped.data() + place * na * nb;
            for (std::int64_t a = 0; a < na; ++a)
                for (std::int64_t b = 0; b < nb; ++b) to[a * nb + b] = from[b * na + a];
        });
    });
}

}  // namespace tessera::chem
