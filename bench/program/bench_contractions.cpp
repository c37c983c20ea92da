#include "bench_contractions.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <csignal>
#include <cstdio>
#include <map>

#include "base/check.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "contraction_cases.hpp"
#include "gemm_rate.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"
#include "probe/roofline.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/contract/arrays.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/index/automatic_tiling.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "timing.hpp"

namespace tessera::bench {

namespace {

using Json = nlohmann::json;

/// A process that answers a line with a line.
class Peer {
  public:
    Peer(const std::string& python, const std::string& script, int threads) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) throw MachineError("cannot make pipes for the peers");
        child_ = fork();
        if (child_ < 0) throw MachineError("cannot start the peers");
        if (child_ == 0) {
            ::dup2(to[0], 0);
            ::dup2(from[1], 1);
            for (const int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
            ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
            ::setenv("PEER_ISA", std::string(name(detected_isa())).c_str(), 1);
            ::execlp(python.c_str(), python.c_str(), script.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        in_ = ::fdopen(to[1], "w");
        out_ = ::fdopen(from[0], "r");
        std::signal(SIGPIPE, SIG_IGN);
    }
    ~Peer() {
        std::fclose(in_);
        std::fclose(out_);
        ::waitpid(child_, nullptr, 0);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    /// Null where it has ended.
    Json answer() {
        std::string line;
        for (int c; (c = std::fgetc(out_)) != EOF && c != '\n';) line += static_cast<char>(c);
        return Json::parse(line, nullptr, false).is_discarded() ? Json() : Json::parse(line);
    }
    Json ask(const Json& question) {
        std::fprintf(in_, "%s\n", question.dump().c_str());
        std::fflush(in_);
        return answer();
    }

  private:
    pid_t child_;
    FILE *in_, *out_;
};

TileGrid one_tile(const IndexVector& extents) {
    std::vector<Tiling> tilings;
    for (const auto n : extents) tilings.push_back(Tiling{n});
    return TileGrid(std::move(tilings));
}

template <Scalar T>
Json bench_case(const ContractionCase& c, const ContractionsOptions& o, Peer* peer,
                const std::map<std::string, std::string>& ways, const Roofline& roof) {
    const auto all = parse_extents(c.extents);
    const ContractionSpec spec(c.spec);
    const auto ea = extents_of(spec.a(), all), eb = extents_of(spec.b(), all), ec = extents_of(spec.c(), all);
    Array<T> a(ea), b(eb), into(ec);
    hash_fill<T>(1, 1.0, a.elements());
    hash_fill<T>(2, 1.0, b.elements());
    std::fill(into.elements().begin(), into.elements().end(), T(0));
    const Resources here{.threads = o.threads};
    double flops = kFlopsPerMultiplyAdd<T>;
    for (const auto& [label, n] : all) flops *= static_cast<double>(n);
    const double read = sizeof(T) * static_cast<double>(ea.product() + eb.product()),
                 written = sizeof(T) * static_cast<double>(ec.product());
    Json one = {{"family", c.family}, {"spec", c.spec},     {"extents", c.extents},
                {"flops", flops},     {"bytes_read", read}, {"bytes_written", written}};
    if (peer)
        peer->ask({{"spec", c.spec},
                   {"extents",
                    [&] {
                        Json e;
                        for (const auto& [label, n] : all) e[std::string(1, label)] = n;
                        return e;
                    }()},
                   {"type", o.type}});
    std::map<std::string, std::pair<Tensor<T>, Tensor<T>>> tensors;
    if (o.tiles) {
        const auto tiled = [&](const TileGrid& grid_a, const TileGrid& grid_b) {
            return std::pair{Tensor<T>::from_dense(grid_a, a.elements()), Tensor<T>::from_dense(grid_b, b.elements())};
        };
        tensors.emplace("tiles", tiled(automatic_grid(c.spec, 0, ea), automatic_grid(c.spec, 1, eb)));
        tensors.emplace("one_tile", tiled(one_tile(ea), one_tile(eb)));
    }
    std::map<std::string, std::vector<double>> seconds;
    for (int round = 0; round < o.rounds; ++round) {
        seconds["into"].push_back(
            timed(o.seconds, [&] { contract_into(c.spec, a.view(), b.view(), into.view(), here); }));
        seconds["fresh"].push_back(timed(o.seconds, [&] { contract(c.spec, a.view(), b.view(), here); }));
        for (const auto& [way, operands] : tensors)
            seconds[way].push_back(timed(o.seconds, [&] { contract(c.spec, operands.first, operands.second, here); }));
        for (const auto& [way, name] : ways)
            for (const bool given : {true, false}) {
                if (given && way == "torch") continue;  // it has no such call
                const Json told = peer->ask({{"time", way}, {"seconds", o.seconds}, {"into", given}});
                if (told.contains("seconds")) seconds[way + (given ? "" : "_fresh")].push_back(told["seconds"]);
            }
    }
    for (const auto& [way, times] : seconds)
        if (!times.empty()) one["gflops"][way] = flops / median(times) * 1e-9;
    const double floor = roof.floor_seconds(flops, ScalarTraits<T>::kind, read, written);
    one["floor_seconds"] = floor;
    one["bound_by"] = roof.flops_seconds(flops, ScalarTraits<T>::kind) == floor ? "arithmetic" : "memory";
    one["of_floor"] = floor / median(seconds["into"]);
    one["of_floor_fresh"] = floor / median(seconds["fresh"]);
    return one;
}

Json run_case(const ContractionCase& c, const ContractionsOptions& o, Peer* peer,
              const std::map<std::string, std::string>& ways, const Roofline& roof) {
    if (o.type == "float32") return bench_case<float>(c, o, peer, ways, roof);
    if (o.type == "complex64") return bench_case<std::complex<float>>(c, o, peer, ways, roof);
    if (o.type == "complex128") return bench_case<std::complex<double>>(c, o, peer, ways, roof);
    return bench_case<double>(c, o, peer, ways, roof);
}

}  // namespace

Json bench_contractions(const ContractionsOptions& o) {
    const int threads = resolve_threads(o.threads);
    // OpenBLAS does not know each processor: the faster of its products and our own is what arithmetic can do.
    const double openblas = openblas_dgemm_rate(threads).best_gflops;
    Roofline roof{std::max(openblas, measure_tile_gflops(256, threads, 0.3))};
    measure_memory_rates(threads, roof);
    Json result = {{"benchmark", "contractions"},     {"commit", build_commit()},    {"machine", cpu_name()},
                   {"isa", name(detected_isa())},     {"threads", threads},          {"type", o.type},
                   {"gemm_gflops", roof.gemm_gflops}, {"openblas_gflops", openblas}, {"read_gbs", roof.read_gbs},
                   {"store_gbs", roof.store_gbs},     {"copy_gbs", roof.copy_gbs},   {"cases", Json::array()}};
    std::unique_ptr<Peer> peer;
    std::map<std::string, std::string> ways;
    if (o.peers) {
        peer = std::make_unique<Peer>(o.python, peer_program({}, "einsum_peer").string(), threads);
        const Json hello = peer->answer();
        if (hello.is_null() || hello.contains("missing"))
            result["peer_missing"] =
                hello.is_null() ? o.python + " cannot be started" : hello["missing"].get<std::string>();
        else
            ways = hello["peers"].get<std::map<std::string, std::string>>();
        result["peers"] = ways;
    }
    for (const auto& c : kContractionCases) {
        if (!o.families.empty() && std::find(o.families.begin(), o.families.end(), c.family) == o.families.end())
            continue;
        if (!o.specs.empty() && std::find(o.specs.begin(), o.specs.end(), c.spec) == o.specs.end()) continue;
        result["cases"].push_back(run_case(c, o, peer.get(), ways, roof));
        if (o.quiet) continue;
        const Json& one = result["cases"].back();
        std::string text =
            fmt::format("{:<10} {:<22} of floor {:4.2f} GFLOP/s:", c.family, c.spec, one["of_floor"].get<double>());
        for (const auto& [way, rate] : one["gflops"].items())
            text += fmt::format(" {} {:.1f}", way, rate.get<double>());
        fmt::print(stderr, "{}\n", text);
    }
    // Ratios to each peer: with the result's memory given, and fresh.
    Json summary;
    const auto ratios = [&](const std::string& ours, const std::string& theirs, const std::string& as) {
        double logs = 0, worst = 1e300;
        std::string which;
        int n = 0;
        for (const Json& one : result["cases"]) {
            if (!one["gflops"].contains(ours) || !one["gflops"].contains(theirs)) continue;
            const double ratio = one["gflops"][ours].get<double>() / one["gflops"][theirs].get<double>();
            logs += std::log(ratio);
            ++n;
            if (ratio < worst) {
                worst = ratio;
                which = one["spec"];
            }
        }
        if (n > 0)
            summary[as] = {{"geomean", std::exp(logs / n)}, {"worst", worst}, {"worst_case", which}, {"cases", n}};
    };
    for (const auto& [way, name] : ways) {
        ratios("into", way, "over_" + way);
        ratios("fresh", way + "_fresh", "over_" + way + "_fresh");
    }
    if (o.tiles) {
        ratios("tiles", "fresh", "tiles_over_arrays");
        ratios("one_tile", "tiles", "one_tile_over_tiles");
    }
    const auto mean = [&](const std::string& way) {
        double logs = 0;
        int n = 0;
        for (const Json& one : result["cases"])
            if (one["gflops"].contains(way)) logs += std::log(one["gflops"][way].get<double>()), ++n;
        if (n > 0) summary["geomean_gflops"][way] = std::exp(logs / n);
    };
    for (const std::string way :
         {"into", "fresh", "tiles", "one_tile", "tblis", "tblis_fresh", "numpy", "numpy_fresh", "torch_fresh"})
        mean(way);
    // How near to the floor: of each family the worst, with the result's memory given and fresh.
    for (const Json& one : result["cases"])
        for (const char* key : {"of_floor", "of_floor_fresh"}) {
            Json& worst = summary["worst_" + std::string(key)][one["family"].get<std::string>()];
            worst = std::min(worst.is_null() ? 1e300 : worst.get<double>(), one[key].get<double>());
        }
    result["summary"] = summary;
    return result;
}

void print_bench_contractions(const Json& result) {
    fmt::print(
        "{} threads of {}, {}: products {:.1f} GFLOP/s (OpenBLAS {:.1f}), reads {:.1f} GB/s, stores {:.1f} GB/s, "
        "copies {:.1f} GB/s\n",
        result["threads"].get<int>(), result["machine"].get<std::string>(), result["type"].get<std::string>(),
        result["gemm_gflops"].get<double>(), result["openblas_gflops"].get<double>(), result["read_gbs"].get<double>(),
        result["store_gbs"].get<double>(), result["copy_gbs"].get<double>());
    fmt::print("{:<10} {:<20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}\n", "family", "spec", "into", "fresh", "TBLIS",
               "NumPy", "torch", "floor");
    for (const Json& one : result["cases"]) {
        const auto rate = [&](const char* way) {
            return one["gflops"].contains(way) ? fmt::format("{:.1f}", one["gflops"][way].get<double>()) : "-";
        };
        fmt::print("{:<10} {:<20} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7.2f}\n", one["family"].get<std::string>(),
                   one["spec"].get<std::string>(), rate("into"), rate("fresh"), rate("tblis"), rate("numpy"),
                   rate("torch_fresh"), one["of_floor"].get<double>());
    }
    for (const auto& [key, value] : result["summary"].items())
        if (value.contains("geomean"))
            fmt::print("{}: {:.2f} (geometric mean of {}), worst {:.2f} ({})\n", key, value["geomean"].get<double>(),
                       value["cases"].get<int>(), value["worst"].get<double>(), value["worst_case"].get<std::string>());
    for (const auto& [family, worst] : result["summary"]["worst_of_floor"].items())
        fmt::print("worst of {}: {:.2f} of its floor, {:.2f} in fresh memory\n", family, worst.get<double>(),
                   result["summary"]["worst_of_floor_fresh"][family].get<double>());
    if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
}

}  // namespace tessera::bench
