// Integrals over basis functions to integrals over orbitals, one pair of indices after the other. Large ones are never
// whole half way: they go through in blocks.
#include <algorithm>

#include "chem/orbitals.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kVirtualsInTile = 16;  // tiles of pairs of these

/// Runs of tiles of pairs p such that (p|ls) fits a block; a tile at least.
std::vector<std::pair<std::int64_t, std::int64_t>> blocks(const Tiling& pairs, std::int64_t functions) {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const auto most = kTransformBlock / (8 * functions * functions);
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

/// Tile (left pair|right pair) of integrals over four virtuals, as seen from tiles (a c|b d) in either order of each.
struct PairTile {
    PairTile(const PairParts& x, std::int64_t ta, std::int64_t tc, std::int64_t tb, std::int64_t td)
        : pairs(x.pairs()), tile_a(ta), tile_c(tc), tile_b(tb), tile_d(td) {
        const auto left = pairs.tile_of(std::max(ta, tc), std::min(ta, tc));
        const auto right = pairs.tile_of(std::max(tb, td), std::min(tb, td));
        values = x.tile({left}, right);
        width = pairs.pairs().size(TileIndex{right});
    }
    /// out[b] += factor (ac|bd) for b < count.
    void add(std::int64_t a, std::int64_t c, std::int64_t d, double factor, std::int64_t count, double* out) const {
        if (values.empty()) return;
        std::int64_t place = 0;
        if (tile_a == tile_c)
            place = std::max(a, c) * (std::max(a, c) + 1) / 2 + std::min(a, c);
        else
            place = tile_a > tile_c ? a * pairs.size(tile_c) + c : c * pairs.size(tile_a) + a;
        const double* row = values.data() + place * width;
        std::int64_t straight = 0;  // those b that lie side by side
        if (tile_b <= tile_d) {
            straight = tile_b < tile_d ? count : std::min(count, d + 1);
            const double* from = row + (tile_b < tile_d ? d * pairs.size(tile_b) : d * (d + 1) / 2);
            for (std::int64_t b = 0; b < straight; ++b) out[b] += factor * from[b];
            for (std::int64_t b = straight; b < count; ++b) out[b] += factor * row[b * (b + 1) / 2 + d];
        } else {
            const auto step = pairs.size(tile_d);
            for (std::int64_t b = 0; b < count; ++b) out[b] += factor * row[b * step + d];
        }
    }
    const PairIndex& pairs;
    std::int64_t tile_a, tile_c, tile_b, tile_d, width = 0;
    std::span<const double> values;
};

/// (ac|bd) + sign (ad|bc) as [c d][a b], from (ac|bd) by pairs.
RealTensor combined(const PairParts& x, double sign, int threads) {
    const PairIndex& pairs = x.pairs();
    return RealTensor::generate(
        Shape::dense(TileGrid{pairs.pairs(), pairs.pairs()}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto cd = info.coordinates[0], ab = info.coordinates[1];
            const auto tc = pairs.tile_i(cd), td = pairs.tile_j(cd), ta = pairs.tile_i(ab), tb = pairs.tile_j(ab);
            const PairTile straight(x, ta, tc, tb, td), crossed(x, ta, td, tb, tc);
            std::fill(out.begin(), out.end(), 0.0);
            double* to = out.data();
            pairs.for_each(cd, [&](std::int64_t c, std::int64_t d, std::int64_t) {
                for (std::int64_t a = 0; a < pairs.size(ta); ++a) {
                    const auto count = ta == tb ? a + 1 : pairs.size(tb);
                    straight.add(a, c, d, 1.0, count, to);
                    crossed.add(a, d, c, sign, count, to);
                    to += count;
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
