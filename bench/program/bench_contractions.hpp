#pragma once
// `tessera bench contractions`: ordinary dense contractions of the literature's families, against TBLIS, NumPy and
// PyTorch, all timed in turn.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

struct ContractionsOptions {
    bool peers = false;
    bool tiles = false;  // also time tensors: in automatic tiles, and each in one tile
    bool quiet = false;
    int threads = 0;
    int rounds = 5;         // medians of these
    double seconds = 0.03;  // of calls in each, for each way
    std::string type = "float64";
    std::vector<std::string> families, specs;  // of the rows; none: all
    std::string python = "python3";            // which has the peers
};

/// `cases`: family, spec, extents, flops, floor_seconds and, by way (into: result memory given; fresh: a new array;
/// peers with _fresh likewise), gflops. `summary`: geometric means and worst ratios.
nlohmann::json bench_contractions(const ContractionsOptions& options);
void print_bench_contractions(const nlohmann::json& result);

}  // namespace tessera::bench
