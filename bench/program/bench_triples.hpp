#pragma once
// `tessera bench triples`: the fused CCSD(T) contractions at the published sizes.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

struct TriplesOptions {
    int threads = 0;
    int device = -1;                    // -1: CPU
    std::vector<std::string> sizes;     // A B C D E long; empty: all
    std::vector<std::string> variants;  // fused partially_fused unfused ttgt energy energy_closed_shell; empty: all
    int repeats = 3;
    bool quiet = false;
    bool peers = false;  // CPU: NumPy's einsum too (variant numpy), where it is installed
};

/// Fills `report` with cases [{size, variant, seconds, gflops, fraction_of_gemm, max_relative_error}] and gemm_gflops.
/// Throws CheckFailed when a result differs from the reference by more than 1e-12.
void bench_triples(const TriplesOptions& options, nlohmann::json& report);

}  // namespace tessera::bench
