#pragma once
// A plan's time line on a described machine: the same steps that the executor runs, on links and devices that are
// numbers. docs/SIMULATOR.md says how long each step takes and what it waits for.

#include <cstdint>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/plan/trace.hpp"

namespace TESSERA_API tessera {

/// Shares of the run in which the mean device computed, the mean node's network and the mean rank's link to its devices
/// moved data (the busier direction of each), and the mean thread worked.
struct BusyFractions {
    double device = 0, network = 0, host_link = 0, cores = 0;
};

struct Simulation {
    double seconds = 0;
    double tflops = 0, tflops_per_device = 0;  // the latter 0 without devices
    BusyFractions busy;
    double overlap = 1;  // share of the time with transfers under way on a rank in which it also worked; 1 without any
    std::vector<double> device_seconds;  // computing or making tiles, by rank * devices_per_rank + device
    std::vector<double> rank_seconds;    // when each rank's last step was over
    Trace trace;                         // only where asked for
};

struct SimulateOptions {
    bool trace = false;
};

/// Rates of the machine that are 0 are unknown: what they would time costs nothing. Ranks and devices are the plan's.
Simulation simulate(const Plan& plan, const MachineModel& machine, const SimulateOptions& options = {});

}  // namespace tessera
