#pragma once
// `tessera bench triples`: the fused CCSD(T) contractions at the published sizes.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::bench {

/// In the order in which they are timed. no_register_transpose is of devices, no_register_tiling of the CPU.
inline constexpr const char* kTriplesVariants[] = {
    "fused",   "nine_nine", "partially_fused", "no_register_transpose", "no_register_tiling",
    "unfused", "ttgt",      "energy",          "energy_closed_shell"};

struct TriplesOptions {
    int threads = 0;
    int device = -1;                    // -1: CPU
    std::vector<std::string> sizes;     // A B C D E long; empty: all
    std::vector<std::string> variants;  // kTriplesVariants; empty: all
    std::vector<std::string> terms;     // all sd1 sd2; empty: all of them together
    int repeats = 3;
    bool quiet = false;
    bool peers = false;  // CPU: NumPy's einsum too (variant numpy), where it is installed
};

/// Fills `report` with cases [{size, variant, terms, seconds, gflops, fraction_of_gemm, max_relative_error}] and
/// gemm_gflops. Throws CheckFailed when a result differs from the reference by more than 1e-12.
void bench_triples(const TriplesOptions& options, nlohmann::json& report);

}  // namespace tessera::bench
