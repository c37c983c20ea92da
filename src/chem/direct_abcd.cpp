#include <cmath>

#include "chem/abcd.hpp"

namespace tessera::chem {

DirectAbcd::DirectAbcd(const Integrals& integrals, const AoTiling& tiling, const Orbitals& orbitals, double screen,
                       std::int64_t tile)
    : integrals_(integrals), tiling_(tiling), engines_(integrals), local_(integrals, orbitals, tile) {
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
    pairs_ = std::make_unique<PairIndex>(local_.tiling());
    occupied_ = to_tensor(orbitals.occupied_matrix, tiling.functions, orbitals.occupied.grid().tiling(1));
    virtuals_ = to_tensor(orbitals.virtual_matrix, tiling.functions, orbitals.virtuals.grid().tiling(1));
    integrals_tensor_.make = [this](const TileInfo& info, std::span<double> out) {
        std::fill(out.begin(), out.end(), 0.0);
        const auto& shells = integrals_.basis().shells;
        const auto& at = info.coordinates;
        const auto& first = tiling_.first_shell;
        const auto strides = row_major_strides(info.extents);
        engines_.with([&](Integrals::Coulomb& engine) {
            for (auto l = first[at[0]]; l < first[at[0] + 1]; ++l)
                for (auto s = first[at[1]]; s < first[at[1] + 1]; ++s)
                    for (auto m = first[at[2]]; m < first[at[2] + 1]; ++m)
                        for (auto n2 = first[at[3]]; n2 < first[at[3] + 1]; ++n2) {
                            const double* block = engine.block(m, l, n2, s);
                            if (!block) continue;
                            const auto nl = shells[l].shell.functions(), ns = shells[s].shell.functions();
                            const auto nm = shells[m].shell.functions(), nn = shells[n2].shell.functions();
                            double* to = out.data() + (shells[l].first - info.begin[0]) * strides[0] +
                                         (shells[s].first - info.begin[1]) * strides[1] +
                                         (shells[m].first - info.begin[2]) * strides[2] +
                                         (shells[n2].first - info.begin[3]);
                            for (std::int64_t a = 0; a < nm; ++a)
                                for (std::int64_t b = 0; b < nl; ++b)
                                    for (std::int64_t c = 0; c < nn; ++c)
                                        for (std::int64_t d = 0; d < ns; ++d)
                                            to[b * strides[0] + d * strides[1] + a * strides[2] + c] = *block++;
                        }
        });
    };
    screen_ = screen;
    choose_tiles(false);
}

void DirectAbcd::take_skipped() { choose_tiles(true); }

void DirectAbcd::choose_tiles(bool skipped) {
    const auto& f = tiling_.functions;
    const TileGrid grid{f, f, f, f};
    tiles_ = grid.tile_total();
    const auto n = f.tile_count();
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    for (std::int64_t l = 0; l < n; ++l)
        for (std::int64_t s = 0; s < n; ++s)
            for (std::int64_t m = 0; m < n; ++m)
                for (std::int64_t o = 0; o < n; ++o) {
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
    RealTensor x = w.lean_product("pls,lsmn->pmn", packed, integrals_tensor_);
    tiles_made_ = w.last().made_tiles;
    RealTensor dressed = virtuals_;
    w.add_product("mk,ka->ma", occupied_, t1, dressed, -1);
    x = w.product("pmn,ma->pan", x, dressed);
    return local_.to_canonical(unpack_pairs(w.product("pan,nb->pab", x, dressed), *pairs_), w);
}

}  // namespace tessera::chem
