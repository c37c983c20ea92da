#pragma once
// `tessera bench latency`: how long small block-sparse contractions take, from the call to the finished result.

#include <nlohmann/json.hpp>

namespace tessera::bench {

struct LatencyOptions {
    int threads = 0;
    int repeats = 1000;  // medians of so many calls
};

/// `cases`: name, spec, tiles, products, flops, threads_used (of a kept plan) and, in microseconds, first_sight
/// (contract() of what was never seen; planning: its part), cached (contract() again), kept (execute() of a plan) and
/// kept_into (execute_into()).
nlohmann::json bench_latency(const LatencyOptions& options);
void print_bench_latency(const nlohmann::json& result);

}  // namespace tessera::bench
