#pragma once
// `tessera bench sign`: the sign of a block-sparse matrix, the same iteration as with DBCSR.

#include <nlohmann/json.hpp>

namespace tessera {

struct SignBenchOptions {
    bool peers = false;
    bool quiet = false;
    int threads = 0;
    std::int64_t states = 20'000;
    double filter = 1e-6;
};

/// `cases`: tile, problem, iterations, seconds, plan_seconds, gflops, tiles and, with peers, peer_seconds and ratio;
/// and worst_ratio (null without the peer), threads. Progress goes to stderr.
nlohmann::json bench_sign(const SignBenchOptions& options);
void print_bench_sign(const nlohmann::json& result);

}  // namespace tessera
