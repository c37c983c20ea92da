#include "chem/ao_integrals.hpp"

#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "storage/dry_run.hpp"

namespace tessera::chem {

AoTiling tile_clusters(const Basis& basis, const std::vector<std::int64_t>& cluster_of_atom) {
    AoTiling t;
    std::vector<std::int64_t> sizes;
    std::int64_t last = -1;
    for (std::size_t a = 0; a < cluster_of_atom.size(); ++a) {
        const auto n = basis.functions_of(static_cast<std::int64_t>(a));
        if (n == 0) continue;
        if (sizes.empty() || cluster_of_atom[a] != last) {
            sizes.push_back(0);
            t.first_shell.push_back(basis.first_shell[a]);
        }
        last = cluster_of_atom[a];
        sizes.back() += n;
    }
    t.first_shell.push_back(static_cast<std::int64_t>(basis.shells.size()));
    t.functions = Tiling::from_sizes(sizes);
    return t;
}

AoTiling merge_tiles(const AoTiling& tiling, std::int64_t target) {
    AoTiling t;
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < tiling.functions.tile_count(); ++i) {
        const auto n = tiling.functions.size(TileIndex{i});
        if (sizes.empty() || sizes.back() + n > target) {
            sizes.push_back(0);
            t.first_shell.push_back(tiling.first_shell[i]);
        }
        sizes.back() += n;
    }
    t.first_shell.push_back(tiling.first_shell.back());
    t.functions = Tiling::from_sizes(sizes);
    return t;
}

AoTiling tile_atoms(const Basis& basis, std::int64_t target) {
    std::vector<std::int64_t> cluster;
    std::int64_t filled = 0;
    for (std::int64_t a = 0; a + 1 < static_cast<std::int64_t>(basis.first_shell.size()); ++a) {
        const auto n = basis.functions_of(a);
        const bool fits = !cluster.empty() && filled + n <= target;
        cluster.push_back(cluster.empty() ? 0 : cluster.back() + (fits ? 0 : 1));
        filled = fits ? filled + n : n;
    }
    return tile_clusters(basis, cluster);
}

namespace {

/// One tile (P|Q), from the blocks of its shells.
void make_tile(const Basis& basis, const AoTiling& tiling, const PairIndex& pairs, std::int64_t p, std::int64_t q,
               Integrals::Coulomb& engine, std::span<double> out) {
    std::fill(out.begin(), out.end(), 0.0);
    const std::int64_t tm = pairs.tile_i(p), tn = pairs.tile_j(p), tl = pairs.tile_i(q), ts = pairs.tile_j(q);
    const auto columns = pairs.pairs().size(TileIndex{q});
    const auto& shells = basis.shells;
    for (auto m = tiling.first_shell[tm]; m < tiling.first_shell[tm + 1]; ++m)
        for (auto n = tiling.first_shell[tn]; n < (tm == tn ? m + 1 : tiling.first_shell[tn + 1]); ++n)
            for (auto l = tiling.first_shell[tl]; l < tiling.first_shell[tl + 1]; ++l)
                for (auto s = tiling.first_shell[ts]; s < (tl == ts ? l + 1 : tiling.first_shell[ts + 1]); ++s) {
                    // On a diagonal tile of pairs of pairs half of the blocks would do, but these are few.
                    const double* block = engine.block(m, n, l, s);
                    if (!block) continue;
                    const auto fm = shells[m].first - pairs.begin(tm), fn = shells[n].first - pairs.begin(tn);
                    const auto fl = shells[l].first - pairs.begin(tl), fs = shells[s].first - pairs.begin(ts);
                    const auto nm = shells[m].shell.functions(), nn = shells[n].shell.functions();
                    const auto nl = shells[l].shell.functions(), ns = shells[s].shell.functions();
                    for (std::int64_t a = 0; a < nm; ++a)
                        for (std::int64_t b = 0; b < nn; ++b) {
                            if (m == n && b > a) continue;
                            double* row = out.data() + pair_place(tm == tn, pairs.size(tn), fm + a, fn + b) * columns;
                            const double* from = block + (a * nn + b) * nl * ns;
                            for (std::int64_t c = 0; c < nl; ++c)
                                for (std::int64_t d = 0; d < (l == s ? c + 1 : ns); ++d)
                                    row[pair_place(tl == ts, pairs.size(ts), fl + c, fs + d)] = from[c * ns + d];
                        }
                }
}

/// The tiles (P|Q), P >= Q, without those that engines would skip as a whole.
Shape lower_half(const Integrals& integrals, const AoTiling& tiling, const PairIndex& pairs) {
    const auto& of_shells = integrals.schwarz_largest();
    std::vector<double> most;
    for (std::int64_t p = 0; p < pairs.pairs().tile_count(); ++p) {
        const auto i = pairs.tile_i(p), j = pairs.tile_j(p);
        const auto bi = tiling.first_shell[i], bj = tiling.first_shell[j];
        most.push_back(
            of_shells.block(bi, bj, tiling.first_shell[i + 1] - bi, tiling.first_shell[j + 1] - bj).maxCoeff());
    }
    const TileGrid grid{pairs.pairs(), pairs.pairs()};
    std::vector<ShapeEntry> entries;
    for (std::int64_t p = 0; p < pairs.pairs().tile_count(); ++p)
        for (std::int64_t q = 0; q <= p; ++q)
            if (!Integrals::negligible(most[p] * most[q])) entries.push_back({grid.ordinal({p, q}), 0.0});
    return Shape(grid, std::move(entries));
}

}  // namespace

