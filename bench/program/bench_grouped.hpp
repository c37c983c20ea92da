#pragma once
// `tessera bench grouped`: lists of tile products on a CUDA device, against the DGEMM rate of the same run.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

struct GroupedOptions {
    int device = -1;                // required
    std::vector<std::string> rows;  // irregular 64 32 23 13; empty: all
    int repeats = 5;
    int shape = -1;      // this block shape for every tile, for tuning
    bool peers = false;  // cublasDgemm on the irregular row too (cublasDgemmBatched on equal tiles: always)
    bool quiet = false;
};

/// Fills `report` with rows [{name, tflops, fraction_of_gemm, wanted_tflops, cublas_batched_tflops or
/// cublas_looped_tflops, ...}]. Throws UserError without a device, InternalError when sampled tiles differ from the
/// host's.
void bench_grouped(const GroupedOptions& options, nlohmann::json& report);

}  // namespace tessera::bench
