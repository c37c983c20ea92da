#pragma once
// The report of a contraction, as JSON fields and as text.

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "contract/verify.hpp"
#include "probe/roofline.hpp"

namespace tessera::app {

/// What a contraction takes at least on these cores: of each product of two, its arithmetic or its memory. What fits
/// the last cache need not come from memory.
struct Floor {
    double arithmetic = 0, memory = 0;  // seconds, summed over the products
    double seconds = 0;                 // the longer of the two, likewise
    Roofline rates;
    /// One product of two: bytes of the tiles that are read and written.
    void add(double flops, ScalarKind scalar, double read, double written);
};
std::string to_text(const Floor& floor);

/// Of several executions.
struct Spread {
    double lower = 0, median = 0, upper = 0;  // quartiles
    std::vector<double> seconds;              // of each, in their order
};
Spread spread_of(const std::vector<double>& seconds);

struct ContractionSummary {
    std::string problem, spec;
    ContractReport report;
    double seconds = 0;                // planning included; of several executions the median
    std::optional<Spread> spread;      // of several, without planning
    double gemm_gflops = 0;            // of the best single call: what the result is held against
    std::optional<Floor> floor;        // with --explain or --json of `contract`, on cores
    double gemm_sustained_gflops = 0;  // the mean of calls for as long as the work took, up to 3 s
    std::vector<double> densities;     // of the operands
    double density_c = 0;
    std::int64_t metadata_bytes = 0;
    std::int64_t process_bytes = 0;  // `run`: the memory of the largest rank's process at most
    Verification checked;
    std::uint64_t checksum = 0;
};

nlohmann::json to_json(const ContractionSummary& s);
std::string to_text(const ContractionSummary& s);

}  // namespace tessera::app
