#include "bench_triples.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "kernels/triples.hpp"

extern "C" void openblas_set_num_threads(int);

namespace tessera::bench {

namespace {

using namespace kernels;

struct Size {
    const char* name;
    std::int64_t i, j, k, a, b, c, sum;
};
constexpr Size kSizes[] = {{"A", 16, 16, 16, 16, 16, 16, 16}, {"B", 64, 16, 16, 16, 16, 16, 16},
                           {"C", 24, 24, 24, 24, 24, 24, 24}, {"D", 15, 16, 16, 19, 20, 20, 20},
                           {"E", 28, 28, 28, 28, 28, 28, 28}, {"long", 16, 16, 16, 16, 16, 16, 256}};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class Work>
double best_seconds(int repeats, Work&& work) {
    double best = 1e300;
    for (int r = 0; r < repeats; ++r) {
        const double start = now();
        work();
        best = std::min(best, now() - start);
    }
    return best;
}

double gemm_gflops(int threads) {
    constexpr int n = 2000;
    openblas_set_num_threads(threads);
    std::vector<double> a(n * n, 1.25), b(n * n, -0.75), c(n * n);
    const double seconds = best_seconds(4, [&] {
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
    });
    return 2.0 * n * n * n / seconds * 1e-9;
}

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
        e.singles = singles;
        e.scale = weights == TripleWeights::closed_shell ? 1.0 / 3 : 1.0 / 36;
        return e;
    }
};

/// Largest |difference| over the largest |value|, over sampled elements.
double sampled_error(const Problem& p, const double* t3, int samples) {
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
        const double value = ref::fused_element(p.terms, x);
        worst = std::max(worst, std::abs(t3[at] - value));
        scale = std::max(scale, std::abs(value));
        if (!std::isfinite(t3[at])) return INFINITY;
    }
    return worst / scale;
}

/// The plain weights over a stored t3, in a compensated sum: what an energy epilogue must reproduce.
double stored_energy(const Problem& p, const double* t3, const EnergyEpilogue& epilogue, int threads) {
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

/// Transpose, multiply, transpose: each term through dense matrices, its product permuted and added into t3.
class TransposeGemm {
  public:
    TransposeGemm(const Problem& p, int threads) : p_(p), threads_(threads) {
        std::int64_t volume = 1;
        for (std::int64_t e : p.extents) volume *= e;
        product_.reset(new double[static_cast<std::size_t>(volume)]);
        std::fill_n(product_.get(), volume, 0.0);  // pages are touched before timing
    }
    void run(double* t3) {
        openblas_set_num_threads(threads_);
        for (std::size_t n = 0; n < p_.terms.size(); ++n) one(p_.terms[n], t3, n == 0);
    }

  private:
    static std::vector<int> indices(unsigned mask) {
        std::vector<int> list;
        for (int n = 0; n < kBlockRank; ++n)
            if (mask >> n & 1U) list.push_back(n);
        return list;
    }
    /// [positions][sum], sum fastest.
    std::int64_t gather(const TermOperand& x, unsigned mask, std::int64_t sum, std::vector<double>& out) const {
        std::vector<std::int64_t> at{0};
        for (int n : indices(mask)) {
            std::vector<std::int64_t> longer;
            for (std::int64_t v = 0; v < p_.extents[n]; ++v)
                for (std::int64_t o : at) longer.push_back(o + v * x.stride[n]);
            at = std::move(longer);
        }
        out.resize(at.size() * static_cast<std::size_t>(sum));
        const auto count = static_cast<std::int64_t>(at.size());
        parallel_for(count, threads_, 256, [&](std::int64_t m) {
            for (std::int64_t s = 0; s < sum; ++s) out[m * sum + s] = x.data[at[m] + s * x.sum_stride];
        });
        return count;
    }
    void one(const FusedTerm& t, double* t3, bool first) {
        const unsigned a = t.a_indices, b = ~t.a_indices & 0x3fU;
        const std::int64_t m = gather(t.a, a, t.sum_extent, a_), n = gather(t.b, b, t.sum_extent, b_);
        const int k = static_cast<int>(t.sum_extent);
        cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, static_cast<int>(m), static_cast<int>(n), k, t.factor,
                    a_.data(), k, b_.data(), k, 0, product_.get(), static_cast<int>(m));
        std::array<std::int64_t, kBlockRank> stride{};
        std::int64_t step = 1;
        for (unsigned mask : {a, b})
            for (int x : indices(mask)) {
                stride[x] = step;
                step *= p_.extents[x];
            }
        const auto& e = p_.extents;
        const auto out = packed_strides(e);
        parallel_for(e[5] * e[4] * e[3], threads_, 4, [&](std::int64_t slow) {
            const std::int64_t c = slow % e[3], bb = slow / e[3] % e[4], aa = slow / e[3] / e[4];
            const double* from = product_.get() + c * stride[3] + bb * stride[4] + aa * stride[5];
            double* to = t3 + c * out[3] + bb * out[4] + aa * out[5];
            for (std::int64_t i = 0; i < e[2]; ++i)
                for (std::int64_t j = 0; j < e[1]; ++j) {
                    const double* f = from + i * stride[2] + j * stride[1];
                    double* o = to + i * out[2] + j * out[1];
                    if (first)
                        for (std::int64_t q = 0; q < e[0]; ++q) o[q] = f[q * stride[0]];
                    else
                        for (std::int64_t q = 0; q < e[0]; ++q) o[q] += f[q * stride[0]];
                }
        });
    }
    const Problem& p_;
    int threads_;
    std::vector<double> a_, b_;
    std::unique_ptr<double[]> product_;
};

