#pragma once
// A machine as plain data: what the planner may use and how fast it is. Described, never probed by the planner itself.

#include <cstdint>
#include <string>

namespace tessera {

struct MachineModel {
    std::string name = "one core";
    int ranks = 1;
    int threads_per_rank = 1;
    double gemm_gflops = 0;  // per rank, all its threads; 0 where unknown
    bool operator==(const MachineModel&) const = default;
};

}  // namespace tessera
