#include "chem/ao_integrals.hpp"

#include <algorithm>

#include "base/parallel.hpp"

namespace tessera::chem {

std::unique_ptr<Integrals::Coulomb> EnginePool::take() {
    {
        const std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            auto engine = std::move(free_.back());
            free_.pop_back();
            return engine;
        }
    }
    return std::make_unique<Integrals::Coulomb>(of_);
}

void EnginePool::give(std::unique_ptr<Integrals::Coulomb> engine) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(engine));
}

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

/// Place of the pair (i, j), i >= j where the tile is diagonal.
std::int64_t place_of(bool diagonal, std::int64_t columns, std::int64_t i, std::int64_t j) {
    return diagonal ? i * (i + 1) / 2 + j : i * columns + j;
}

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
                            double* row = out.data() + place_of(tm == tn, pairs.size(tn), fm + a, fn + b) * columns;
                            const double* from = block + (a * nn + b) * nl * ns;
                            for (std::int64_t c = 0; c < nl; ++c)
                                for (std::int64_t d = 0; d < (l == s ? c + 1 : ns); ++d)
                                    row[place_of(tl == ts, pairs.size(ts), fl + c, fs + d)] = from[c * ns + d];
                        }
                }
}

Shape lower_half(const Tiling& pairs) {
    const TileGrid grid{pairs, pairs};
    std::vector<ShapeEntry> entries;
    for (std::int64_t p = 0; p < pairs.tile_count(); ++p)
        for (std::int64_t q = 0; q <= p; ++q) entries.push_back({grid.ordinal({p, q}), 0.0});
    return Shape(grid, std::move(entries));
}

}  // namespace

AoIntegrals::AoIntegrals(const Integrals& integrals, AoTiling tiling, int threads)
    : tiling_(std::move(tiling)), pairs_(tiling_.functions) {
    EnginePool engines(integrals);
    tiles_ = Tensor<double>::generate(
        lower_half(pairs_.pairs()),
        [&](const TileInfo& info, std::span<double> out) {
            engines.with([&](Integrals::Coulomb& engine) {
                make_tile(integrals.basis(), tiling_, pairs_, info.coordinates[0], info.coordinates[1], engine, out);
            });
        },
        threads);
}

