// The triples table on a CUDA device.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.hpp"
#include "bench_triples_problem.hpp"
#include "check_failed.hpp"
#include "cublas_library.hpp"
#include "device/cuda/transpose.hpp"
#include "device/cuda/triples_mirror.hpp"
#include "device/fused.hpp"
#include "device_timing.hpp"
#include "gemm_rate.hpp"

namespace tessera::bench {

namespace {

using cuda::DeviceBuffer;
using cuda::DeviceFused;
using cuda::Mirror;

/// Each term through cuBLAS and the library's transpose. The dense operands are matrices as they lie; only the product
/// must be permuted, and is added into t3 on the way.
class DeviceTransposeGemm {
  public:
    DeviceTransposeGemm(const CublasLibrary& cublas, const Problem& p, const Size& size, const Mirror& mirror,
                        std::int64_t volume)
        : cublas_(cublas), product_(static_cast<std::size_t>(volume) * sizeof(double)) {
        constexpr std::string_view letters = "kjicba";
        for (std::size_t n = 0; n < p.terms.size(); ++n) {
            const TermPattern& pattern = n < 9 ? kOccupiedPatterns[n] : kVirtualPatterns[n - 9];
            Step step;
            step.factor = pattern.factor;
            step.a = mirror(p.terms[n].a.data);
            step.b = mirror(p.terms[n].b.data);
            step.k = size.sum;
            std::string product;  // fastest first
            for (std::string_view operand : {std::string_view(pattern.t2), std::string_view(pattern.v2)}) {
                std::int64_t& extent = operand == pattern.t2 ? step.m : step.n;
                for (char c : operand)
                    if (letters.find(c) != std::string_view::npos) {
                        product += c;
                        extent *= p.extents[letters.find(c)];
                    }
            }
            step.sum_first_b = letters.find(pattern.v2[0]) == std::string_view::npos;
            std::vector<std::int64_t> extents;
            std::vector<int> permutation;
            for (std::size_t x = 6; x-- > 0;) extents.push_back(p.extents[letters.find(product[x])]);
            for (std::size_t x = 6; x-- > 0;) permutation.push_back(5 - static_cast<int>(product.find(letters[x])));
            step.transpose.emplace(extents, permutation, 8);
            steps_.push_back(std::move(step));
        }
    }
    void run(double* t3, const Part& part) const {
        auto* product = static_cast<double*>(product_.data());
        for (std::size_t n = part.first; n < part.first + part.count; ++n) {
            const Step& s = steps_[n];
            cublas_.dgemm(true, !s.sum_first_b, s.m, s.n, s.k, s.factor, s.a, s.k, s.b, s.sum_first_b ? s.k : s.n, 0,
                          product, s.m);
            s.transpose->run(product, t3, 1.0, n == part.first ? 0.0 : 1.0);
        }
    }

  private:
    struct Step {
        double factor = 1;
        const double *a = nullptr, *b = nullptr;
        std::int64_t m = 1, n = 1, k = 1;
        bool sum_first_b = false;
        std::optional<cuda::DeviceTranspose> transpose;
    };
    const CublasLibrary& cublas_;
    DeviceBuffer product_;
    std::vector<Step> steps_;
};

class Table {
  public:
    Table(const TriplesOptions& options, const CublasLibrary& cublas) : options_(options), cublas_(cublas) {}
    nlohmann::json cases = nlohmann::json::array();

