#include "bench_sparse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "commit.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;

struct Timed {
    double seconds = 1e300, plan_seconds = 0, flops = 0;
    double gflops() const { return flops / seconds * 1e-9; }
};

/// One contraction, planned anew each time; keeps the best time.
Tensor<double> time_once(const std::string& spec, const Tensor<double>& a, const Tensor<double>& b, int threads,
                         Timed& best) {
    const auto start = std::chrono::steady_clock::now();
    const auto planned = plan(spec, a, b, {.threads = threads});
    Contraction<double> result = execute(planned, a, b);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (seconds < best.seconds) best = {seconds, planned.seconds(), result.report.flops};
    return std::move(result.tensor);
}

void say(const SparseBenchOptions& options, const std::string& text) {
    if (!options.quiet) fmt::print(stderr, "{}\n", text);
}

// ---- against the peer

struct BlocksCase {
    std::int64_t blocks, tile;
    const char* occupancy;
};
constexpr std::array<BlocksCase, 5> kBlocksCases = {
    {{600, 13, "0.1"}, {400, 23, "0.1"}, {300, 32, "0.1"}, {4000, 23, "0.001"}, {10000, 23, "0.0001"}}};

std::vector<std::string> peer_arguments(const BlocksCase& c, int repeats) {
    return {std::to_string(c.blocks), std::to_string(c.tile), c.occupancy, "1", std::to_string(repeats)};
}

Json bench_blocks(const SparseBenchOptions& options, const std::filesystem::path& peer) {
    Json cases = Json::array();
    for (const BlocksCase& c : kBlocksCases) {
        const Problem problem = make_problem(fmt::format("blocks:{},{},{}", c.blocks, c.tile, c.occupancy));
        Json one = {{"tile", c.tile}, {"occupancy", std::stod(c.occupancy)}, {"problem", problem.name}};
        Timed best;
        {
            const auto a = Tensor<double>::generate(problem.a, problem.make_a, options.threads);
            const auto b = Tensor<double>::generate(problem.b, problem.make_b, options.threads);
            for (int r = 0; r <= options.repeats; ++r) {
                if (r == 1) best = Timed();
                const Tensor<double> result = time_once(problem.spec, a, b, options.threads, best);
                if (r > 0) continue;
                const std::int64_t metadata = a.metadata_bytes() + b.metadata_bytes() + result.metadata_bytes();
                const std::int64_t tiles = a.tile_bytes() + b.tile_bytes() + result.tile_bytes();
                one["metadata_fraction"] = static_cast<double>(metadata) / static_cast<double>(tiles);
            }
        }
        one["seconds"] = best.seconds;
        one["plan_seconds"] = best.plan_seconds;
        one["flops"] = best.flops;
        one["gflops"] = best.gflops();
        std::string text = fmt::format("{}: {:.1f} GFLOP/s, {:.1f} % planning", problem.name, best.gflops(),
                                       100 * best.plan_seconds / best.seconds);
        if (!peer.empty()) {
            const Json theirs =
                run_program(peer, peer_arguments(c, options.repeats), 0, resolve_threads(options.threads));
            const double rate = theirs.at("gflops").get<double>();
            ensure(theirs.at("flops").get<double>() == best.flops, "{}: the peer counts {} flops, we count {}",
                   problem.name, theirs.at("flops").get<double>(), best.flops);
            one["peer_seconds"] = theirs.at("seconds");
            one["peer_gflops"] = rate;
            one["ratio"] = best.gflops() / rate;
            text += fmt::format(", DBCSR {:.1f}, ratio {:.2f}", rate, best.gflops() / rate);
        }
        say(options, text);
        cases.push_back(std::move(one));
    }
    return cases;
}

