#include "chem/fock.hpp"

#include <algorithm>

namespace tessera::chem {

namespace {

/// A symmetric matrix by pairs; those off the diagonal stand for two.
RealTensor packed(const RealTensor& x, const PairIndex& pairs) {
    return RealTensor::generate(Shape::dense(TileGrid{pairs.pairs()}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    const auto p = info.coordinates[0], ti = pairs.tile_i(p), tj = pairs.tile_j(p);
                                    const auto tile = x.tile({ti, tj});
                                    if (tile.empty()) return std::ranges::fill(out, 0.0), void();
                                    pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
                                        out[place] = (ti == tj && i == j ? 1.0 : 2.0) * tile[i * pairs.size(tj) + j];
                                    });
                                });
}

RealTensor unpacked(const RealTensor& x, const PairIndex& pairs) {
    return RealTensor::generate(Shape::dense(TileGrid{pairs.single(), pairs.single()}),
                                [&](const TileInfo& info, std::span<double> out) {
                                    const auto ti = info.coordinates[0], tj = info.coordinates[1];
                                    const auto p = pairs.tile_of(ti, tj);
                                    const auto tile = x.tile({p});
                                    if (tile.empty()) return std::ranges::fill(out, 0.0), void();
                                    const auto columns = info.extents[1];
                                    pairs.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t place) {
                                        if (ti >= tj) out[i * columns + j] = tile[place];
                                        if (ti <= tj) out[j * columns + i] = tile[place];
                                    });
                                });
}

}  // namespace

TwoElectron::TwoElectron(const AoIntegrals& integrals, std::int64_t block, std::int64_t kept) : integrals_(integrals) {
    const Tiling& pairs = integrals.pairs().pairs();
    std::int64_t filled = 0, all = 0;
    for (std::int64_t p = 0; p < pairs.tile_count(); ++p) {
        const auto bytes = 8 * pairs.size(TileIndex{p}) * (pairs.begin(TileIndex{p}).value + pairs.size(TileIndex{p}));
        if (blocks_.empty() || filled + bytes > block) {
            blocks_.push_back({p, p, true, {}});
            filled = 0;
        }
        filled += bytes;
        all += bytes;
        blocks_.back().last = p + 1;
        blocks_.back().keep = all <= kept;
    }
}

/// Tiles P >= Q of G; of tiles P = Q one half, which counts twice.
RealTensor TwoElectron::make(const Block& block, int threads) const {
    const PairIndex& pairs = integrals_.pairs();
    const auto norm = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        return integrals_.norm(pairs.tile_of(a, b), pairs.tile_of(c, d));
    };
    const auto view = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        const auto p = pairs.tile_of(a, b), q = pairs.tile_of(c, d);
        return PairView(pairs, a, b, c, d, integrals_.tile(p, q), p < q);
    };
    const TileGrid grid{pairs.pairs(), pairs.pairs()};
    std::vector<ShapeEntry> entries;
    for (auto p = block.first; p < block.last; ++p)
        for (std::int64_t q = 0; q <= p; ++q) {
            const auto m = pairs.tile_i(p), l = pairs.tile_j(p), n = pairs.tile_i(q), s = pairs.tile_j(q);
            if (norm(m, l, n, s) + norm(m, n, l, s) + norm(m, s, l, n) > 0)
                entries.push_back({grid.ordinal({p, q}), 0.0});
        }
    return RealTensor::generate(
        Shape(grid, std::move(entries)),
        [&](const TileInfo& info, std::span<double> out) {
            const auto p = info.coordinates[0], q = info.coordinates[1];
            const auto tm = pairs.tile_i(p), tl = pairs.tile_j(p), tn = pairs.tile_i(q), ts = pairs.tile_j(q);
            const PairView coulomb = view(tm, tl, tn, ts), exchange = view(tm, tn, tl, ts),
                           crossed = view(tm, ts, tl, tn);
            const double of_coulomb = p == q ? 1.0 : 2.0, of_exchange = -0.25 * of_coulomb;
            double* to = out.data();
            pairs.for_each(p, [&](std::int64_t m, std::int64_t l, std::int64_t) {
                const double* ml = coulomb.left(m, l);
                const std::int64_t *ls = exchange.right_row(l), *ms = crossed.left_row(m);
                for (std::int64_t n = 0; n < pairs.size(tn); ++n) {
                    const auto count = tn == ts ? n + 1 : pairs.size(ts);
                    const std::int64_t* ns = coulomb.right_row(n);
                    const double *mn = exchange.left(m, n), *ln = crossed.right(l, n);
                    for (std::int64_t s = 0; s < count; ++s)
                        *to++ = of_coulomb * ml[ns[s]] + of_exchange * (mn[ls[s]] + ln[ms[s]]);
                }
            });
        },
        threads);
}

RealTensor TwoElectron::of(const RealTensor& density, TensorWork& work) {
    const PairIndex& pairs = integrals_.pairs();
    const RealTensor d = packed(density, pairs);
    RealTensor sum(Shape::dense(TileGrid{pairs.pairs()}, 0));
    for (auto& block : blocks_) {
        RealTensor here;
        if (block.tiles.tile_count() == 0) (block.keep ? block.tiles : here) = make(block, work.threads());
        const RealTensor& g = block.keep ? block.tiles : here;
        work.add_product("pq,q->p", g, d, sum);
        work.add_product("pq,p->q", g, d, sum);
    }
    return unpacked(sum, pairs);
}

}  // namespace tessera::chem
