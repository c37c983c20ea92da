#pragma once
// `tessera bench threads`: what more cores give where arithmetic is what takes the time.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

struct ThreadsOptions {
    bool quiet = false;
    int repeats = 3;                                            // medians of so many rounds, in which all take turns
    std::vector<int> counts = {1, 2, 4, 8, 16};                 // those beyond the cores are left out
    std::vector<std::string> problems = {"blocks:16,384,0.3"};  // of `tessera run`
};

/// `cases`: name and, by number of threads, gflops, efficiency (of so many times one thread) and of_products: the
/// efficiency over that of tile products that share nothing, which clocks and hyperthreads bound. `products`,
/// `openblas`: likewise. `summary`: geometric mean and worst of the most threads.
nlohmann::json bench_threads(const ThreadsOptions& options);
void print_bench_threads(const nlohmann::json& result);

}  // namespace tessera::bench
