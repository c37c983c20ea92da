#include "bench_threads.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>

#include "base/check.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "contraction_cases.hpp"
#include "gemm_rate.hpp"
#include "probe/rates.hpp"
#include "probe/roofline.hpp"
#include "problem_run.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/contract/arrays.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "timing.hpp"

namespace tessera::bench {

namespace {

using Json = nlohmann::json;

/// Something that is done on so many threads: its GFLOP/s.
struct Row {
    std::string name;
    std::function<double(int threads)> rate;
};

constexpr double kSeconds = 0.03;

/// The rows of `bench contractions` in which arithmetic takes twice the time of the bytes, on all threads.
void add_contractions(std::vector<Row>& rows, const Roofline& roof) {
    for (const auto& c : kContractionCases) {
        const auto all = parse_extents(c.extents);
        const ContractionSpec spec(c.spec);
        const auto ea = extents_of(spec.a(), all), eb = extents_of(spec.b(), all), ec = extents_of(spec.c(), all);
        double flops = 2;
        for (const auto& [label, n] : all) flops *= static_cast<double>(n);
        const double read = 8.0 * static_cast<double>(ea.product() + eb.product()),
                     written = 8.0 * static_cast<double>(ec.product());
        if (roof.flops_seconds(flops, ScalarKind::f64) < 2 * roof.bytes_seconds(read, written)) continue;
        struct Arrays {
            Array<double> a, b, c;
        };
        const auto x = std::make_shared<Arrays>(Arrays{Array<double>(ea), Array<double>(eb), Array<double>(ec)});
        hash_fill<double>(1, 1.0, x->a.elements());
        hash_fill<double>(2, 1.0, x->b.elements());
        std::fill(x->c.elements().begin(), x->c.elements().end(), 0.0);
        rows.push_back({std::string(c.family) + " " + c.spec, [=, text = c.spec](int threads) {
                            return 1e-9 * flops / timed(kSeconds, [&] {
                                       contract_into(text, x->a.view(), x->b.view(), x->c.view(), {.threads = threads});
                                   });
                        }});
    }
}

void add_problem(std::vector<Row>& rows, const std::string& name) {
    const auto problem = std::make_shared<const ProblemRun>(name);
    problem->rate(0);  // the first touch of the result's memory is not work
    rows.push_back({"run " + problem->name(), [=](int threads) { return problem->rate(threads); }});
}

}  // namespace

Json bench_threads(const ThreadsOptions& o) {
    const int cores = resolve_threads(0);
    std::vector<int> counts;
    for (const int n : o.counts)
        if (n <= cores) counts.push_back(n);
    require(!counts.empty() && counts[0] == 1, "--counts: the first one is {}, must be 1 (there are {} cores)",
            o.counts.empty() ? 0 : o.counts[0], cores);
    Json result = {{"benchmark", "threads"},      {"commit", build_commit()}, {"machine", cpu_name()},
                   {"isa", name(detected_isa())}, {"threads", cores},         {"counts", counts},
                   {"repeats", o.repeats}};
    Roofline roof{measure_tile_gflops(256, counts.back(), 0.3)};
    measure_memory_rates(counts.back(), roof);
    result["read_gbs"] = roof.read_gbs;
    result["store_gbs"] = roof.store_gbs;
    result["copy_gbs"] = roof.copy_gbs;
    std::vector<Row> rows{{"products", [](int threads) { return measure_tile_gflops(256, threads, 3 * kSeconds); }},
                          {"openblas", [](int threads) { return openblas_dgemm_rate(threads, 0.1).best_gflops; }}};
    add_contractions(rows, roof);
    for (const auto& name : o.problems) add_problem(rows, name);

    std::vector<std::vector<std::vector<double>>> rates(rows.size(), std::vector<std::vector<double>>(counts.size()));
    for (int round = 0; round < o.repeats; ++round)
        for (std::size_t r = 0; r < rows.size(); ++r) {
            for (std::size_t n = 0; n < counts.size(); ++n) rates[r][n].push_back(rows[r].rate(counts[n]));
            if (!o.quiet) fmt::print(stderr, "round {}: {}\n", round + 1, rows[r].name);
        }
    std::vector<double> products;
    const auto told = [&](std::size_t r) {
        Json one = {{"name", rows[r].name}};
        for (std::size_t n = 0; n < counts.size(); ++n) {
            const double rate = median(rates[r][n]), alone = median(rates[r][0]);
            const double efficiency = alone > 0 ? rate / (alone * counts[n]) : 0;
            if (r == 0) products.push_back(efficiency);
            one["gflops"].push_back(rate);
            one["efficiency"].push_back(efficiency);
            one["of_products"].push_back(efficiency / products[n]);
        }
        return one;
    };
    result["products"] = told(0);
    result["openblas"] = told(1);
    for (std::size_t r = 2; r < rows.size(); ++r) result["cases"].push_back(told(r));
    Json summary;
    for (const char* key : {"efficiency", "of_products"})
        for (std::size_t n = 0; n < counts.size(); ++n) {
            double logs = 0, worst = 1e300;
            std::string which;
            for (const Json& one : result["cases"]) {
                const double x = one[key][n].get<double>();
                logs += std::log(x);
                if (x < worst) worst = x, which = one["name"];
            }
            summary[key].push_back({{"threads", counts[n]},
                                    {"geomean", std::exp(logs / static_cast<double>(rows.size() - 2))},
                                    {"worst", worst},
                                    {"worst_case", which}});
        }
    result["summary"] = summary;
    return result;
}

void print_bench_threads(const Json& result) {
    fmt::print("{}, {}, {} cores; GFLOP/s (efficiency, over that of products that share nothing)\n",
               result["machine"].get<std::string>(), result["isa"].get<std::string>(), result["threads"].get<int>());
    std::string head = fmt::format("{:<32}", "threads");
    for (const Json& n : result["counts"]) head += fmt::format(" {:>20}", n.get<int>());
    fmt::print("{}\n", head);
    const auto line = [&](const Json& one) {
        std::string text = fmt::format("{:<32}", one["name"].get<std::string>());
        for (std::size_t n = 0; n < one["gflops"].size(); ++n)
            text += fmt::format(" {:>7.1f} ({:.2f}, {:.2f})", one["gflops"][n].get<double>(),
                                one["efficiency"][n].get<double>(), one["of_products"][n].get<double>());
        fmt::print("{}\n", text);
    };
    line(result["products"]);
    line(result["openblas"]);
    for (const Json& one : result["cases"]) line(one);
    for (const char* key : {"efficiency", "of_products"})
        for (const Json& s : result["summary"][key])
            fmt::print("{} on {} threads: {:.2f} (geometric mean), worst {:.2f} ({})\n", key, s["threads"].get<int>(),
                       s["geomean"].get<double>(), s["worst"].get<double>(), s["worst_case"].get<std::string>());
}

}  // namespace tessera::bench
