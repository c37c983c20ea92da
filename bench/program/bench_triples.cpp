#include "bench_triples.hpp"

#include "bench_triples_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "check_failed.hpp"
#include "commit.hpp"
#include "gemm_rate.hpp"
#include "kernels/gemm.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"
#include "tessera/kernels/transpose.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::bench {

namespace {

/// The best of at least `repeats` calls, and of as many as a second holds: of short work a few calls say little on a
/// machine that is never quite free.
template <class Work>
double best_seconds(int repeats, Work&& work) {
    double best = 1e300;
    const double begin = now_seconds();
    for (int r = 0; r < repeats || now_seconds() - begin < 1; ++r) {
        const double start = now_seconds();
        work();
        best = std::min(best, now_seconds() - start);
    }
    return best;
}

/// The library's own way without fusion: each term one matrix product of its dense operands as they lie (our tile
/// products), which is then permuted and added into t3 (our transpose).
class TransposeGemm {
  public:
    TransposeGemm(const Problem& p, const Size& size, int threads) : threads_(threads), workspaces_(threads) {
        constexpr std::string_view letters = "kjicba";
        std::int64_t volume = 1;
        for (std::int64_t e : p.extents) volume *= e;
        product_.reset(new double[static_cast<std::size_t>(volume)]);
        std::fill_n(product_.get(), volume, 0.0);  // pages are touched before timing
        for (std::size_t t = 0; t < p.terms.size(); ++t) {
            const TermPattern& pattern = t < 9 ? kOccupiedPatterns[t] : kVirtualPatterns[t - 9];
            Step step;
            step.factor = pattern.factor;
            step.a = p.terms[t].a.data;
            step.b = p.terms[t].b.data;
            step.k = size.sum;
            std::string order;  // of the product, slowest first: rows from t2, columns from v2
            for (std::string_view operand : {std::string_view(pattern.t2), std::string_view(pattern.v2)})
                for (std::size_t x = operand.size(); x-- > 0;)
                    if (letters.find(operand[x]) != std::string_view::npos) {
                        order += operand[x];
                        (operand == pattern.t2 ? step.m : step.n) *= p.extents[letters.find(operand[x])];
                    }
            step.sum_first_b = letters.find(pattern.v2[0]) == std::string_view::npos;
            std::vector<std::int64_t> extents;
            std::vector<int> permutation;
            for (char c : order) extents.push_back(p.extents[letters.find(c)]);
            for (std::size_t x = letters.size(); x-- > 0;)
                permutation.push_back(static_cast<int>(order.find(letters[x])));
            step.plan = plan_transpose(extents, permutation, sizeof(double));
            steps_.push_back(std::move(step));
        }
    }
    void run(double* t3, const Part& part) {
        bool first = true;
        for (const Step& step : std::span(steps_).subspan(part.first, part.count)) {
            multiply(step);
            TransposeArguments<double> arguments;
            arguments.alpha = step.factor;
            arguments.beta = first ? 0 : 1;
            arguments.threads = threads_;
            transpose(step.plan, product_.get(), t3, arguments);
            first = false;
        }
    }

  private:
    struct Step {
        double factor = 1;
        const double *a = nullptr, *b = nullptr;
        std::int64_t m = 1, n = 1, k = 1;
        bool sum_first_b = false;
        TransposePlan plan;
    };
    static MatrixLayout matrix(std::int64_t rows, std::int64_t row_stride, std::int64_t cols, std::int64_t col_stride) {
        MatrixLayout layout;
        layout.rows.push_back({rows, row_stride});
        layout.cols.push_back({cols, col_stride});
        return layout;
    }
    void multiply(const Step& s) {
        const std::int64_t pieces = std::min<std::int64_t>(s.m, 4L * threads_);
        parallel_region(threads_, [&](int thread, int team) {
            for (std::int64_t piece = thread; piece < pieces; piece += team) {
                const std::int64_t begin = s.m * piece / pieces, rows = s.m * (piece + 1) / pieces - begin;
                const MatrixLayout a = matrix(rows, s.k, s.k, 1), c = matrix(rows, s.n, s.n, 1);
                const MatrixLayout b = s.sum_first_b ? matrix(s.k, 1, s.n, s.k) : matrix(s.k, s.n, s.n, 1);
                const ChainLink<double> link{s.a + begin * s.k, s.b, &a, &b};
                const Chain<double> chain{product_.get() + begin * s.n, &c, {&link, 1}, true};
                multiply_chains<double>({&chain, 1}, {}, workspaces_[static_cast<std::size_t>(thread)]);
            }
        });
    }
    int threads_;
    std::vector<GemmWorkspace> workspaces_;
    std::vector<Step> steps_;
    std::unique_ptr<double[]> product_;
};

}  // namespace

