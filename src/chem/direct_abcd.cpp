#include <cmath>

#include "chem/abcd.hpp"

namespace tessera::chem {

DirectAbcd::DirectAbcd(const Integrals& integrals, const AoTiling& tiling, const Orbitals& orbitals, double screen,
                       std::int64_t tile)
    : integrals_(&integrals),
      tiling_(tiling),
      engines_(std::make_unique<EnginePool<Integrals>>(integrals)),
      local_(integrals, orbitals, tile),
      screen_(screen) {
    const auto n = tiling.functions.tile_count();
    bounds_ = Matrix::Zero(n, n);
    for (std::int64_t a = 0; a < n; ++a)
        for (std::int64_t b = 0; b < n; ++b) {
            double square = 0;
            for (auto i = tiling.first_shell[a]; i < tiling.first_shell[a + 1]; ++i)
                for (auto j = tiling.first_shell[b]; j < tiling.first_shell[b + 1]; ++j)
                    square += std::pow(integrals.schwarz_norm()(i, j), 2);
            bounds_(a, b) = std::sqrt(square);
        }
    prepare(orbitals);
}

DirectAbcd::DirectAbcd(const AoTiling& tiling, const Orbitals& orbitals, LocalPairs local)
    : tiling_(tiling), local_(std::move(local)) {
    bounds_ = Matrix::Ones(tiling.functions.tile_count(), tiling.functions.tile_count());
    prepare(orbitals);
}

void DirectAbcd::prepare(const Orbitals& orbitals) {
    const AoTiling& tiling = tiling_;
    pairs_ = std::make_unique<PairIndex>(local_.tiling());
    occupied_ = to_tensor(orbitals.occupied_matrix, tiling.functions, orbitals.occupied.grid().tiling(1));
    virtuals_ = to_tensor(orbitals.virtual_matrix, tiling.functions, orbitals.virtuals.grid().tiling(1));
    integrals_tensor_.make = [this](const TileInfo& info, std::span<double> out) { make_tile(info, out); };
    choose_tiles(false);
}

/// Integrals that are equal by their symmetry are made once in a tile.
void DirectAbcd::make_tile(const TileInfo& info, std::span<double> out) {
    std::fill(out.begin(), out.end(), 0.0);
    const auto& shells = integrals_->basis().shells;
    const auto& first = tiling_.first_shell;
    const auto tl = info.coordinates[0], ts = info.coordinates[1], tm = info.coordinates[2], tn = info.coordinates[3];
    const bool same_left = tm == tl, same_right = tn == ts, own_image = tl == ts && tm == tn;
    const auto steps = row_major_strides(info.extents);
    engines_->with([&](Integrals::Coulomb& engine) {
        for (auto m = first[tm]; m < first[tm + 1]; ++m)
            for (auto l = first[tl]; l < (same_left ? m + 1 : first[tl + 1]); ++l)
                for (auto n = first[tn]; n < (own_image ? m + 1 : first[tn + 1]); ++n)
                    for (auto s = first[ts]; s < (same_right ? n + 1 : first[ts + 1]); ++s) {
                        if (own_image && n == m && s > l) break;
                        const double* block = engine.block(m, l, n, s);
                        if (!block) continue;
                        const auto nm = shells[m].shell.functions(), nl = shells[l].shell.functions();
                        const auto nn = shells[n].shell.functions(), ns = shells[s].shell.functions();
                        // The steps from one function of m, l, n and s to the next.
                        const auto put = [&](std::int64_t of_m, std::int64_t of_l, std::int64_t of_n,
                                             std::int64_t of_s) {
                            double* to = out.data() + (shells[m].first - info.begin[2]) * of_m +
                                         (shells[l].first - info.begin[0]) * of_l +
                                         (shells[n].first - info.begin[3]) * of_n +
                                         (shells[s].first - info.begin[1]) * of_s;
                            const double* from = block;
                            for (std::int64_t a = 0; a < nm; ++a)
                                for (std::int64_t b = 0; b < nl; ++b)
                                    for (std::int64_t c = 0; c < nn; ++c)
                                        for (std::int64_t d = 0; d < ns; ++d)
                                            to[a * of_m + b * of_l + c * of_n + d * of_s] = *from++;
                        };
                        const auto put_all = [&](std::int64_t of_m, std::int64_t of_l, std::int64_t of_n,
                                                 std::int64_t of_s) {
                            const bool left = same_left && m != l, right = same_right && n != s;
                            put(of_m, of_l, of_n, of_s);
                            if (left) put(of_l, of_m, of_n, of_s);
                            if (right) put(of_m, of_l, of_s, of_n);
                            if (left && right) put(of_l, of_m, of_s, of_n);
                        };
                        put_all(steps[2], steps[0], steps[3], steps[1]);
                        if (own_image && (m != n || l != s)) put_all(steps[3], steps[1], steps[2], steps[0]);
                    }
    });
    if (own_image)
        for (double& x : out) x *= 0.5;
}

void DirectAbcd::take_skipped() { choose_tiles(true); }

void DirectAbcd::choose_tiles(bool skipped) {
    const auto& f = tiling_.functions;
    const TileGrid grid{f, f, f, f};
    tiles_ = 0;
    const auto n = f.tile_count();
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    for (std::int64_t l = 0; l < n; ++l)
        for (std::int64_t s = 0; s < n; ++s)
            for (std::int64_t m = 0; m < n; ++m)
                for (std::int64_t o = 0; o < n; ++o) {
                    if (l < s || (l == s && m < o)) continue;
                    ++tiles_;
                    const double bound = bounds_(m, l) * bounds_(o, s);
                    const auto tile = grid.ordinal({l, s, m, o});
                    if ((bound < screen_ * static_cast<double>(grid.tile_elements(tile))) != skipped) continue;
                    ordinals.push_back(tile.value);
                    norms.push_back(bound);
                }
    integrals_tensor_.shape = Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
}

RealTensor DirectAbcd::apply(const RealTensor& tau, const RealTensor& t1, TensorWork& w) {
    RealTensor packed = pack_pairs(local_.to_local(tau, w), *pairs_);
    packed = w.product("pcd,lc->pld", packed, virtuals_);
    packed = w.product("pld,sd->pls", packed, virtuals_);
    // (ml|ns) = (ns|ml), so of the tiles (ls,mn) and (sl,nm) one is made (half of it, where they are the same). What
    // the other one adds to ij, mn is what this one adds to ji, nm.
    RealTensor x = w.lean_product("ijls,lsmn->ijmn", unpack_pairs(packed, *pairs_), integrals_tensor_);
    tiles_made_ = w.last().made_tiles;
    packed = RealTensor();
    x = pack_pairs(add(1.0, x, 1.0, w.permuted("jinm->ijmn", x)), *pairs_);
    RealTensor dressed = virtuals_;
    w.add_product("mk,ka->ma", occupied_, t1, dressed, -1);
    x = w.product("pmn,ma->pan", x, dressed);
    return local_.to_canonical(unpack_pairs(w.product("pan,nb->pab", x, dressed), *pairs_), w);
}

}  // namespace tessera::chem
