#pragma once
// The report of a contraction, as JSON fields and as text.

#include <nlohmann/json.hpp>

#include <string>

#include "contract/verify.hpp"

namespace tessera::app {

struct ContractionSummary {
    std::string problem, spec;
    ContractReport report;
    double seconds = 0;                            // planning included
    double gemm_gflops = 0, gemm_best_gflops = 0;  // held against; the best single call
    double density_a = 0, density_b = 0, density_c = 0;
    std::int64_t metadata_bytes = 0;
    Verification checked;
    std::uint64_t checksum = 0;
};

nlohmann::json to_json(const ContractionSummary& s);
std::string to_text(const ContractionSummary& s);

}  // namespace tessera::app
