#include "bench_triples.hpp"

#include "bench_triples_problem.hpp"

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "kernels/triples.hpp"
#include "probe/rates.hpp"

extern "C" void openblas_set_num_threads(int);

namespace tessera::bench {

namespace {

template <class Work>
double best_seconds(int repeats, Work&& work) {
    double best = 1e300;
    for (int r = 0; r < repeats; ++r) {
        const double start = now_seconds();
        work();
        best = std::min(best, now_seconds() - start);
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

}  // namespace

void bench_triples(const TriplesOptions& options, nlohmann::json& report) {
    report["commit"] = build_commit();
    if (options.device >= 0) return bench_triples_device(options, report);
    const int threads = resolve_threads(options.threads);
    FusedWorkspace workspace;
    FusedOptions fused_options;
    fused_options.workspace = &workspace;
    fused_options.threads = threads;
    report["machine"] = cpu_name();
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