bool wanted(const std::vector<std::string>& list, std::string_view name) {
    return list.empty() || std::ranges::find(list, name) != list.end();
}

}  // namespace

void bench_triples(const TriplesOptions& options, nlohmann::json& report) {
    const int threads = resolve_threads(options.threads);
    FusedWorkspace workspace;
    FusedOptions fused_options;
    fused_options.workspace = &workspace;
    fused_options.threads = threads;
    report["threads"] = threads;
    report["isa"] = std::string(name(fused_options.isa));
    double gemm = gemm_gflops(threads);
    nlohmann::json cases = nlohmann::json::array();
    for (const Size& size : kSizes) {
        if (!wanted(options.sizes, size.name)) continue;
        const Problem p(size);
        std::int64_t volume = 1;
        for (std::int64_t e : p.extents) volume *= e;
        const std::unique_ptr<double[]> t3(new double[static_cast<std::size_t>(volume)]);
        const double flops = fused_flops(p.extents, p.terms);
        FusedOutput output{t3.get(), packed_strides(p.extents), false};
        const std::span<const FusedTerm> terms = p.terms;
        auto record = [&](const char* variant, double seconds, double work, double error) {
            cases.push_back({{"size", size.name},
                             {"variant", variant},
                             {"seconds", seconds},
                             {"gflops", work / seconds * 1e-9},
                             {"max_relative_error", error}});
            if (!options.quiet)
                fmt::print(stderr, "{:5} {:20} {:9.4f} s {:8.1f} GF/s  error {:.1e}\n", size.name, variant, seconds,
                           work / seconds * 1e-9, error);
            ensure(error < 1e-12, "bench triples {} {}: relative error {}", size.name, variant, error);
        };
        auto stored = [&](const char* variant, auto&& work) {
            if (!wanted(options.variants, variant)) return;
            std::fill_n(t3.get(), volume, std::nan(""));
            const double seconds = best_seconds(options.repeats, work);
            record(variant, seconds, flops, sampled_error(p, t3.get(), 500));
        };
        stored("fused", [&] { fused_contract(p.extents, terms, output, fused_options); });
        stored("partially_fused", [&] {
            FusedOutput add = output;
            add.accumulate = true;
            fused_contract(p.extents, terms.first(9), output, fused_options);
            fused_contract(p.extents, terms.subspan(9), add, fused_options);
        });
        stored("unfused", [&] {
            FusedOutput add = output;
            for (std::size_t n = 0; n < terms.size(); ++n, add.accumulate = true)
                fused_contract(p.extents, terms.subspan(n, 1), add, fused_options);
        });
        if (wanted(options.variants, "ttgt")) {
            TransposeGemm ttgt(p, threads);
            stored("ttgt", [&] { ttgt.run(t3.get()); });
        }
        // The energies are checked against the weights on the stored tensor, so those runs need it.
        auto reduced = [&](const char* variant, TripleWeights weights) {
            if (!wanted(options.variants, variant)) return;
            if (weights == TripleWeights::closed_shell && (size.a != size.b || size.b != size.c)) return;
            const EnergyEpilogue epilogue = p.epilogue(weights);
            double energy = 0;
            const double seconds = best_seconds(
                options.repeats, [&] { energy = fused_energy(p.extents, terms, epilogue, fused_options); });
            fused_contract(p.extents, terms, output, fused_options);
            const double want = stored_energy(p, t3.get(), epilogue, threads);
            record(variant, seconds, flops, std::abs(energy - want) / std::abs(want));
        };
        reduced("energy", TripleWeights::spin_orbital);
        reduced("energy_closed_shell", TripleWeights::closed_shell);
    }
    gemm = std::max(gemm, gemm_gflops(threads));
    for (auto& c : cases) c["fraction_of_gemm"] = c["gflops"].get<double>() / gemm;
    report["gemm_gflops"] = gemm;
    report["cases"] = std::move(cases);
}

}  // namespace tessera::bench
