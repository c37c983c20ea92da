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

std::vector<std::int64_t> PairIndex::positions() const {
    const auto n = single_.extent();
    std::vector<std::int64_t> at(static_cast<std::size_t>(n * n));
    for (std::int64_t p = 0; p < pairs_.tile_count(); ++p) {
        const auto bi = begin(tile_i(p)), bj = begin(tile_j(p)), first = pairs_.begin(TileIndex{p}).value;
        for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
            at[(bi + i) * n + bj + j] = at[(bj + j) * n + bi + i] = first + place;
        });
    }
    return at;
}

namespace {

/// At i (size of tile j) + j: how far in the stored tile the pair is.
std::vector<std::int64_t> places(const PairIndex& pairs, std::int64_t i, std::int64_t j, std::int64_t step) {
    const auto ni = pairs.size(i), nj = pairs.size(j);
    std::vector<std::int64_t> at(static_cast<std::size_t>(ni * nj));
    pairs.for_each(pairs.tile_of(i, j), [&](std::int64_t high, std::int64_t low, std::int64_t place) {
        if (i >= j) at[high * nj + low] = place * step;
        if (i <= j) at[low * nj + high] = place * step;
    });
    return at;
}

constexpr double kZero = 0;

}  // namespace

PairView::PairView(const PairIndex& pairs, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d,
                   std::span<const double> values, bool turned)
    : width_b_(pairs.size(b)), width_d_(pairs.size(d)), values_(values.empty() ? &kZero : values.data()) {
    const auto left = pairs.pairs().size(TileIndex{pairs.tile_of(a, b)});
    const auto right = pairs.pairs().size(TileIndex{pairs.tile_of(c, d)});
    left_ = places(pairs, a, b, values.empty() ? 0 : turned ? 1 : right);
    right_ = places(pairs, c, d, values.empty() ? 0 : turned ? left : 1);
}

void PairParts::add(Tensor<double> part) {
    const auto tiles = part.grid().tiling(part.rank() - 1).tile_count();
    first_of_.push_back(static_cast<std::int64_t>(part_of_.size()));
    part_of_.insert(part_of_.end(), static_cast<std::size_t>(tiles), static_cast<std::int64_t>(parts_.size()));
    parts_.push_back(std::move(part));
}

void PairParts::clear() {
    parts_.clear();
    part_of_.clear();
    first_of_.clear();
}

std::span<const double> PairParts::tile(IndexVector rest, std::int64_t pair_tile) const {
    const auto part = part_of_[pair_tile];
    rest.push_back(pair_tile - first_of_[part]);
    return parts_[part].tile(rest);
}

GeneratedTensor<double> PairParts::unpacked() const { return unpacked(0, parts_.at(0).grid().tiling(0).tile_count()); }

GeneratedTensor<double> PairParts::unpacked(std::int64_t first, std::int64_t last) const {
    const TileGrid& part = parts_.at(0).grid();
    ensure(static_cast<std::int64_t>(part_of_.size()) == pairs_.pairs().tile_count(), "pairs in parts: {} of {} tiles",
           part_of_.size(), pairs_.pairs().tile_count());
    std::vector<std::int64_t> sizes;
    for (auto t = first; t < last; ++t) sizes.push_back(part.tiling(0).size(TileIndex{t}));
    std::vector<Tiling> tilings{Tiling::from_sizes(sizes)};
    for (int d = 1; d + 1 < part.rank(); ++d) tilings.push_back(part.tiling(d));
    tilings.push_back(pairs_.single());
    tilings.push_back(pairs_.single());
    const TileGrid grid(std::move(tilings));
    std::vector<ShapeEntry> entries;
    for (std::size_t n = 0; n < parts_.size(); ++n)
        for (std::int64_t slot = 0; slot < parts_[n].tile_count(); ++slot) {
            auto at = parts_[n].grid().coordinates(parts_[n].shape().tile(slot));
            if (at[0] < first || at[0] >= last) continue;
            const auto p = first_of_[n] + at[at.size() - 1], i = pairs_.tile_i(p), j = pairs_.tile_j(p);
            at[0] -= first;
            at[at.size() - 1] = i;
            at.push_back(j);
            // A diagonal tile holds each pair once, its square twice.
            const double norm = parts_[n].shape().norm_of(slot) * (i == j ? 1.4142135623730952 : 1.0);
            entries.push_back({grid.ordinal(at), norm});
            if (i == j) continue;
            std::swap(at[at.size() - 1], at[at.size() - 2]);
            entries.push_back({grid.ordinal(at), norm});
        }
    auto make = [this, first](const TileInfo& info, std::span<double> out) {
        const auto rank = info.coordinates.size();
        const auto i = info.coordinates[rank - 2], j = info.coordinates[rank - 1];
        const auto pair_tile = pairs_.tile_of(i, j);
        IndexVector rest{info.coordinates[0] + first};
        for (int d = 1; d + 2 < rank; ++d) rest.push_back(info.coordinates[d]);
        const double* from = tile(std::move(rest), pair_tile).data();
        const auto rows = info.extents[rank - 2], columns = info.extents[rank - 1], size = rows * columns;
        const auto step = pairs_.pairs().size(TileIndex{pair_tile});
        for (double *to = out.data(), *end = to + out.size(); to < end; to += size, from += step) {
            if (i > j) {
                std::copy_n(from, size, to);
                continue;
            }
            const double* value = from;
            for (std::int64_t a = 0; a < (i == j ? rows : columns); ++a)
                for (std::int64_t b = 0; b < (i == j ? a + 1 : rows); ++b) {
                    to[b * columns + a] = *value;
                    if (i == j) to[a * columns + b] = *value;
                    ++value;
                }
        }
    };
    return {Shape(grid, std::move(entries)), std::move(make)};
}

Shape lower_tiles(const TileGrid& grid) {
    std::vector<ShapeEntry> entries;
    for (std::int64_t t = 0; t < grid.tile_total(); ++t)
        if (const auto at = grid.coordinates(TileOrdinal{t}); at[0] >= at[1]) entries.push_back({TileOrdinal{t}, 0.0});
    return Shape(grid, std::move(entries));
}

Tensor<double> pack_first(const Tensor<double>& x, const PairIndex& pairs, int threads) {
    const TileGrid grid{pairs.pairs(), x.grid().tiling(2)};
    std::vector<ShapeEntry> entries;
    for (const auto t : x.shape().ordinals())
        if (const auto at = x.grid().coordinates(TileOrdinal{t}); at[0] >= at[1])
            entries.push_back({grid.ordinal({pairs.tile_of(at[0], at[1]), at[2]}), 0.0});
    return Tensor<double>::generate(
        Shape(grid, std::move(entries)),
        [&](const TileInfo& info, std::span<double> out) {
            const auto q = info.coordinates[0];
            const auto tile = x.tile({pairs.tile_i(q), pairs.tile_j(q), info.coordinates[1]});
            const auto columns = pairs.size(pairs.tile_j(q)), run = info.extents[1];
            pairs.for_each(q, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
                std::copy_n(tile.data() + (i * columns + j) * run, run, out.data() + place * run);
            });
        },
        threads);
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
        const auto p = pairs.tile_of(ti, tj);
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
