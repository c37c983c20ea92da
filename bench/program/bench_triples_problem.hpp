#pragma once
// The published sizes with random operands, and the checks every back end's result must pass.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.hpp"
#include "bench_triples.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::bench {

using namespace kernels;

struct Size {
    const char* name;
    std::int64_t i, j, k, a, b, c, sum;
    constexpr bool has_closed_shell() const { return a == b && b == c; }
};
inline constexpr Size kSizes[] = {{"A", 16, 16, 16, 16, 16, 16, 16}, {"B", 64, 16, 16, 16, 16, 16, 16},
                                  {"C", 24, 24, 24, 24, 24, 24, 24}, {"D", 15, 16, 16, 19, 20, 20, 20},
                                  {"E", 28, 28, 28, 28, 28, 28, 28}, {"long", 16, 16, 16, 16, 16, 16, 256}};

struct Problem {
    BlockExtents extents{};
    std::vector<std::vector<double>> storage;
    std::vector<FusedTerm> terms, singles;
    std::array<std::vector<double>, kBlockRank> energies;

    explicit Problem(const Size& s) : extents{s.k, s.j, s.i, s.c, s.b, s.a} {
        std::mt19937_64 random(7);
        std::uniform_real_distribution<double> uniform(-1, 1);
        auto tensor = [&](std::string_view letters, std::int64_t sum) {
            std::int64_t volume = 1;
            for (char l : letters) {
                const std::size_t n = std::string_view("kjicba").find(l);
                volume *= n == std::string_view::npos ? sum : extents[n];
            }
            std::vector<double>& x = storage.emplace_back(static_cast<std::size_t>(volume));
            for (double& value : x) value = uniform(random);
            return x.data();
        };
        storage.reserve(64);
        TriplesOperands t;
        SinglesOperands one;
        t.occupied_sum = t.virtual_sum = s.sum;
        for (std::size_t n = 0; n < 9; ++n) {
            t.t2_occupied[n] = tensor(kOccupiedPatterns[n].t2, s.sum);
            t.v2_occupied[n] = tensor(kOccupiedPatterns[n].v2, s.sum);
            t.t2_virtual[n] = tensor(kVirtualPatterns[n].t2, s.sum);
            t.v2_virtual[n] = tensor(kVirtualPatterns[n].v2, s.sum);
            one.t1[n] = tensor(kSinglesPatterns[n].t2, 1);
            one.v2[n] = tensor(kSinglesPatterns[n].v2, 1);
        }
        terms = triples_terms(extents, t);
        singles = singles_terms(extents, one);
        for (int n = 0; n < kBlockRank; ++n)
            for (std::int64_t x = 0; x < extents[n]; ++x)
                energies[n].push_back((n < 3 ? -2.0 : 1.0) + 0.5 * uniform(random));
    }
    EnergyEpilogue epilogue(TripleWeights weights) const {
        EnergyEpilogue e;
        e.weights = weights;
        for (int n = 0; n < kBlockRank; ++n) e.orbital_energies[n] = energies[n].data();
        // a, b and c run over the same orbitals.
        if (weights == TripleWeights::closed_shell) e.orbital_energies[4] = e.orbital_energies[5] = energies[3].data();
        e.singles = singles;
        e.scale = weights == TripleWeights::closed_shell ? 1.0 / 3 : 1.0 / 36;
        return e;
    }
};

/// Which of the eighteen terms are timed: the nine sd1, the nine sd2, or all.
struct Part {
    const char* name;
    std::size_t first, count;
};
inline constexpr Part kParts[] = {{"all", 0, 18}, {"sd1", 0, 9}, {"sd2", 9, 9}};

