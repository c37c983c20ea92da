// Integrals over basis functions to integrals over orbitals, one pair of indices after the other. Large ones are never
// whole half way: they go through in blocks.
#include "base/check.hpp"
#include "chem/orbitals.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kBlockBytes = 32 << 20;  // of integrals (x|ls) that are transformed at a time
constexpr std::int64_t kVirtualsInTile = 16;    // tiles of pairs of these

/// Runs of tiles of pairs p such that (p|ls) fits a block; a tile at least.
std::vector<std::pair<std::int64_t, std::int64_t>> blocks(const Tiling& pairs, std::int64_t functions) {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const auto most = kBlockBytes / (8 * functions * functions);
    for (std::int64_t p = 0, filled = 0; p < pairs.tile_count(); ++p) {
        const auto size = pairs.size(TileIndex{p});
        if (out.empty() || filled + size > most) {
            out.emplace_back(p, p);
            filled = 0;
        }
        filled += size;
        out.back().second = p + 1;
    }
    return out;
}

/// (x|ls) to (x|ab), pairs a >= b, as [ab][x].
RealTensor to_virtual_pairs(const RealTensor& half, const RealTensor& virtuals, const PairIndex& pairs,
                            TensorWork& work) {
    const TileGrid grid{pairs.single(), pairs.single(), half.grid().tiling(0)};
    return pack_first(work.product("xla,lb->abx", half, virtuals, lower_tiles(grid)), pairs, work.threads());
}

/// (x|bd) for all b of a tile and one d, in order: pairs of x are tiles (b, d).
void copy_column(const PairIndex& pairs, std::int64_t tile_b, std::int64_t tile_d, std::int64_t d, const double* row,
                 double sign, double* out) {
    const auto nb = pairs.size(tile_b), nd = pairs.size(tile_d);
    const auto below = tile_b > tile_d ? nb : tile_b == tile_d ? d : std::int64_t{0};
    if (tile_b > tile_d) {
        for (std::int64_t b = 0; b < below; ++b) out[b] += sign * row[b * nd + d];
        return;
    }
    const double* from = row + (tile_b == tile_d ? d * (d + 1) / 2 : d * nb);
    const auto straight = tile_b == tile_d ? d + 1 : nb;
    for (std::int64_t b = 0; b < straight; ++b) out[b] += sign * from[b];
    for (std::int64_t b = straight; b < nb; ++b) out[b] += sign * row[b * (b + 1) / 2 + d];
}

/// (ac|bd) + sign (ad|bc) from (ac|bd) by pairs.
RealTensor combined(const PairParts& x, double sign, int threads) {
    const PairIndex& pairs = x.pairs();
    // (ac|b d) for all b of a tile is added to out.
    const auto add = [&](std::int64_t ta, std::int64_t a, std::int64_t tc, std::int64_t c, std::int64_t tb,
                         std::int64_t td, std::int64_t d, double factor, double* out) {
        const auto left = pairs.tile_of(std::max(ta, tc), std::min(ta, tc));
        const auto right = pairs.tile_of(std::max(tb, td), std::min(tb, td));
        const auto tile = x.tile({left}, right);
        if (tile.empty()) return;
        std::int64_t place = 0;
        if (ta == tc)
            place = std::max(a, c) * (std::max(a, c) + 1) / 2 + std::min(a, c);
        else
            place = ta > tc ? a * pairs.size(tc) + c : c * pairs.size(ta) + a;
        copy_column(pairs, tb, td, d, tile.data() + place * pairs.pairs().size(TileIndex{right}), factor, out);
    };
    return RealTensor::generate(
        Shape::dense(TileGrid{pairs.pairs(), pairs.pairs()}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto cd = info.coordinates[0], ab = info.coordinates[1];
            const auto tc = pairs.tile_i(cd), td = pairs.tile_j(cd), ta = pairs.tile_i(ab), tb = pairs.tile_j(ab);
            std::vector<double> line(static_cast<std::size_t>(pairs.size(tb)));
            double* to = out.data();
            pairs.for_each(cd, [&](std::int64_t c, std::int64_t d, std::int64_t) {
                for (std::int64_t a = 0; a < pairs.size(ta); ++a) {
                    std::fill(line.begin(), line.end(), 0.0);
                    add(ta, a, tc, c, tb, td, d, 1.0, line.data());
                    add(ta, a, td, d, tb, tc, c, sign, line.data());
                    const auto count = ta == tb ? a + 1 : pairs.size(tb);
                    to = std::copy_n(line.data(), count, to);
                }
            });
        },
        threads);
}

}  // namespace

MoIntegrals transform(std::unique_ptr<AoIntegrals> ao, const Orbitals& orbitals, Transform what, TensorWork& work) {
    const RealTensor &o = orbitals.occupied, &v = orbitals.virtuals;
    const PairIndex functions = ao->pairs();
    const auto n = functions.single().extent();
    MoIntegrals out;

    // First pair: (p|ls) to (p|ij), (p|ia), (p|ab), with p last.
    PairParts oo(functions), ov(functions), vv(functions);
    RealTensor fine;  // the virtual orbitals in the tiles of their pairs
    if (what == Transform::ccsd_four_virtuals) {
        out.vvvv.pairs = PairIndex(even_tiling(orbitals.virtual_count(), kVirtualsInTile));
        fine = to_tensor(orbitals.virtual_matrix, functions.single(), out.vvvv.pairs.single());
    }
    for (const auto& [first, last] : blocks(functions.pairs(), n)) {
        const auto made = ao->half_unpacked(first, last);
        const RealTensor block = RealTensor::generate(made.shape, made.make, work.threads());
        RealTensor half = work.product("pls,si->pli", block, o);
        ov.add(work.product("pli,la->iap", half, v));
        if (what != Transform::mp2) oo.add(work.product("pli,lj->jip", half, o));
        if (what != Transform::ccsd_four_virtuals) continue;
        half = work.product("pls,sa->pla", block, fine);
        vv.add(to_virtual_pairs(half, fine, out.vvvv.pairs, work));
    }
    ao.reset();

    // Second pair, one class after the other so that little is held at a time.
    {
        const auto made = ov.unpacked();
        RealTensor half = work.lean_product("jbls,si->jbli", made, o);
        out.oovv = work.product("jbli,la->ijab", half, v);
        if (what == Transform::mp2) return out;
        half = work.lean_product("kcls,sd->kcld", made, v);
        out.ovvv = work.product("kcld,la->kcad", half, v);
    }
    ov.clear();
    {
        const auto made = oo.unpacked();
        RealTensor half = work.lean_product("kims,sl->kiml", made, o);
        out.oooo = work.product("kiml,mj->kilj", half, o);
        out.ooov = work.product("kiml,mc->kilc", half, v);
        half = work.lean_product("kims,sc->kimc", made, v);
        out.o_o_vv = work.product("kimc,ma->kiac", half, v);
    }
    oo.clear();
    if (what == Transform::ccsd) return out;
    PairParts whole(out.vvvv.pairs);
    for (const auto& [first, last] : blocks(out.vvvv.pairs.pairs(), n)) {
        const auto made = vv.unpacked(first, last);
        const RealTensor half = work.lean_product("xls,sa->xla", made, fine);
        whole.add(to_virtual_pairs(half, fine, out.vvvv.pairs, work));
    }
    vv.clear();
    out.vvvv.plus = combined(whole, 1, work.threads());
    out.vvvv.minus = combined(whole, -1, work.threads());
    return out;
}

}  // namespace tessera::chem
