#pragma once
// `tessera bench run`: problems of `tessera run` and OpenBLAS's DGEMM in turns, in one process.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

struct RunOptions {
    bool quiet = false;
    int threads = 0;
    int repeats = 5;  // medians of so many rounds
    std::vector<std::string> problems = {"blocks:24,640,0.3", "blocks:60,256,0.3"};
};

/// `cases`: problem, gflops, gemm_gflops (the mean of DGEMM for as long as the problem takes, three seconds at most,
/// right after it), products_gflops (tile products that share nothing) and of_gemm: medians of the rounds.
nlohmann::json bench_run(const RunOptions& options);
void print_bench_run(const nlohmann::json& result);

}  // namespace tessera::bench
