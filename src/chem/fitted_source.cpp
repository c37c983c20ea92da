// Dressed integrals of CCSD from dressed B(Q|pq): the dressing has three indices, and so have the sums over doubles
// that need it. Four virtual orbitals meet in one block at a time.
#include <algorithm>
#include <cmath>

#include "chem/integral_source.hpp"
#include "chem/orbitals.hpp"
#include "storage/buffer.hpp"
#include "storage/dry_run.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera::chem {

namespace {

constexpr std::size_t kTilesOfLadder = 4;                          // on a device: enough products to fill it
constexpr std::int64_t kMostInBlock = 16, kBlockBytes = 64 << 20;  // virtual orbitals; of (ac|bd) for two runs of a, b

/// EvenOdd::part, tile by tile: c and d are in the tiles of t2.
RealTensor part_of(const RealTensor& t2, const PairIndex& ij, const PairIndex& cd, double sign, int threads) {
    return RealTensor::generate(
        Shape::dense(TileGrid{ij.pairs(), cd.pairs()}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto p = info.coordinates[0], q = info.coordinates[1];
            const auto ti = ij.tile_i(p), tj = ij.tile_j(p), tc = cd.tile_i(q), td = cd.tile_j(q);
            const double *straight = t2.tile({ti, tj, tc, td}).data(), *crossed = t2.tile({ti, tj, td, tc}).data();
            const auto nj = ij.size(tj), nc = cd.size(tc), nd = cd.size(td);
            ij.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t row) {
                const auto from = (i * nj + j) * nc * nd;
                double* to = out.data() + row * info.extents[1];
                cd.for_each(q, [&](std::int64_t c, std::int64_t d, std::int64_t place) {
                    const double value = 0.5 * (straight[from + c * nd + d] + sign * crossed[from + d * nc + c]);
                    to[place] = tc == td && c == d ? 0.5 * value : value;
                });
            });
        },
        threads);
}

/// (ac|bd) + sign (ad|bc) as [c d][a b], c >= d, of one tile of pairs a b, from (ac|bd) as [c][d][a][b].
RealTensor combined(const RealTensor& x, const PairIndex& cd, bool diagonal, double sign, int threads) {
    const auto na = x.grid().tiling(2).extent(), nb = x.grid().tiling(3).extent();
    const Tiling ab{diagonal ? na * (na + 1) / 2 : na * nb};
    return RealTensor::generate(
        Shape::dense(TileGrid{cd.pairs(), ab}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto tc = cd.tile_i(info.coordinates[0]), td = cd.tile_j(info.coordinates[0]);
            const double *straight = x.tile({tc, td, 0, 0}).data(), *crossed = x.tile({td, tc, 0, 0}).data();
            const auto nc = cd.size(tc), nd = cd.size(td);
            double* to = out.data();
            cd.for_each(info.coordinates[0], [&](std::int64_t c, std::int64_t d, std::int64_t) {
                const double *s = straight + (c * nd + d) * na * nb, *t = crossed + (d * nc + c) * na * nb;
                for (std::int64_t a = 0; a < na; ++a)
                    for (std::int64_t b = 0; b < (diagonal ? a + 1 : nb); ++b)
                        *to++ = s[a * nb + b] + sign * t[a * nb + b];
            });
        },
        threads);
}

/// x[p][q] of pairs p and q as an array, put together from columns.
class PairColumns {
  public:
    PairColumns(const PairIndex& rows, const PairIndex& columns)
        : columns_(columns), values_(8 * rows.pairs().extent() * columns.pairs().extent()) {}
    /// Those of one tile of q.
    void put(std::int64_t tile, const RealTensor& x) {
        if (DryRun::current()) return;
        const auto width = columns_.pairs().extent(), at = columns_.pairs().begin(TileIndex{tile}).value;
        auto* to = reinterpret_cast<double*>(values_.data());
        x.for_each_tile([&](const TileInfo& info, std::span<const double> from) {
            for (std::int64_t p = 0; p < info.extents[0]; ++p)
                std::copy_n(from.data() + p * info.extents[1], info.extents[1],
                            to + (info.begin[0] + p) * width + at + info.begin[1]);
        });
    }
    const double* data() const { return reinterpret_cast<const double*>(values_.data()); }

