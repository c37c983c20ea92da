#include "bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/parallel.hpp"
#include "commit.hpp"
#include "gemm_rate.hpp"
#include "probe/rates.hpp"
#include "problem_run.hpp"
#include "tessera/base/cpu.hpp"
#include "timing.hpp"

namespace tessera::bench {

using Json = nlohmann::json;

Json bench_run(const RunOptions& o) {
    Json result = {{"benchmark", "run"},
                   {"commit", build_commit()},
                   {"machine", cpu_name()},
                   {"isa", name(detected_isa())},
                   {"threads", resolve_threads(o.threads)},
                   {"repeats", o.repeats},
                   {"cases", Json::array()}};
    for (const auto& text : o.problems) {
        const ProblemRun problem(text, o.threads);
        std::vector<double> ours, gemm, products, ratios;
        for (int round = 0; round < o.repeats; ++round) {
            if (round == 0) problem.rate(o.threads);  // the first touch of the result's memory is not work
            const double start = now_seconds();
            ours.push_back(problem.rate(o.threads));
            gemm.push_back(openblas_dgemm_rate(o.threads, std::clamp(now_seconds() - start, 0.3, 3.0)).mean_gflops);
            products.push_back(measure_tile_gflops(256, o.threads, 0.3));
            if (gemm.back() > 0) ratios.push_back(ours.back() / gemm.back());
        }
        Json one = {{"problem", problem.name()},
                    {"gflops", median(ours)},
                    {"gemm_gflops", median(gemm)},
                    {"products_gflops", median(products)},
                    {"of_gemm", ratios.empty() ? Json() : Json(median(ratios))},
                    {"of_products", median(ours) / median(products)}};
        if (!o.quiet)
            fmt::print(stderr, "{}: {:.1f} GFLOP/s, DGEMM {:.1f}, products {:.1f}\n", problem.name(), median(ours),
                       median(gemm), median(products));
        result["cases"].push_back(std::move(one));
    }
    if (const auto why = why_no_openblas(o.threads); !why.empty()) result["peer_missing"] = why;
    return result;
}

void print_bench_run(const Json& result) {
    fmt::print("{} threads of {}, {}, medians of {} rounds\n{:<24} {:>8} {:>8} {:>8} {:>9} {:>12}\n",
               result["threads"].get<int>(), result["machine"].get<std::string>(), result["isa"].get<std::string>(),
               result["repeats"].get<int>(), "problem", "GFLOP/s", "DGEMM", "of it", "products", "of products");
    for (const Json& c : result["cases"])
        fmt::print("{:<24} {:>8.1f} {:>8.1f} {:>8.2f} {:>9.1f} {:>12.2f}\n", c["problem"].get<std::string>(),
                   c["gflops"].get<double>(), c["gemm_gflops"].get<double>(),
                   c["of_gemm"].is_null() ? 0 : c["of_gemm"].get<double>(), c["products_gflops"].get<double>(),
                   c["of_products"].get<double>());
    if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
}

}  // namespace tessera::bench
