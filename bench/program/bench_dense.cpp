#include "bench_dense.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "commit.hpp"
#include "peers.hpp"
#include "probe/rates.hpp"

namespace tessera {

using Json = nlohmann::json;

Json bench_dense(const DenseBenchOptions& o) {
    require(o.repeats >= 1, "repeats is {}, must be at least 1", o.repeats);
    require(o.size >= 1 && o.tile >= 1, "size {} in tiles of {}: both must be at least 1", o.size, o.tile);
    const auto say = [&](const std::string& text) {
        if (!o.quiet) fmt::print(stderr, "{}\n", text);
    };
    Json result = {{"bench", "dense"},      {"commit", bench::build_commit()},
                   {"machine", cpu_name()}, {"size", o.size},
                   {"tile", o.tile},        {"ranks", o.ranks},
                   {"threads", o.threads},  {"ratio", nullptr}};
    const int ranks = o.ranks > 1 ? o.ranks : 0;
    if (ranks > 1 && !no_ranks_reason().empty()) throw MachineError(no_ranks_reason());
    const std::string problem = fmt::format("dense:{0},{0},{0},{1}", o.size, o.tile);
    const auto peer = peer_program(o.peer_folder, "pdgemm_dense");
    const bool with_peer = o.peers && std::filesystem::exists(peer);
    if (o.peers && !with_peer) {
        result["peer_missing"] =
            fmt::format("no {}: install ScaLAPACK with `make bench-packages`, then build again", peer.string());
        say(result["peer_missing"]);
    }
    // In turns, so that both see the same machine; each run times its own product after warming up.
    Json best, theirs;
    for (int r = 0; r < o.repeats; ++r) {
        const Json ours =
            run_program(tessera_program(),
                        {"run", problem, "--json", "--quiet", "--check", "1", "--threads", std::to_string(o.threads)},
                        ranks, o.threads);
        if (best.is_null() || ours["seconds"].get<double>() < best["seconds"].get<double>()) best = ours;
        if (!with_peer) continue;
        const Json one = run_program(peer, {std::to_string(o.size), "1"}, std::max(1, o.ranks), o.threads);
        if (theirs.is_null() || one["seconds"].get<double>() < theirs["seconds"].get<double>()) theirs = one;
    }
    for (const char* key : {"seconds", "gflops", "flops", "algorithm", "overlap", "checksum"})
        if (best.contains(key)) result[key] = best[key];
    std::string text = fmt::format("{} on {} ranks of {} thread(s): {:.1f} GFLOP/s", problem, o.ranks, o.threads,
                                   best["gflops"].get<double>());
    if (with_peer) {
        const double ratio = best["gflops"].get<double>() / theirs["gflops"].get<double>();
        result["peer_gflops"] = theirs["gflops"];
        result["peer_seconds"] = theirs["seconds"];
        result["peer_block"] = theirs["block"];
        result["ratio"] = ratio;
        text += fmt::format(", pdgemm {:.1f}, ratio {:.2f}", theirs["gflops"].get<double>(), ratio);
    }
    say(text);
    return result;
}

}  // namespace tessera
