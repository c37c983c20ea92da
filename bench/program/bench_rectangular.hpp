#pragma once
// `tessera bench rectangular`: products with one small matrix on a linear and on a square grid of ranks.

#include <nlohmann/json.hpp>

namespace tessera {

struct RectangularOptions {
    std::int64_t size = 400;
    int ranks = 4, threads = 1, repeats = 5;
    bool quiet = false, simulate = true;
};

/// `cases`: small (c or b), occupancy, problem, and for `linear` and `square` {algorithm, seconds (median), quartiles,
/// sent_bytes, checksum}, ratio (square over linear); and, with `simulate`, the lines of tessera figures.
nlohmann::json bench_rectangular(const RectangularOptions& options);
void print_bench_rectangular(const nlohmann::json& result);

}  // namespace tessera