GeneratedTensor<double> AoIntegrals::half_unpacked(std::int64_t first, std::int64_t last) const {
    std::vector<std::int64_t> sizes;
    for (auto p = first; p < last; ++p) sizes.push_back(pairs_.pairs().size(TileIndex{p}));
    const TileGrid grid{Tiling::from_sizes(sizes), pairs_.single(), pairs_.single()};
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        const auto at = grid.coordinates(TileOrdinal{o});
        const auto p = first + at[0], q = pairs_.tile_of(std::max(at[1], at[2]), std::min(at[1], at[2]));
        const auto slot = tiles_.shape().find(tiles_.grid().ordinal({std::max(p, q), std::min(p, q)}));
        entries.push_back({TileOrdinal{o}, 1.4142135623730952 * tiles_.shape().norm_of(*slot)});
    }
    auto make = [this, first](const TileInfo& info, std::span<double> out) {
        const auto p = first + info.coordinates[0], l = info.coordinates[1], s = info.coordinates[2];
        const auto q = pairs_.tile_of(std::max(l, s), std::min(l, s));
        const auto tile = tiles_.tile({std::max(p, q), std::min(p, q)});
        const auto np = info.extents[0], nq = pairs_.pairs().size(TileIndex{q});
        const auto nl = info.extents[1], ns = info.extents[2];
        // Element (x, y) of the wanted pair tiles p and q in the stored tile.
        const std::int64_t step_p = p >= q ? nq : 1, step_q = p >= q ? 1 : np;
        // A few x at a time: each of them reads or writes a stream of its own.
        constexpr std::int64_t kStreams = 8;
        for (std::int64_t begin = 0; begin < np; begin += kStreams) {
            const auto end = std::min(np, begin + kStreams);
            pairs_.for_each(q, [&](std::int64_t a, std::int64_t b, std::int64_t place) {
                const double* from = tile.data() + place * step_q;
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

Matrix AoIntegrals::two_electron(const Matrix& density, int threads) const {
    const auto n = pairs_.single().extent();
    // Small matrices are done sooner than a second thread wakes.
    const int team = n < 40 ? 1 : resolve_threads(threads);
    std::vector<Matrix> coulomb(static_cast<std::size_t>(team)), exchange(static_cast<std::size_t>(team));
    std::atomic<std::int64_t> next{0};
    parallel_region(team, [&](int thread, int) {
        Matrix& j = coulomb[thread] = Matrix::Zero(n, n);
        Matrix& k = exchange[thread] = Matrix::Zero(n, n);
        for (std::int64_t t; (t = next.fetch_add(1)) < tiles_.tile_count();) {
            const auto at = tiles_.grid().coordinates(tiles_.shape().tile(t));
            const auto p = at[0], q = at[1];
            const auto tile = tiles_.tile(t);
            const auto m0 = pairs_.begin(pairs_.tile_i(p)), n0 = pairs_.begin(pairs_.tile_j(p));
            const auto l0 = pairs_.begin(pairs_.tile_i(q)), s0 = pairs_.begin(pairs_.tile_j(q));
            const auto columns = pairs_.pairs().size(TileIndex{q});
            const bool diagonal_q = pairs_.tile_i(q) == pairs_.tile_j(q);
            const auto width = pairs_.size(pairs_.tile_j(q)), height = pairs_.size(pairs_.tile_i(q));
            std::vector<double> weighted(static_cast<std::size_t>(width));
            pairs_.for_each(p, [&](std::int64_t a, std::int64_t b, std::int64_t place) {
                const auto m = m0 + a, o = n0 + b;
                // Each stored value stands for up to eight; a pair or pair of pairs equal to its mirror counts half.
                const double half_p = m == o ? 0.5 : 1.0;
                const double* row = tile.data() + place * columns;
                double sum = 0;
                std::int64_t place_q = 0;
                for (std::int64_t c = 0; c < height; ++c) {
                    const auto l = l0 + c;
                    const auto count = diagonal_q ? c + 1 : width;
                    double* v = weighted.data();
                    for (std::int64_t d = 0; d < count; ++d) v[d] = half_p * row[d];
                    if (diagonal_q) v[c] *= 0.5;
                    if (p == q)
                        for (std::int64_t d = std::max<std::int64_t>(0, place - place_q); d < count; ++d)
                            v[d] *= place == place_q + d ? 0.5 : 0.0;
                    const double *dm = &density(m, s0), *dn = &density(o, s0), *dl = &density(l, s0);
                    double *km = &k(m, s0), *kn = &k(o, s0), *jl = &j(l, s0);
                    const double dml = density(m, l), dnl = density(o, l), dmn = density(m, o);
                    double kml = 0, knl = 0, jmn = 0;
#pragma omp simd reduction(+ : kml, knl, jmn)
                    for (std::int64_t d = 0; d < count; ++d) {
                        jmn += v[d] * dl[d];
                        kml += v[d] * dn[d];
                        knl += v[d] * dm[d];
                    }
#pragma omp simd
                    for (std::int64_t d = 0; d < count; ++d) jl[d] += v[d] * dmn;
#pragma omp simd
                    for (std::int64_t d = 0; d < count; ++d) km[d] += v[d] * dnl;
#pragma omp simd
                    for (std::int64_t d = 0; d < count; ++d) kn[d] += v[d] * dml;
                    sum += jmn;
                    k(m, l) += kml;
                    k(o, l) += knl;
                    row += count;
                    place_q += count;
                }
                j(m, o) += sum;
            });
        }
    });
    Matrix out = Matrix::Zero(n, n);
    // J gathered one of (mn), (nm) twice over; K gathered one of (ml), (lm) twice over.
    for (int t = 0; t < team; ++t)
        if (coulomb[t].size()) out += 2.0 * 2.0 * coulomb[t] - exchange[t];
    return out + out.transpose().eval();
}

}  // namespace tessera::chem
