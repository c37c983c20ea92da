#pragma once
// The published transpose sample (Lyakh, section III), timed against a direct copy and the scatter loop.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

struct BenchTransposeOptions {
    int device = -1;                   // -1: the CPU
    std::vector<double> volumes = {};  // elements; empty: 37e6, 77e6 and 141e6
    std::vector<int> ranks = {};       // empty: 2 to 8 and 15
    std::vector<int> ratios = {};      // largest to smallest extent; empty: 1, 5, 15
    int samples = 7;                   // random permutations per shape; their inverses are timed too
    bool reverse = false;              // the reverse permutations instead
    bool scatter = true;               // time the scatter loop as well
    bool peers = false;                // CPU: NumPy (one thread) too, where it is installed
    bool small_pages = false;          // CPU: buffers in ordinary pages, as malloc gives them, not in huge ones
    double alpha = 1, beta = 0;        // CPU: other than these the transpose combines, the copy and the scatter do not
    int threads = 0;                   // 0: all cores
    int repeats = 3;                   // the best of so many counts, for all contenders alike
    std::uint64_t seed = 1;
    std::string commit = {};   // empty: the commit this program was built from
    std::string variant = {};  // device only: tile shape, for tuning (tuning_of)
    bool progress = true;      // a line per shape on stderr
};

/// Elements. Fewer than these are copied in less time than clocks and launches take, and the rates would say nothing.
inline constexpr double kLeastVolume = 1e6, kMostVolume = 4e9;

/// Fills `out` with cases and summary; returns a process exit code. Throws tessera::Error.
int bench_transpose(const BenchTransposeOptions& options, nlohmann::json& out);

/// The figures of all cases, as fields of the report (with those by rank and volume) and together in `summary`.
void summarise(nlohmann::json& report);

/// The results of two runs with the same settings over different shapes, as one. UserError where the settings differ or
/// a shape is in both.
nlohmann::json join_transpose(nlohmann::json earlier, const nlohmann::json& more);

}  // namespace tessera::bench