/// Tiles of 23 on two ranks of one thread each, ours and the peer's in turns.
Json bench_two_ranks(const SparseBenchOptions& options, const std::filesystem::path& peer) {
    const BlocksCase c = kBlocksCases[1];
    const std::string problem = fmt::format("blocks:{},{},{}", c.blocks, c.tile, c.occupancy);
    Json result = {{"problem", problem}, {"ranks", 2}, {"threads", 1}, {"ratio", nullptr}};
    if (!no_ranks_reason().empty()) {
        result["missing"] = no_ranks_reason();
        return result;
    }
    double ours = 0, theirs = 0;
    for (int r = 0; r < options.repeats; ++r) {
        const Json one = run_program(tessera_program(),
                                     {"run", problem, "--json", "--quiet", "--check", "1", "--threads", "1"}, 2, 1);
        ours = std::max(ours, one.at("gflops").get<double>());
        if (!peer.empty())
            theirs = std::max(theirs, run_program(peer, peer_arguments(c, 1), 2, 1).at("gflops").get<double>());
    }
    result["gflops"] = ours;
    std::string text = fmt::format("{} on 2 ranks: {:.1f} GFLOP/s", problem, ours);
    if (theirs > 0) {
        result["peer_gflops"] = theirs;
        result["ratio"] = ours / theirs;
        text += fmt::format(", DBCSR {:.1f}, ratio {:.2f}", theirs, ours / theirs);
    }
    say(options, text);
    return result;
}

// ---- permuted layouts

struct PermutedCase {
    const char* spec;
    std::int64_t extent, tile;  // of every label not in `others`
    std::map<char, std::pair<std::int64_t, std::int64_t>> others;
};

/// Operands of about 100 MB; contracted extents of 2304 to 4096, in tiles that make matrices of 400 to 576 a side.
std::vector<PermutedCase> permuted_cases() {
    return {
        {"aibj,jbck->ciak", 60, 20, {}},
        {"ijkl,imjn->lnkm", 60, 20, {}},
        {"abcd,dbef->eafc", 60, 20, {}},
        {"abcd,ecfb->fade", 60, 20, {}},
        {"abcd,bedf->fcea", 60, 20, {}},
        {"dbca,ebfd->cfea", 60, 20, {}},
        {"abij,cdij->cadb", 60, 20, {}},
        {"ijab,ijcd->dcba", 60, 20, {}},
        {"abc,dbe->eadc", 60, 20, {{'b', {3600, 400}}}},
        {"abc,cda->db", 48, 24, {{'b', {5400, 540}}, {'d', {5400, 540}}}},
        {"abcdef,dgehfi->gahbic", 16, 8, {}},
    };
}

/// The same contraction with operands that are matrices as they lie: free and contracted labels each together.
std::string gemm_ready(const ContractionSpec& spec) {
    const auto in_order = [&](const std::string& labels, LabelRole role) {
        std::string out;
        for (const char label : labels)
            if (spec.role(label) == role) out += label;
        return out;
    };
    const std::string rows = in_order(spec.a(), LabelRole::free_a), columns = in_order(spec.b(), LabelRole::free_b);
    const std::string inner = in_order(spec.a(), LabelRole::contracted);
    return rows + inner + "," + inner + columns + "->" + rows + columns;
}

Tensor<double> operand(const PermutedCase& c, const std::string& labels, std::uint64_t seed, int threads) {
    std::vector<Tiling> tilings;
    for (const char label : labels) {
        const auto other = c.others.find(label);
        tilings.push_back(other == c.others.end() ? Tiling::uniform(c.extent, c.tile)
                                                  : Tiling::uniform(other->second.first, other->second.second));
    }
    return Tensor<double>::random(Shape::dense(TileGrid(std::move(tilings))), seed, threads);
}

Json bench_permuted(const SparseBenchOptions& options) {
    Json cases = Json::array();
    for (const PermutedCase& c : permuted_cases()) {
        const ContractionSpec spec(c.spec);
        const ContractionSpec ready(gemm_ready(spec));
        Timed permuted, plain;
        double bytes = 0;
        {
            const auto a = operand(c, spec.a(), 1, options.threads), b = operand(c, spec.b(), 2, options.threads);
            const auto ra = operand(c, ready.a(), 1, options.threads), rb = operand(c, ready.b(), 2, options.threads);
            bytes = static_cast<double>(a.tile_bytes());
            // In turns, so that both see the same machine.
            for (int r = 0; r <= options.repeats; ++r) {
                if (r == 1) permuted = plain = Timed();
                time_once(spec.text(), a, b, options.threads, permuted);
                time_once(ready.text(), ra, rb, options.threads, plain);
            }
        }
        const double ratio = permuted.gflops() / plain.gflops();
        cases.push_back({{"spec", spec.text()},
                         {"gemm_ready", ready.text()},
                         {"operand_bytes", bytes},
                         {"flops", permuted.flops},
                         {"gflops", permuted.gflops()},
                         {"gemm_ready_gflops", plain.gflops()},
                         {"ratio", ratio}});
        say(options, fmt::format("{}: {:.1f} GFLOP/s, as {} {:.1f}, ratio {:.2f}", spec.text(), permuted.gflops(),
                                 ready.text(), plain.gflops(), ratio));
    }
    return cases;
}

}  // namespace

