#include "bench_rectangular.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/check.hpp"
#include "commit.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;

Json run_on(const std::string& problem, const std::vector<std::string>& how, const RectangularOptions& o) {
    std::vector<std::string> arguments = {"run",       problem,
                                          "--json",    "--quiet",
                                          "--check",   "1",
                                          "--threads", std::to_string(o.threads),
                                          "--repeat",  std::to_string(o.repeats)};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Json one = run_program(tessera_program(), arguments, o.ranks, o.threads);
    Json out = {{"algorithm", one.at("algorithm")},
                {"seconds", one.at("seconds")},
                {"sent_bytes", one.at("bytes").at("sent")},
                {"checksum", one.at("checksum")}};
    if (one.contains("repeated")) {
        out["quartiles"] = one["repeated"]["quartiles"];
        out["seconds"] = one["repeated"]["quartiles"][1];
    }
    return out;
}

/// Beyond the ranks of this machine.
Json simulated() {
    auto pattern = (std::filesystem::temp_directory_path() / "tessera-figures-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw MachineError(fmt::format("{}: no folder for figures", pattern));
    Json out = Json::array();
    try {
        const Json drawn = run_program(tessera_program(),
                                       {"figures", "--only", "dbcsr-3a,dbcsr-3b", "--out", pattern, "--json"}, 0, 1);
        for (const Json& figure : drawn.at("figures"))
            out.push_back({{"source", figure.at("source")}, {"lines", figure.at("lines")}});
    } catch (...) {
        std::filesystem::remove_all(pattern);
        throw;
    }
    std::filesystem::remove_all(pattern);
    return out;
}

}  // namespace

Json bench_rectangular(const RectangularOptions& o) {
    const int side = static_cast<int>(std::lround(std::sqrt(o.ranks)));
    require(side * side == o.ranks && side > 1, "--ranks {}: a square grid needs 4, 9, 16, ... of them", o.ranks);
    if (const auto why = no_ranks_reason(); !why.empty()) throw MachineError(why);
    const auto n = o.size, n2 = o.size * o.size;
    const auto grid = fmt::format("{0}x{0}", side);
    Json result = {{"bench", "rectangular"}, {"commit", bench::build_commit()},
                   {"machine", cpu_name()},  {"ranks", o.ranks},
                   {"threads", o.threads},   {"cases", Json::array()}};
    for (const bool small_c : {true, false})
        for (const char* occupancy : {"0.1", "0.5"}) {
            const auto problem =
                fmt::format("synthetic:{},{},{},{},20,60", small_c ? n : n2, n, small_c ? n2 : n, occupancy);
            Json one = {{"small", small_c ? "c" : "b"}, {"occupancy", std::stod(occupancy)}, {"problem", problem}};
            one["linear"] = run_on(problem, {"--algorithm", small_c ? "split_k" : "replicate_b"}, o);
            one["square"] = run_on(problem, {"--algorithm", "outer_product", "--grid", grid}, o);
            ensure(one["linear"]["checksum"] == one["square"]["checksum"], "{}: checksums {} and {}", problem,
                   one["linear"]["checksum"].get<std::string>(), one["square"]["checksum"].get<std::string>());
            one["ratio"] = one["square"]["seconds"].get<double>() / one["linear"]["seconds"].get<double>();
            if (!o.quiet) fmt::print(stderr, "{}: square over linear {:.2f}\n", problem, one["ratio"].get<double>());
            result["cases"].push_back(std::move(one));
        }
    if (o.simulate) result["simulated"] = simulated();
    return result;
}

void print_bench_rectangular(const Json& result) {
    fmt::print("{} ranks of {} thread(s)\n\n", result.at("ranks").get<int>(), result.at("threads").get<int>());
    fmt::print("{:<34} {:>10} {:>10} {:>10} {:>10} {:>7}\n", "problem", "linear", "sent", "square", "sent", "ratio");
    const auto megabytes = [](const Json& x) {
        return fmt::format("{:.1f} MB", x.at("sent_bytes").get<double>() * 1e-6);
    };
    const auto time = [](const Json& x) { return fmt::format("{:.1f} ms", 1e3 * x.at("seconds").get<double>()); };
    for (const Json& one : result.at("cases"))
        fmt::print("{:<34} {:>10} {:>10} {:>10} {:>10} {:>7.2f}\n", one["problem"].get<std::string>(),
                   time(one["linear"]), megabytes(one["linear"]), time(one["square"]), megabytes(one["square"]),
                   one["ratio"].get<double>());
    if (!result.contains("simulated")) return;
    fmt::print("\nsimulated on pizdaint, with the way of A, B and C from and to the square grid\n");
    for (const Json& figure : result["simulated"])
        for (const Json& line : figure.at("lines")) {
            fmt::print("{:<34} {:<16}", figure.at("source").get<std::string>(), line.at("name").get<std::string>());
            for (const Json& p : line.at("points")) fmt::print("  {}: {:.2f}", p[0].get<double>(), p[1].get<double>());
            fmt::print("\n");
        }
}

}  // namespace tessera
