#include "bench_sign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"
#include "tessera/matrix/functions.hpp"
#include "tessera/problems/insulator.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {

using Json = nlohmann::json;

Json bench_sign(const SignBenchOptions& options) {
    const int threads = resolve_threads(options.threads);
    Json result = {{"bench", "sign"},       {"commit", bench::build_commit()}, {"machine", cpu_name()},
                   {"threads", threads},    {"filter", options.filter},        {"cases", Json::array()},
                   {"worst_ratio", nullptr}};
    const auto say = [&](const std::string& text) {
        if (!options.quiet) fmt::print(stderr, "{}\n", text);
    };
    double worst = 1e300;
    for (const int tile : {13, 23, 32}) {
        const std::int64_t bandwidth = 32;
        const char* gap = "0.4";
        const auto model = make_insulator(fmt::format("purify:{},{},{},{}", options.states, tile, bandwidth, gap));
        const auto h = model.hamiltonian({}, threads);
        MatrixOptions what;
        what.filter = options.filter;
        MatrixResult<double> best;
        for (int round = 0; round < 2; ++round) {
            auto ran = sign(h, what, {.threads = threads});
            if (round == 0 || ran.report.seconds < best.report.seconds) best = std::move(ran);
        }
        const auto& r = best.report;
        const auto iterations = static_cast<std::int64_t>(r.history.size()) - 1;
        Json one = {{"tile", tile},
                    {"problem", model.name},
                    {"iterations", iterations},
                    {"seconds", r.seconds},
                    {"plan_seconds", r.plan_seconds},
                    {"gflops", r.flops / r.seconds * 1e-9},
                    {"residual", r.residual},
                    {"tiles", best.matrix.tile_count()}};
        std::string text = fmt::format("{}: {:.2f} s, {:.1f} GFLOP/s, {:.1f} % planning", model.name, r.seconds,
                                       r.flops / r.seconds * 1e-9, 100 * r.plan_seconds / r.seconds);
        if (options.peers && !result.contains("peer_missing")) {
            const double scale = 1 / std::max(std::abs(r.lowest), std::abs(r.highest));
            const Json theirs =
                run_peer("dbcsr_sign",
                         {std::to_string(options.states), std::to_string(tile), std::to_string(bandwidth), gap,
                          fmt::format("{}", options.filter), fmt::format("{:.17g}", scale), std::to_string(iterations)},
                         threads, result);
            if (!theirs.is_null()) {
                // Both filter, each in its own way: the sums agree as far as the filter lets them.
                const double ours = trace(best.matrix, h), other = theirs.at("dot").get<double>();
                ensure(std::abs(ours - other) <= 1e-4 * std::abs(ours),
                       "{}: the peer's trace of sign(H) H is {}, ours {}", model.name, other, ours);
                const double ratio = theirs.at("seconds").get<double>() / r.seconds;
                one["peer_seconds"] = theirs.at("seconds");
                one["ratio"] = ratio;
                worst = std::min(worst, ratio);
                text += fmt::format(", DBCSR {:.2f} s, ratio {:.2f}", theirs.at("seconds").get<double>(), ratio);
            }
        }
        say(text);
        result["cases"].push_back(std::move(one));
    }
    if (worst < 1e300) result["worst_ratio"] = worst;
    return result;
}

void print_bench_sign(const Json& result) {
    fmt::print("threads: {}\n\n{:<28} {:>6} {:>9} {:>9} {:>9} {:>9} {:>7}\n", result.at("threads").get<int>(),
               "problem", "steps", "seconds", "GFLOP/s", "planning", "DBCSR / s", "ratio");
    for (const Json& one : result["cases"]) {
        const bool peer = one.contains("ratio");
        fmt::print("{:<28} {:>6} {:>9.2f} {:>9.1f} {:>8.1f}% {:>9} {:>7}\n", one["problem"].get<std::string>(),
                   one["iterations"].get<int>(), one["seconds"].get<double>(), one["gflops"].get<double>(),
                   100 * one["plan_seconds"].get<double>() / one["seconds"].get<double>(),
                   peer ? fmt::format("{:.2f}", one["peer_seconds"].get<double>()) : "-",
                   peer ? fmt::format("{:.2f}", one["ratio"].get<double>()) : "-");
    }
    if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
}

}  // namespace tessera
