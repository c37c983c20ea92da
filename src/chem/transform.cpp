// Integrals over basis functions to integrals over orbitals, one pair of indices after the other. Large ones are never
// whole half way: they go through in blocks.
#include <algorithm>

#include "chem/orbitals.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kVirtualsInTile = 16;  // tiles of pairs of these

/// (x|ls) to (x|ab), pairs a >= b, as [ab][x].
RealTensor to_virtual_pairs(const RealTensor& half, const RealTensor& virtuals, const PairIndex& pairs,
                            TensorWork& work) {
    const TileGrid grid{pairs.single(), pairs.single(), half.grid().tiling(0)};
    return pack_first(work.product("xla,lb->abx", half, virtuals, lower_tiles(grid)), pairs, work.threads());
}

/// (ac|bd) + sign (ad|bc) as [c d][a b], from (ac|bd) by pairs.
RealTensor combined(const PairParts& x, double sign, int threads) {
    const PairIndex& pairs = x.pairs();
    const auto view = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        return PairView(pairs, a, b, c, d, x.tile({pairs.tile_of(a, b)}, pairs.tile_of(c, d)), false);
    };
    return RealTensor::generate(
        Shape::dense(TileGrid{pairs.pairs(), pairs.pairs()}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto cd = info.coordinates[0], ab = info.coordinates[1];
            const auto tc = pairs.tile_i(cd), td = pairs.tile_j(cd), ta = pairs.tile_i(ab), tb = pairs.tile_j(ab);
            const PairView straight = view(ta, tc, td, tb), crossed = view(ta, td, tc, tb);
            double* to = out.data();
            pairs.for_each(cd, [&](std::int64_t c, std::int64_t d, std::int64_t) {
                const std::int64_t *db = straight.right_row(d), *cb = crossed.right_row(c);
                for (std::int64_t a = 0; a < pairs.size(ta); ++a) {
                    const auto count = ta == tb ? a + 1 : pairs.size(tb);
                    const double *ac = straight.left(a, c), *ad = crossed.left(a, d);
                    for (std::int64_t b = 0; b < count; ++b) *to++ = ac[db[b]] + sign * ad[cb[b]];
                }
            });
        },
        threads);
}

}  // namespace

MoIntegrals transform(std::shared_ptr<const AoIntegrals> ao, const Orbitals& orbitals, Transform what,
                      TensorWork& work) {
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
    for (const auto& [first, last] : runs_of_tiles(functions.pairs(), kTransformBlock / (8 * n * n))) {
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
    for (const auto& [first, last] : runs_of_tiles(out.vvvv.pairs.pairs(), kTransformBlock / (8 * n * n))) {
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