AoIntegrals::AoIntegrals(const Integrals& integrals, AoTiling tiling, int threads)
    : tiling_(std::move(tiling)), pairs_(tiling_.functions) {
    EnginePool engines(integrals);
    tiles_ = Tensor<double>::generate(
        lower_half(integrals, tiling_, pairs_),
        [&](const TileInfo& info, std::span<double> out) {
            engines.with([&](Integrals::Coulomb& engine) {
                make_tile(integrals.basis(), tiling_, pairs_, info.coordinates[0], info.coordinates[1], engine, out);
            });
        },
        threads);
}

AoIntegrals::AoIntegrals(const Tiling& functions, std::span<const double> values, int threads)
    : tiling_{functions, {}}, pairs_(functions) {
    const auto place = [](std::int64_t i, std::int64_t j) {
        return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
    };
    tiles_ = Tensor<double>::generate(
        lower_tiles(TileGrid{pairs_.pairs(), pairs_.pairs()}),
        [&](const TileInfo& info, std::span<double> out) {
            const auto p = info.coordinates[0], q = info.coordinates[1];
            const auto i0 = pairs_.begin(pairs_.tile_i(p)), j0 = pairs_.begin(pairs_.tile_j(p));
            const auto k0 = pairs_.begin(pairs_.tile_i(q)), l0 = pairs_.begin(pairs_.tile_j(q));
            double* to = out.data();
            pairs_.for_each(p, [&](std::int64_t i, std::int64_t j, std::int64_t) {
                const auto ij = place(i0 + i, j0 + j);
                pairs_.for_each(q, [&](std::int64_t k, std::int64_t l, std::int64_t) {
                    *to++ = values[static_cast<std::size_t>(place(ij, place(k0 + k, l0 + l)))];
                });
            });
        },
        threads);
}

AoIntegrals::AoIntegrals(AoTiling tiling, const Integrals* integrals, int threads)
    : tiling_(std::move(tiling)), pairs_(tiling_.functions), unstored_(integrals), stored_(false), threads_(threads) {}

AoIntegrals AoIntegrals::unstored(const Integrals& integrals, AoTiling tiling, int threads) {
    return {std::move(tiling), &integrals, threads};
}

