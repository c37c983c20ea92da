#include "paper_cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/simulate/simulate.hpp"

namespace tessera::app {

PlanningOptions PaperCase::options() const {
    PlanningOptions o;
    o.problem = problem;
    o.machine = machine;
    o.how.algorithm = algorithm;
    o.how.blocks = blocks;
    if (algorithm == "stationary_b") o.how.deal = deal.empty() ? "mirrored" : deal;
    o.b = b;
    o.how.grid = grid;
    o.ranks = ranks;
    o.devices_per_rank = devices_per_rank;
    o.how.parameters = parameters;
    return o;
}

std::string PaperCase::command() const {
    auto text =
        fmt::format("tessera simulate {} --machine {} --ranks {} --algorithm {}", problem, machine, ranks, algorithm);
    if (algorithm == "stationary_b") text += " --deal " + (deal.empty() ? "mirrored" : deal);
    if (devices_per_rank >= 0) text += fmt::format(" --devices-per-rank {}", devices_per_rank);
    if (blocks != "auto") text += " --blocks " + blocks;
    if (b != "auto") text += " --source-b " + b;
    if (!grid.empty()) text += " --grid " + grid;
    const auto& p = parameters;
    if (p.block_share) text += fmt::format(" --block-share {}", *p.block_share);
    if (p.block_rows && p.block_cols) text += fmt::format(" --block {}x{}", *p.block_rows, *p.block_cols);
    if (p.lookahead) text += fmt::format(" --lookahead {}", *p.lookahead);
    return text;
}

PlanParameters published_blocks(int tiles, int devices, double device_memory, int tile) {
    constexpr double kShare = 0.75;
    const double bytes = 8.0 * tile * tile;
    for (int blocks = 1;; ++blocks) {
        const int b = (tiles + blocks - 1) / blocks, of_device = (b + devices - 1) / devices;
        if (b > 1 && b * of_device * bytes > kShare * device_memory) continue;
        return {.block_share = kShare, .block_rows = b, .block_cols = of_device, .lookahead = blocks == 1 ? 1 : 2};
    }
}

PaperCase dense_on_one_node(const MachineModel& summit, int devices, int tile) {
    const int tiles = (70'000 + tile - 1) / tile, n = tiles * tile;
    return {fmt::format("dense:{},{},{},{}", n, n, n, tile),
            "outer_product",
            "auto",
            "auto",
            "",
            1,
            devices,
            published_blocks(tiles, devices, static_cast<double>(summit.device.memory), tile)};
}

PaperCase dense_distributed(const MachineModel& summit, int tiles, int grid, int lookahead) {
    const int n = tiles * 1024;
    auto parameters =
        published_blocks((tiles + grid - 1) / grid, summit.devices_per_rank, static_cast<double>(summit.device.memory));
    if (lookahead > 0) parameters.lookahead = lookahead;
    return {fmt::format("dense:{},{},{},1024", n, n, n),
            "outer_product",
            "auto",
            "auto",
            fmt::format("{}x{}", grid, grid),
            grid * grid,
            -1,
            parameters};
}

PaperCase synthetic_on_16_nodes(int k, double density) {
    return {fmt::format("synthetic:48000,{},{},{:g}", k, k, density), "stationary_b", "worst_fit", "host", "", 32, -1};
}

PaperCase alkane_on_summit(const std::string& tiling, int gpus) {
    return {"alkane:65:" + tiling, "stationary_b", "worst_fit", "host", "", gpus / 3, -1};
}

PaperOutcome simulate_case(const PaperCase& c, const MachineModel& machine) {
    const auto planned = make_plan(c.options(), machine, make_problem(c.options().problem)).planned;
    const auto s = simulate(planned, planned.machine());
    const auto& n = planned.counts();
    const auto& plan = planned.plan();
    constexpr double kTile = 8.0 * 1024 * 1024;
    PaperOutcome o{s.seconds, s.tflops, s.tflops_per_device, n.flops};
    const double in = static_cast<double>(n.loaded_bytes + n.copied_bytes);
    if (in > 0) o.from_device = static_cast<double>(n.copied_bytes) / in;
    const double devices = std::max(1, plan.ranks * plan.devices_per_rank);
    o.tiles_moved = (in + static_cast<double>(n.stored_bytes)) / kTile / devices;
    o.tiles_loaded_from_host = static_cast<double>(n.loaded_bytes) / kTile / devices;
    o.products = static_cast<double>(n.products);
    int i = 0;
    for (const Shape* x : {&plan.a, &plan.b, &plan.c}) {
        o.stored_bytes += 8.0 * static_cast<double>(x->elements());
        o.density[i++] = x->density();
    }
    if (o.stored_bytes > 0) o.intensity = n.flops / o.stored_bytes;
    return o;
}

double published_tiles_moved(int tiles, int grid, int devices, const PlanParameters& parameters) {
    const double t = tiles, p = grid, g = devices;
    const double share = t / p;  // rows and columns of a rank
    const double x = std::max(1.0, share / *parameters.block_rows);
    const double y = std::max(1.0, share / (*parameters.block_cols * g));
    return y * t * t / p + x * t * t / (p * g) + t * t / (p * p * g);
}

}  // namespace tessera::app