    void size(const Size& size) {
        const Problem p(size);
        std::int64_t volume = 1;
        for (std::int64_t e : p.extents) volume *= e;
        Mirror mirror;
        for (const auto& s : p.storage) mirror.add(s);
        for (const auto& e : p.energies) mirror.add(e);
        const std::vector<FusedTerm> list = mirror(std::span<const FusedTerm>(p.terms));
        const std::vector<FusedTerm> singles = mirror(std::span<const FusedTerm>(p.singles));
        const std::span<const FusedTerm> terms = list;
        const double flops = fused_flops(p.extents, terms);
        const std::size_t bytes = static_cast<std::size_t>(volume) * sizeof(double);
        std::vector<double> host(static_cast<std::size_t>(volume));
        const DeviceBuffer t3(bytes);
        const FusedOutput output{static_cast<double*>(t3.data()), packed_strides(p.extents), false};

        FusedOutput add = output;
        add.accumulate = true;
        std::optional<DeviceTransposeGemm> ttgt;
        for (const Part& part : kParts) {
            if (options_.terms.empty() ? part.count != 18 : !wanted(options_.terms, part.name)) continue;
            const auto stored = [&](const std::string& variant, const std::string& detail, auto&& work) {
                cuda::fill_bytes(t3.data(), 0xff, bytes);  // NaN: what is not written shows
                const double seconds = median_seconds(std::max(options_.repeats, 15), 0, work);
                cuda::copy_to_host(host.data(), t3.data(), bytes);
                record(size.name, variant, part, detail, seconds, flops, sampled_error(p, host.data(), 1000, part));
            };
            for (const char* variant : {"fused", "nine_nine", "partially_fused", "no_register_transpose", "unfused"}) {
                if (!wanted(options_.variants, variant)) continue;
                std::vector<DeviceFused> kernels;
                for (const auto& kernel : kernels_of(variant, terms, part))
                    kernels.emplace_back(p.extents, kernel, kernels.empty() ? output : add);
                stored(variant, kernels.front().description(), [&] {
                    for (const DeviceFused& kernel : kernels) kernel.run();
                });
            }
            if (!cublas_.available() || !wanted(options_.variants, "ttgt")) continue;
            if (!ttgt) ttgt.emplace(cublas_, p, size, mirror, volume);
            stored("ttgt", "cuBLAS " + cublas_.version(), [&] { ttgt->run(static_cast<double*>(t3.data()), part); });
        }

        std::optional<double> expected[2];   // by weights: the check costs more than the runs
        std::optional<double> stored_error;  // of the t3 they are held against
        auto reduced = [&](const std::string& variant, TripleWeights weights) {
            if (!wanted(options_.variants, variant)) return;
            if (weights == TripleWeights::closed_shell && !size.has_closed_shell()) return;
            const EnergyEpilogue on_host = p.epilogue(weights);
            EnergyEpilogue epilogue = on_host;
            epilogue.singles = singles;
            for (auto& e : epilogue.orbital_energies) e = mirror(e);
            const DeviceFused fused(p.extents, terms, epilogue);
            const double seconds = median_seconds(std::max(options_.repeats, 15), 0, [&] { fused.run(); });
            const double energy = fused.energy();
            if (!stored_error) {
                const DeviceFused store(p.extents, terms, output);
                store.run();
                cuda::copy_to_host(host.data(), t3.data(), bytes);
                stored_error = sampled_error(p, host.data(), 1000);
            }
            auto& expectation = expected[weights == TripleWeights::closed_shell ? 1 : 0];
            if (!expectation) expectation = stored_energy(p, host.data(), on_host, 0);
            const double want = *expectation;
            record(size.name, variant, kParts[0], fused.description(), seconds, flops,
                   std::max(std::abs(energy - want) / std::abs(want), *stored_error));
        };
        reduced("energy", TripleWeights::spin_orbital);
        reduced("energy_closed_shell", TripleWeights::closed_shell);
    }

  private:
    void record(const char* size, const std::string& variant, const Part& part, const std::string& detail,
                double seconds, double all, double error) {
        const double flops = all * static_cast<double>(part.count) / 18;
        cases.push_back({{"size", size},
                         {"variant", variant},
                         {"terms", part.name},
                         {"detail", detail},
                         {"seconds", seconds},
                         {"gflops", flops / seconds * 1e-9},
                         {"max_relative_error", std::isfinite(error) ? error : 1e300}});
        if (!options_.quiet)
            fmt::print(stderr, "{:5} {:20} {:4} {:9.3f} ms {:9.1f} GF/s  error {:.1e}\n", size, variant, part.name,
                       1e3 * seconds, flops / seconds * 1e-9, error);
        if (!(error < 1e-12)) failures_ += fmt::format(" {} {} {:.1e};", size, variant, error);
    }
    const TriplesOptions& options_;
    const CublasLibrary& cublas_;

  public:
    std::string failures_;
};

}  // namespace

void bench_triples_device(const TriplesOptions& options, nlohmann::json& report) {
    const device::Info info = device::info(options.device);
    device::set_current(options.device);
    const CublasLibrary cublas;
    if (!options.variants.empty() && wanted(options.variants, "ttgt") && !cublas.available())
        throw BackendUnavailable("bench triples: variant ttgt needs cuBLAS, which was not found");
    double gemm = cublas_dgemm_gflops(cublas);
    Table table(options, cublas);
    for (const Size& size : kSizes)
        if (wanted(options.sizes, size.name)) table.size(size);
    gemm = std::max(gemm, cublas_dgemm_gflops(cublas));
    if (gemm > 0)
        for (auto& c : table.cases) c["fraction_of_gemm"] = c["gflops"].get<double>() / gemm;
    report["machine"] = info.name;
    report["driver"] = info.driver;
    report["multiprocessors"] = info.multiprocessors;
    report["cublas"] = cublas.version();
    report["gemm_gflops"] = gemm;
    report["cases"] = std::move(table.cases);
    if (!options.quiet) fmt::print(stderr, "cuBLAS DGEMM {:.1f} GF/s\n", gemm);
    if (!table.failures_.empty())
        throw CheckFailed("bench triples: results differ from the reference:" + table.failures_);
}

}  // namespace tessera::bench
