#include "chem/spin_orbitals.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera::chem {

namespace {

/// Alpha's tiles, then beta's.
Tiling both_spins(std::array<std::int64_t, 2> counts, std::int64_t tile, std::int64_t& alpha_tiles) {
    std::vector<std::int64_t> sizes;
    for (std::size_t s = 0; s < 2; ++s) {
        if (counts[s] > 0)
            for (const auto n : even_tiling(counts[s], tile).sizes()) sizes.push_back(n);
        if (s == 0) alpha_tiles = static_cast<std::int64_t>(sizes.size());
    }
    return Tiling::from_sizes(sizes);
}

/// (x|ls) to (x|pq), pairs p >= q of the same spin, as [pq][x]; with `lower` the tiles pq <= x of blocks that begin
/// with tile `first`.
RealTensor to_pairs(const RealTensor& half, const SpinOrbitals& orbitals, bool lower, std::int64_t first,
                    TensorWork& work) {
    const PairIndex& pairs = orbitals.pairs;
    const TileGrid grid{pairs.single(), pairs.single(), half.grid().tiling(0)};
    std::vector<ShapeEntry> entries;
    const Shape all = lower_tiles(grid);
    for (const auto t : all.ordinals()) {
        const auto at = grid.coordinates(TileOrdinal{t});
        if (orbitals.spin_of_all(at[0]) != orbitals.spin_of_all(at[1])) continue;
        if (!lower || pairs.tile_of(at[0], at[1]) <= first + at[2]) entries.push_back({TileOrdinal{t}, 0.0});
    }
    const Shape only(grid, std::move(entries));
    return pack_first(work.product("xla,lb->abx", half, orbitals.coefficients, only), pairs, work.threads());
}

/// Runs of tiles of pairs whose blocks (x|ls) are not too large, by their number.
std::vector<std::pair<std::int64_t, std::int64_t>> blocks(const Tiling& pairs, const SpinOrbitals& orbitals) {
    const auto row = orbitals.coefficients.grid().element_total();
    return runs_of_tiles(pairs, kTransformBlock / (8 * row));
}

}  // namespace

SpinOrbitals make_spin_orbitals(const UhfResult& scf, std::int64_t frozen, const Tiling& functions, std::int64_t tile,
                                TensorWork& work) {
    SpinOrbitals x;
    for (std::size_t s = 0; s < 2; ++s) {
        x.frozen[s] = std::min(frozen, scf.spin[s].occupied);
        x.occupied[s] = scf.spin[s].occupied - x.frozen[s];
        x.virtuals[s] = scf.spin[s].coefficients.cols() - scf.spin[s].occupied;
    }
    x.occupied_tiles = both_spins(x.occupied, tile, x.alpha_tiles[0]);
    x.virtual_tiles = both_spins(x.virtuals, tile, x.alpha_tiles[1]);
    auto sizes = x.occupied_tiles.sizes();
    for (const auto n : x.virtual_tiles.sizes()) sizes.push_back(n);
    x.pairs = PairIndex(Tiling::from_sizes(sizes));
    Matrix all(functions.extent(), x.pairs.single().extent());
    Eigen::Index at = 0;
    for (const bool occupied : {true, false})
        for (std::size_t s = 0; s < 2; ++s) {
            const RhfResult& r = scf.spin[s];
            const auto first = occupied ? x.frozen[s] : r.occupied, count = occupied ? x.occupied[s] : x.virtuals[s];
            all.middleCols(at, count) = r.coefficients.middleCols(first, count);
            at += count;
            auto& energies = occupied ? x.energies.occupied_energies : x.energies.virtual_energies;
            for (auto p = first; p < first + count; ++p) energies.push_back(r.orbital_energies(p));
        }
    x.coefficients = to_tensor(all, functions, x.pairs.single());
    const Tiling &o = x.occupied_tiles, &v = x.virtual_tiles;
    x.fock_ov = RealTensor(spin_shape(x, "ov"));
    // With orbitals of their own alpha and beta electrons have no such elements, but for what the SCF left.
    if (scf.restricted_open)
        for (int s = 0; s < 2; ++s) {
            const RhfResult& r = scf.spin[static_cast<std::size_t>(s)];
            const auto n = x.occupied[static_cast<std::size_t>(s)], m = x.virtuals[static_cast<std::size_t>(s)];
            if (n == 0 || m == 0) continue;
            const Matrix f = to_matrix(work.product(
                "mi,ma->ia", to_tensor(r.coefficients.middleCols(r.occupied - n, n), functions, even_tiling(n, tile)),
                work.product("mn,na->ma", to_tensor(scf.fock[static_cast<std::size_t>(s)], functions, functions),
                             to_tensor(r.coefficients.rightCols(m), functions, even_tiling(m, tile)))));
            const auto i0 = s == 0 ? 0 : x.occupied[0], a0 = s == 0 ? 0 : x.virtuals[0];
            x.fock_ov.update_tiles([&](const TileInfo& info, std::span<double> out) {
                if (x.spin('o', info.coordinates[0]) != s) return;
                for (std::int64_t i = 0; i < info.extents[0]; ++i)
                    for (std::int64_t a = 0; a < info.extents[1]; ++a)
                        out[i * info.extents[1] + a] = f(info.begin[0] - i0 + i, info.begin[1] - a0 + a);
            });
        }
    ensure(o.extent() == static_cast<std::int64_t>(x.energies.occupied_energies.size()) &&
               v.extent() == static_cast<std::int64_t>(x.energies.virtual_energies.size()),
           "{} and {} spin orbitals", o.extent(), v.extent());
    return x;
}