AoIntegrals::AoIntegrals(AoTiling tiling, bool stored)
    : tiling_(std::move(tiling)), pairs_(tiling_.functions), stored_(stored) {
    ensure(DryRun::current(), "integrals that are not made, outside of a dry run");
    if (!stored) return;
    const TileGrid grid{pairs_.pairs(), pairs_.pairs()};
    std::vector<std::int64_t> lower;
    for (std::int64_t p = 0; p < pairs_.pairs().tile_count(); ++p)
        for (std::int64_t q = 0; q <= p; ++q) lower.push_back(grid.ordinal({p, q}).value);
    std::vector<double> norms(lower.size(), 1.0);
    tiles_ = Tensor<double>::generate(Shape::from_sorted(grid, std::move(lower), std::move(norms)), {});
}

std::span<const double> AoIntegrals::tile(std::int64_t p, std::int64_t q) const {
    return tiles_.tile({std::max(p, q), std::min(p, q)});
}

double AoIntegrals::norm(std::int64_t p, std::int64_t q) const {
    const auto slot = tiles_.shape().find(tiles_.grid().ordinal({std::max(p, q), std::min(p, q)}));
    return slot ? tiles_.shape().norm_of(*slot) : 0.0;
}

GeneratedTensor<double> AoIntegrals::half_unpacked(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> sizes;
    for (auto p = first; p < last; ++p) sizes.push_back(pairs_.pairs().size(TileIndex{p}));
    const Tiling here = Tiling::from_sizes(sizes);
    std::shared_ptr<const Tensor<double>> rows;  // [p][q], where none are stored
    if (!stored_) {
        std::optional<EnginePool<Integrals>> engines;
        if (unstored_) engines.emplace(*unstored_);
        rows = std::make_shared<const Tensor<double>>(Tensor<double>::generate(
            Shape::dense(TileGrid{here, pairs_.pairs()}, 1),
            [&](const TileInfo& info, std::span<double> out) {
                engines->with([&](Integrals::Coulomb& engine) {
                    make_tile(unstored_->basis(), tiling_, pairs_, first + info.coordinates[0], info.coordinates[1],
                              engine, out);
                });
            },
            threads_));
    }
    const TileGrid grid{here, pairs_.single(), pairs_.single()};
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        const auto at = grid.coordinates(TileOrdinal{o});
        const auto p = first + at[0], q = pairs_.tile_of(at[1], at[2]);
        const double n =
            rows ? rows->shape().norm_of(*rows->shape().find(rows->grid().ordinal({at[0], q}))) : norm(p, q);
        if (n > 0) entries.push_back({TileOrdinal{o}, 1.4142135623730952 * n});
    }
    auto make = [this, first, rows](const TileInfo& info, std::span<double> out) {
        const auto p = first + info.coordinates[0], l = info.coordinates[1], s = info.coordinates[2];
        const auto q = pairs_.tile_of(l, s);
        const auto values = rows ? rows->tile({info.coordinates[0], q}) : tile(p, q);
        const auto np = info.extents[0], nq = pairs_.pairs().size(TileIndex{q});
        const auto nl = info.extents[1], ns = info.extents[2];
        // Element (x, y) of the wanted pair tiles p and q in the stored tile.
        const bool straight = rows || p >= q;
        const std::int64_t step_p = straight ? nq : 1, step_q = straight ? 1 : np;
        // A few x at a time: each of them reads or writes a stream of its own.
        constexpr std::int64_t kStreams = 8;
        for (std::int64_t begin = 0; begin < np; begin += kStreams) {
            const auto end = std::min(np, begin + kStreams);
            pairs_.for_each(q, [&](std::int64_t a, std::int64_t b, std::int64_t place) {
                const double* from = values.data() + place * step_q;
                for (std::int64_t x = begin; x < end; ++x) {
                    const double value = from[x * step_p];
                    double* to = out.data() + x * nl * ns;
                    if (l >= s) to[a * ns + b] = value;
                    if (l <= s) to[b * ns + a] = value;
                }
            });
        }
    };
    return {Shape(grid, std::move(entries)), std::move(make)};
}

}  // namespace tessera::chem
