#pragma once
// `tessera bench latency`: how long small block-sparse contractions take, from the call to the finished result.

#include <nlohmann/json.hpp>

namespace tessera::bench {

struct LatencyOptions {
    int threads = 0;
    int repeats = 1000;  // medians of so many calls
    int device = -1;     // tensors live on this one; -1: on the host
};

/// `cases`: name, spec, tiles, products, flops, threads_used (of a kept plan) and, in microseconds, first_sight
/// (contract() of what was never seen; planning: its part), cached (contract() again), kept (execute() of a plan) and
/// kept_into (execute_into()). On a device, of tensors that live there: kept, each call waited for, and back_to_back,
/// the mean of ten times as many with one wait at the end; right: the result has the host's bits.
nlohmann::json bench_latency(const LatencyOptions& options);
void print_bench_latency(const nlohmann::json& result);

}  // namespace tessera::bench