  private:
    const PairIndex& columns_;
    Buffer values_;
};

/// The sum over c, d of t2(ij,cd) (ac|bd), half of the products by what is even and odd: see abcd.cpp. (ac|bd) is made
/// for a run of a and a run of b at a time.
RealTensor ladder(const RealTensor& t2, const RealTensor& ac, TensorWork& w) {
    const Tiling &o = t2.grid().tiling(0), &v = t2.grid().tiling(2);
    const auto n = v.extent();
    const auto fits = static_cast<std::int64_t>(std::sqrt(static_cast<double>(kBlockBytes / (8 * n * n))));
    const PairIndex cd(v), ab(even_tiling(n, std::clamp<std::int64_t>(fits, 4, kMostInBlock)));
    const EvenOdd parts(o, v);
    RealTensor even = part_of(t2, parts.pairs(), cd, 1, w.threads());
    RealTensor odd = part_of(t2, parts.pairs(), cd, -1, w.threads());
    PairColumns of_even(parts.pairs(), ab), of_odd(parts.pairs(), ab);
    for (std::int64_t ta = 0; ta < ab.single().tile_count(); ++ta) {
        const RealTensor rows = rows_of(ac, ab.begin(ta), Tiling{ab.size(ta)}, w.threads());
        for (std::int64_t tb = 0; tb <= ta; ++tb) {
            const RealTensor x = ta == tb ? w.product("Qac,Qbd->cdab", rows, rows)
                                          : w.product("Qac,Qbd->cdab", rows,
                                                      rows_of(ac, ab.begin(tb), Tiling{ab.size(tb)}, w.threads()));
            const auto tile = ab.tile_of(ta, tb);
            of_even.put(tile, w.product("pq,qr->pr", even, combined(x, cd, ta == tb, 1, w.threads())));
            of_odd.put(tile, w.product("pq,qr->pr", odd, combined(x, cd, ta == tb, -1, w.threads())));
        }
    }
    even = odd = RealTensor();
    return parts.join(of_even.data(), of_odd.data(), ab, w.threads());
}

/// x(ij,ab) += what with x(ji,ba) adds up to it. (ac|bd) is made for a few tiles of a, b at a time, a >= b, and the
/// library's contractions do all there is to do: for tensors that live on a device.
void add_ladder_by_tiles(const RealTensor& t2, const RealTensor& ac, RealTensor& x, TensorWork& w) {
    const Tiling& v = t2.grid().tiling(2);
    const TileGrid grid{v, v, v, v};
    std::vector<std::pair<std::int64_t, std::int64_t>> below, diagonal;
    for (std::int64_t a = 0; a < v.tile_count(); ++a) {
        for (std::int64_t b = 0; b < a; ++b) below.emplace_back(a, b);
        diagonal.emplace_back(a, a);
    }
    const auto add = [&](const auto& tiles, double factor) {
        for (std::size_t begin = 0; begin < tiles.size(); begin += kTilesOfLadder) {
            std::vector<ShapeEntry> entries;
            for (std::size_t n = begin; n < std::min(begin + kTilesOfLadder, tiles.size()); ++n)
                for (std::int64_t c = 0; c < v.tile_count(); ++c)
                    for (std::int64_t d = 0; d < v.tile_count(); ++d)
                        entries.push_back({grid.ordinal({c, d, tiles[n].first, tiles[n].second}), 0.0});
            const RealTensor made = w.product("Qac,Qbd->cdab", ac, ac, Shape(grid, std::move(entries)));
            axpy(factor, w.product("ijcd,cdab->ijab", t2, made), x);  // a few tiles of x
        }
    };
    add(below, 1.0);
    add(diagonal, 0.5);
}

/// Where `like` lives.
RealTensor beside(RealTensor x, const RealTensor& like) {
    return like.on_devices() ? to_devices(x, like.placement().devices) : std::move(x);
}

}  // namespace