/// The terms of a part by kernels, as a variant fuses them. The published ones are `fused`, which changes the order of
/// registers on the way, and `partially_fused`, 6 + 3 twice, which need not (Kim et al. 2018, Table 3).
inline std::vector<std::vector<FusedTerm>> kernels_of(std::string_view variant, std::span<const FusedTerm> terms,
                                                      const Part& part) {
    constexpr unsigned kj = 3;  // the first two indices of the output
    std::vector<std::vector<FusedTerm>> out(18);
    for (std::size_t n = part.first; n < part.first + part.count; ++n) {
        const unsigned of_a = terms[n].a_indices & kj;
        std::size_t kernel = 0;
        if (variant == "unfused") kernel = n;
        if (variant == "nine_nine") kernel = n / 9;
        if (variant == "partially_fused") kernel = n < 3 ? 1 : n < 9 ? 0 : n < 15 ? 2 : 3;
        if (variant == "no_register_transpose") kernel = of_a == 0 || of_a == kj ? 1 : 0;
        out[kernel].push_back(terms[n]);
    }
    std::erase_if(out, [](const auto& kernel) { return kernel.empty(); });
    return out;
}

/// Largest |difference| over the largest |value|, over sampled elements.
inline double sampled_error(const Problem& p, const double* t3, int samples, const Part& part = kParts[0]) {
    std::mt19937_64 random(11);
    const auto stride = packed_strides(p.extents);
    double worst = 0, scale = 0;
    for (int s = 0; s < samples; ++s) {
        BlockExtents x{};
        std::int64_t at = 0;
        for (int n = 0; n < kBlockRank; ++n) {
            x[n] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(p.extents[n]));
            if (s < 2) x[n] = s == 0 ? 0 : p.extents[n] - 1;
            at += x[n] * stride[n];
        }
        const double value = ref::fused_element(std::span(p.terms).subspan(part.first, part.count), x);
        worst = std::max(worst, std::abs(t3[at] - value));
        scale = std::max(scale, std::abs(value));
        if (!std::isfinite(t3[at])) return INFINITY;
    }
    return worst / scale;
}

/// The plain weights over a stored t3, summed in long double for each a: what an energy epilogue must reproduce.
inline double stored_energy(const Problem& p, const double* t3, const EnergyEpilogue& epilogue, int threads) {
    const auto& n = p.extents;
    const auto stride = packed_strides(n);
    std::vector<double> parts(static_cast<std::size_t>(n[5]));
    parallel_for(n[5], threads, 1, [&](std::int64_t a) {
        long double sum = 0;
        for (std::int64_t b = 0; b < n[4]; ++b)
            for (std::int64_t c = 0; c < n[3]; ++c)
                for (std::int64_t i = 0; i < n[2]; ++i)
                    for (std::int64_t j = 0; j < n[1]; ++j)
                        for (std::int64_t k = 0; k < n[0]; ++k) {
                            auto w = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
                                return t3[k + j * stride[1] + i * stride[2] + z * stride[3] + y * stride[4] +
                                          x * stride[5]];
                            };
                            double v = w(a, b, c);
                            for (const FusedTerm& t : epilogue.singles) {
                                const std::int64_t x[] = {k, j, i, c, b, a};
                                std::int64_t at_a = 0, at_b = 0;
                                for (int m = 0; m < kBlockRank; ++m)
                                    (t.a_indices >> m & 1U ? at_a : at_b) +=
                                        x[m] * (t.a_indices >> m & 1U ? t.a : t.b).stride[m];
                                v += t.a.data[at_a] * t.factor * t.b.data[at_b];
                            }
                            const auto& e = epilogue.orbital_energies;
                            const double d = e[0][k] + e[1][j] + e[2][i] - e[3][c] - e[4][b] - e[5][a];
                            double z = w(a, b, c);
                            if (epilogue.weights == TripleWeights::closed_shell)
                                z = 4 * z + w(b, c, a) + w(c, a, b) - 2 * (w(c, b, a) + w(a, c, b) + w(b, a, c));
                            sum += z * v / d;
                        }
        parts[static_cast<std::size_t>(a)] = static_cast<double>(sum);
    });
    double energy = 0;
    for (double part : parts) energy += part;
    return epilogue.scale * energy;
}

inline bool wanted(const std::vector<std::string>& list, std::string_view name) {
    return list.empty() || std::ranges::find(list, name) != list.end();
}

/// The device part of bench_triples.
void bench_triples_device(const TriplesOptions& options, nlohmann::json& report);

}  // namespace tessera::bench