SpinOrbitals spinless_orbitals(const Matrix& coefficients, const Tiling& functions, std::int64_t tile) {
    SpinOrbitals x;
    x.occupied[0] = coefficients.cols();
    x.occupied_tiles = both_spins(x.occupied, tile, x.alpha_tiles[0]);
    x.pairs = PairIndex(x.occupied_tiles);
    x.coefficients = to_tensor(coefficients, functions, x.occupied_tiles);
    return x;
}

Shape spin_shape(const SpinOrbitals& orbitals, std::string_view spaces, const Symmetry& symmetry) {
    std::vector<Tiling> tilings;
    for (const char c : spaces) tilings.push_back(orbitals.tiles(c));
    const TileGrid grid(std::move(tilings));
    const auto half = static_cast<int>(spaces.size() / 2);
    std::vector<ShapeEntry> entries;
    for (std::int64_t t = 0; t < grid.tile_total(); ++t) {
        const auto at = grid.coordinates(TileOrdinal{t});
        int beta = 0;
        for (int d = 0; d < 2 * half; ++d) beta += (d < half ? 1 : -1) * orbitals.spin(spaces[d], at[d]);
        if (beta == 0) entries.push_back({TileOrdinal{t}, 0.0});
    }
    const Shape whole(grid, std::move(entries));
    return symmetry.none() ? whole : whole.with_symmetry(symmetry);
}

SpinIntegrals::SpinIntegrals(std::shared_ptr<const AoIntegrals> ao, const SpinOrbitals& orbitals, TensorWork& work)
    : orbitals_(orbitals), whole_(orbitals.pairs) {
    const PairIndex functions = ao->pairs();
    PairParts half(functions);
    for (const auto& [first, last] : blocks(functions.pairs(), orbitals)) {
        const auto made = ao->half_unpacked(first, last);
        const RealTensor block = RealTensor::generate(made.shape, made.make, work.threads());
        half.add(to_pairs(work.product("xls,sa->xla", block, orbitals.coefficients), orbitals, false, 0, work));
    }
    ao.reset();
    for (const auto& [first, last] : blocks(orbitals.pairs.pairs(), orbitals)) {
        const auto made = half.unpacked(first, last);
        whole_.add(
            to_pairs(work.lean_product("xls,sa->xla", made, orbitals.coefficients), orbitals, true, first, work));
    }
}