std::shared_ptr<const RealTensor> FittedSource::exchange(TensorWork& w) const {
    if (exchange_) return exchange_;
    const auto x = std::make_shared<const RealTensor>(w.product("Qia,Qjb->ijab", b_.ov, b_.ov));
    if (b_.ov.on_devices()) exchange_ = x;
    return x;
}

std::shared_ptr<const RealTensor> FittedSource::exchange_summed(TensorWork& w) const {
    if (exchange_summed_) return exchange_summed_;
    RealTensor x = w.product("Qia,Qjb->ijab", b_.ov, b_.ov, 2);
    w.add_product("Qib,Qja->ijab", b_.ov, b_.ov, x, -1);
    const auto summed = std::make_shared<const RealTensor>(std::move(x));
    if (b_.ov.on_devices()) exchange_summed_ = summed;
    return summed;
}

double FittedSource::exchange_with(const RealTensor& x, TensorWork& w) const {
    return dot(b_.ov, w.product("Qkc,kica->Qia", b_.ov, x));
}

FittedOrbitals to_device(const FittedOrbitals& b, int device) {
    return {to_devices(b.oo, {device}), to_devices(b.ov, {device}), to_devices(b.vv, {device})};
}

DressedFock FittedSource::dress(const RealTensor& t1, TensorWork& w) {
    ki_ = b_.oo;
    w.add_product("Qkc,ic->Qki", b_.ov, t1, ki_);
    ai_ = b_.ov;
    w.add_product("Qac,ic->Qia", b_.vv, t1, ai_);
    w.add_product("Qki,ka->Qia", ki_, t1, ai_, -1);
    ac_ = b_.vv;
    w.add_product("Qkc,ka->Qac", b_.ov, t1, ac_, -1);

    const auto tiled = [&](const RealTensor& x) {
        return field_->tiles() == field_->functions() ? x : retile(x, TileGrid{field_->tiles(), x.grid().tiling(1)});
    };
    const RealTensor o = beside(tiled(orbitals_.occupied), t1), v = beside(tiled(orbitals_.virtuals), t1);
    const RealTensor g = field_->of_product(w.product("mc,lc->ml", v, t1), o, w);
    const RealTensor go = w.product("mn,nj->mj", g, o), gv = w.product("mn,nc->mc", g, v);
    DressedFock f;
    f.kc = w.product("mk,mc->kc", o, gv);
    f.kj = w.product("mk,mj->kj", o, go);
    f.bc = w.product("mb,mc->bc", v, gv);
    f.ia = w.product("ma,mi->ia", v, go);
    return f;
}

DressedSums FittedSource::sums(const RealTensor& u, TensorWork& w) const {
    const RealTensor y = w.product("Qkc,kica->Qia", b_.ov, u);
    DressedSums g;
    g.kj = w.product("Qjd,Qkd->kj", y, b_.ov);
    g.bc = w.product("Qkb,Qkc->bc", y, b_.ov);
    g.ia = w.product("Qid,Qad->ia", y, ac_);
    w.add_product("Qka,Qki->ia", y, ki_, g.ia, -1);
    return g;
}

RealTensor FittedSource::ki_ac(TensorWork& w) const { return w.product("Qki,Qac->ikac", ki_, ac_); }

RealTensor FittedSource::ai_kc(TensorWork& w) const { return w.product("Qia,Qkc->ikac", ai_, b_.ov); }

void FittedSource::add_ladders(const Amplitudes& t, RealTensor& x, TensorWork& w) const {
    w.add_product("Qia,Qjb->ijab", ai_, ai_, x, 0.5);
    RealTensor pairs = w.product("Qki,Qlj->klij", ki_, ki_);
    w.add_product("klcd,ijcd->klij", *exchange(w), t.t2, pairs);
    w.add_product("klij,klab->ijab", pairs, t.t2, x, 0.5);
    if (by_tiles_ || t.t2.on_devices())
        add_ladder_by_tiles(t.t2, ac_, x, w);
    else
        axpy(0.5, ladder(t.t2, ac_, w), x);
}

}  // namespace tessera::chem