void bench_triples(const TriplesOptions& options, nlohmann::json& report) {
    if (!options.variants.empty() && wanted(options.variants, "energy_closed_shell") && !options.sizes.empty())
        for (const Size& size : kSizes)
            require(!wanted(options.sizes, size.name) || size.has_closed_shell(),
                    "bench triples: size {} has no closed-shell energy, whose virtual ranges {}, {}, {} would be equal",
                    size.name, size.a, size.b, size.c);
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
    double gemm = openblas_dgemm_rate(threads, 1).best_gflops;
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
        auto record = [&](const std::string& variant, const Part& part, double seconds, double error) {
            const double work = flops * static_cast<double>(part.count) / 18;
            cases.push_back({{"size", size.name},
                             {"variant", variant},
                             {"terms", part.name},
                             {"seconds", seconds},
                             {"gflops", work / seconds * 1e-9},
                             {"max_relative_error", error}});
            if (!options.quiet)
                fmt::print(stderr, "{:5} {:20} {:4} {:9.4f} s {:8.1f} GF/s  error {:.1e}\n", size.name, variant,
                           part.name, seconds, work / seconds * 1e-9, error);
            if (!(error < 1e-12))
                throw CheckFailed(
                    fmt::format("bench triples {} {}: relative error {} against ref", size.name, variant, error));
        };
        std::optional<TransposeGemm> ttgt;
        for (const Part& part : kParts) {
            if (options.terms.empty() ? part.count != 18 : !wanted(options.terms, part.name)) continue;
            const auto stored = [&](const std::string& variant, auto&& work) {
                std::fill_n(t3.get(), volume, std::nan(""));
                const double seconds = best_seconds(options.repeats, work);
                record(variant, part, seconds, sampled_error(p, t3.get(), 500, part));
            };
            // Nothing is transposed in registers here, so there is no variant without it.
            for (const char* variant : {"fused", "nine_nine", "partially_fused", "no_register_tiling", "unfused"}) {
                if (!wanted(options.variants, variant)) continue;
                const auto kernels = kernels_of(variant, terms, part);
                FusedOptions how = fused_options;
                how.register_tiles = std::string_view(variant) != "no_register_tiling";
                stored(variant, [&] {
                    FusedOutput to = output;
                    for (const auto& kernel : kernels) {
                        fused_contract(p.extents, kernel, to, how);
                        to.accumulate = true;
                    }
                });
            }
            if (!wanted(options.variants, "ttgt")) continue;
            if (!ttgt) ttgt.emplace(p, size, threads);
            stored("ttgt", [&] { ttgt->run(t3.get(), part); });
        }
        if (options.peers) {
            const auto& e = p.extents;
            const auto peer = run_peer("numpy_peer",
                                       {"triples", fmt::format("{},{},{},{},{},{}", e[0], e[1], e[2], e[3], e[4], e[5]),
                                        std::to_string(size.sum)},
                                       threads, report);
            if (!peer.is_null()) {
                record("numpy", kParts[0], peer["seconds"].get<double>(), peer["max_relative_error"].get<double>());
            }
        }
        // The energies are checked against the plain weights on a stored tensor, which is checked against ref itself.
        auto reduced = [&](const char* variant, TripleWeights weights) {
            if (!wanted(options.variants, variant)) return;
            if (weights == TripleWeights::closed_shell && !size.has_closed_shell()) return;
            const EnergyEpilogue epilogue = p.epilogue(weights);
            double energy = 0;
            const double seconds = best_seconds(
                options.repeats, [&] { energy = fused_energy(p.extents, terms, epilogue, fused_options); });
            fused_contract(p.extents, terms, output, fused_options);
            const double want = stored_energy(p, t3.get(), epilogue, threads);
            record(variant, kParts[0], seconds,
                   std::max(std::abs(energy - want) / std::abs(want), sampled_error(p, t3.get(), 500)));
        };
        reduced("energy", TripleWeights::spin_orbital);
        reduced("energy_closed_shell", TripleWeights::closed_shell);
    }
    gemm = std::max(gemm, openblas_dgemm_rate(threads, 1).best_gflops);
    if (gemm > 0)
        for (auto& c : cases) c["fraction_of_gemm"] = c["gflops"].get<double>() / gemm;
    report["gemm_gflops"] = gemm > 0 ? nlohmann::json(gemm) : nlohmann::json();
    report["cases"] = std::move(cases);
}

}  // namespace tessera::bench