SpinIntegrals::SpinIntegrals(const Fitting& fitting, const SpinOrbitals& orbitals, TensorWork& work)
    : orbitals_(orbitals), whole_(orbitals.pairs) {
    // B(pq|Q), Q by parts of its sum, then the product of it with itself.
    RealTensor b(Shape(TileGrid{orbitals.pairs.pairs(), fitting.auxiliary()}));
    fitting.in_blocks(
        [&](const RealTensor& inverse, const RealTensor& block) {
            PairParts part(fitting.pairs());
            part.add(block);
            const auto made = part.unpacked();
            const RealTensor x =
                to_pairs(work.lean_product("xls,sa->xla", made, orbitals.coefficients), orbitals, false, 0, work);
            work.add_product("pP,QP->pQ", x, inverse, b);
        },
        work.threads());
    for (const auto& [first, last] : blocks(orbitals.pairs.pairs(), orbitals)) {
        const TileGrid grid{orbitals.pairs.pairs(), part_of(orbitals.pairs.pairs(), first, last)};
        std::vector<ShapeEntry> entries;
        for (std::int64_t t = 0; t < grid.tile_total(); ++t) {
            const auto at = grid.coordinates(TileOrdinal{t});
            const auto same = [&](std::int64_t p) {
                return orbitals.spin_of_all(orbitals.pairs.tile_i(p)) == orbitals.spin_of_all(orbitals.pairs.tile_j(p));
            };
            if (at[0] <= first + at[1] && same(at[0]) && same(first + at[1])) entries.push_back({TileOrdinal{t}, 0.0});
        }
        const auto begin = orbitals.pairs.pairs().begin(TileIndex{first}).value;
        const RealTensor right =
            slice(b, {{begin, begin + grid.tiling(1).extent()}, {0, fitting.auxiliary().extent()}});
        whole_.add(work.product("pQ,qQ->pq", b, right, Shape(grid, std::move(entries))));
    }
}

RealTensor SpinIntegrals::antisymmetric(std::string_view spaces, const Symmetry& symmetry, int threads) const {
    const PairIndex& pairs = orbitals_.pairs;
    const auto view = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        const auto p = pairs.tile_of(a, b), q = pairs.tile_of(c, d);
        return PairView(pairs, a, b, c, d, p <= q ? whole_.tile({p}, q) : whole_.tile({q}, p), p > q);
    };
    return RealTensor::generate(
        spin_shape(orbitals_, spaces, symmetry),
        [&](const TileInfo& info, std::span<double> out) {
            std::array<std::int64_t, 4> at{};
            for (std::size_t d = 0; d < 4; ++d)
                at[d] = orbitals_.in_all(spaces[d], info.coordinates[static_cast<int>(d)]);
            // Where the spins of a pair differ there is no tile and the view is zero.
            const PairView straight = view(at[0], at[2], at[1], at[3]), crossed = view(at[0], at[3], at[1], at[2]);
            double* to = out.data();
            for (std::int64_t p = 0; p < info.extents[0]; ++p)
                for (std::int64_t q = 0; q < info.extents[1]; ++q) {
                    const std::int64_t *qs = straight.right_row(q), *qr = crossed.right_row(q);
                    for (std::int64_t r = 0; r < info.extents[2]; ++r) {
                        const double* pr = straight.left(p, r);
                        for (std::int64_t s = 0; s < info.extents[3]; ++s)
                            *to++ = pr[qs[s]] - crossed.left(p, s)[qr[r]];
                    }
                }
        },
        threads);
}

void SpinIntegrals::for_each(const std::function<void(std::array<std::int64_t, 4> pqrs, double value)>& visit) const {
    const PairIndex& pairs = orbitals_.pairs;
    for (std::int64_t q = 0; q < pairs.pairs().tile_count(); ++q)
        for (std::int64_t p = 0; p <= q; ++p) {
            const auto tile = whole_.tile({p}, q);
            if (tile.empty()) continue;
            const auto columns = pairs.pairs().size(TileIndex{q});
            const auto first = [&](std::int64_t t) {
                return std::pair(pairs.begin(pairs.tile_i(t)), pairs.begin(pairs.tile_j(t)));
            };
            const auto [i0, j0] = first(p);
            const auto [k0, l0] = first(q);
            pairs.for_each(p, [&, i0 = i0, j0 = j0, k0 = k0, l0 = l0](auto i, auto j, auto row) {
                pairs.for_each(q, [&](auto k, auto l, auto column) {
                    if (p == q && row > column) return;
                    visit({k0 + k, l0 + l, i0 + i, j0 + j}, tile[row * columns + column]);
                });
            });
        }
}

double SpinIntegrals::bytes(std::int64_t orbitals, std::int64_t functions) {
    const double n = static_cast<double>(orbitals), f = static_cast<double>(functions);
    const double pairs = n * n;  // of both spins
    return 8 * (pairs * pairs / 2 + pairs * f * f / 2 + f * f * f * f / 8) + 4.0 * kTransformBlock;
}

}  // namespace tessera::chem
