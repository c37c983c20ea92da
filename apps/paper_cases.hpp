#pragma once
// The runs of the two papers on Summit as the command line would simulate them.

#include <string>

#include "planning.hpp"
#include "tessera/machine/machine_model.hpp"

namespace tessera::app {

struct PaperCase {
    std::string problem, algorithm, blocks, b, grid;
    int ranks = 1, devices_per_rank = -1;
    PlanParameters parameters = {};
    std::string machine = "summit";
    std::string deal = {};  // of stationary_b; empty: the published one

    PlanningOptions options() const;
    std::string command() const;
};

/// Peak of cuBLAS on one GPU of Summit, as measured in both papers; TF/s.
inline constexpr double kPublishedPeak = 7.2;

/// The published choice of b and c (ScalA 2019, section III-B3): b = c as large as it gets with b x c/G tiles of C in
/// three quarters of a device, C in even blocks; lookahead 1 where C is one block, 2 where it is several. `tile`: edge.
PlanParameters published_blocks(int tiles, int devices, double device_memory, int tile = 1024);

// The dense runs (ScalA 2019, section V) have stored operands and square blocks of C that stay on the devices; the
// others (IPDPS 2021, section V) make B on the cores and form blocks by worst fit.
PaperCase dense_on_one_node(const MachineModel& summit, int devices, int tile = 1024);
/// On a square grid of ranks; `lookahead` 0: the published rule.
PaperCase dense_distributed(const MachineModel& summit, int tiles, int grid, int lookahead = 0);
PaperCase synthetic_on_16_nodes(int k = 48000, double density = 1);
PaperCase alkane_on_summit(const std::string& tiling, int gpus);

struct PaperOutcome {
    double seconds = 0, tflops = 0, tflops_per_device = 0, flops = 0;
    double from_device = 0;  // share of the bytes that come into devices from another device
    double tiles_moved = 0;  // into and out of a device, of 1024 x 1024
    double tiles_loaded_from_host = 0;
    double intensity = 0;                   // flops over the bytes of A, B and C
    double products = 0, stored_bytes = 0;  // of A, B and C
    double density[3] = {};                 // of elements
};
PaperOutcome simulate_case(const PaperCase& c, const MachineModel& machine);

/// Tiles in and out of a device by formula (1) of ScalA 2019 for what the parameters say: C in X x Y blocks.
double published_tiles_moved(int tiles, int grid, int devices, const PlanParameters& parameters);

}  // namespace tessera::app