Json bench_sparse(const SparseBenchOptions& options) {
    require(options.repeats >= 1, "repeats is {}, must be at least 1", options.repeats);
    Json result = {{"bench", "sparse"},
                   {"commit", bench::build_commit()},
                   {"machine", cpu_name()},
                   {"threads", resolve_threads(options.threads)},
                   {"worst_ratio", nullptr}};
    std::filesystem::path peer;
    if (options.peers && options.blocks) {
        peer = peer_program(options.peer_folder, "dbcsr_blocks");
        std::error_code none;
        if (!std::filesystem::exists(peer, none)) {
            const std::string missing = fmt::format(
                "no {}: install DBCSR's packages with `make bench-packages`, then build again", peer.string());
            say(options, missing);
            result["peer_missing"] = missing;
            peer.clear();
        }
    }
    if (options.blocks) {
        result["cases"] = bench_blocks(options, peer);
        double worst = 1e300;
        for (const Json& one : result["cases"]) {
            if (one.contains("ratio")) worst = std::min(worst, one["ratio"].get<double>());
            if (one["tile"] == 32) result["metadata_fraction"] = one["metadata_fraction"];
        }
        if (worst < 1e300) result["worst_ratio"] = worst;
        if (options.peers) result["two_ranks"] = bench_two_ranks(options, peer);
    }
    if (options.permuted) {
        result["permuted"] = bench_permuted(options);
        double sum = 0;
        for (const Json& one : result["permuted"]) sum += std::log(one["ratio"].get<double>());
        result["permuted_geomean"] = std::exp(sum / static_cast<double>(result["permuted"].size()));
    }
    return result;
}

void print_bench_sparse(const Json& result) {
    fmt::print("threads: {}\n", result.at("threads").get<int>());
    if (result.contains("cases")) {
        fmt::print("\n{:<24} {:>9} {:>9} {:>7} {:>9} {:>9}\n", "problem", "GFLOP/s", "DBCSR", "ratio", "planning",
                   "metadata");
        for (const Json& one : result["cases"]) {
            const bool peer = one.contains("peer_gflops");
            fmt::print("{:<24} {:>9.1f} {:>9} {:>7} {:>8.1f}% {:>8.2f}%\n", one["problem"].get<std::string>(),
                       one["gflops"].get<double>(),
                       peer ? fmt::format("{:.1f}", one["peer_gflops"].get<double>()) : "-",
                       peer ? fmt::format("{:.2f}", one["ratio"].get<double>()) : "-",
                       100 * one["plan_seconds"].get<double>() / one["seconds"].get<double>(),
                       100 * one["metadata_fraction"].get<double>());
        }
        if (!result["worst_ratio"].is_null()) fmt::print("worst ratio {:.2f}\n", result["worst_ratio"].get<double>());
        if (result.contains("two_ranks") && !result["two_ranks"]["ratio"].is_null()) {
            const Json& two = result["two_ranks"];
            fmt::print("{} on 2 ranks: {:.1f} GFLOP/s, DBCSR {:.1f}, ratio {:.2f}\n", two["problem"].get<std::string>(),
                       two["gflops"].get<double>(), two["peer_gflops"].get<double>(), two["ratio"].get<double>());
        }
        if (result.contains("peer_missing")) fmt::print("{}\n", result["peer_missing"].get<std::string>());
    }
    if (result.contains("permuted")) {
        fmt::print("\n{:<24} {:>9} {:>11} {:>7}\n", "permuted layout", "GFLOP/s", "GEMM-ready", "ratio");
        for (const Json& one : result["permuted"])
            fmt::print("{:<24} {:>9.1f} {:>11.1f} {:>7.2f}\n", one["spec"].get<std::string>(),
                       one["gflops"].get<double>(), one["gemm_ready_gflops"].get<double>(), one["ratio"].get<double>());
        fmt::print("geometric mean {:.2f}\n", result["permuted_geomean"].get<double>());
    }
}

}  // namespace tessera
