#pragma once
// The report of a contraction, as JSON fields and as text.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "contract/verify.hpp"

namespace tessera::app {

struct ContractionSummary {
    std::string problem, spec;
    ContractReport report;
    double seconds = 0;                // planning included
    double gemm_gflops = 0;            // of the best single call: what the result is held against
    double gemm_sustained_gflops = 0;  // the mean of calls for as long as the work took, up to 3 s
    std::vector<double> densities;     // of the operands
    double density_c = 0;
    std::int64_t metadata_bytes = 0;
    Verification checked;
    std::uint64_t checksum = 0;
};

nlohmann::json to_json(const ContractionSummary& s);
std::string to_text(const ContractionSummary& s);

}  // namespace tessera::app
