#include "planning.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "inspect/build_plan.hpp"
#include "kernels/cuda/device.hpp"
#include "probe/machine.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera::app {

namespace {

constexpr int kMostRanks = 100'000;
}  // namespace

void add_source_of_b(CLI::App& command, std::string& b) {
    command.add_option("--b", b, "where tiles of B come from: auto, stored, host or device (made there on demand)")
        ->capture_default_str();
}

SourceKind source_of_b(const std::string& b, const Problem& problem, bool devices, bool devices_make) {
    if (b == "stored") return SourceKind::stored;
    if (b == "host") return SourceKind::host_made;
    if (b == "device") {
        require(devices, "--b device: there are no devices to make its tiles");
        return SourceKind::device_made;
    }
    require(b == "auto", "--b {}: one of auto, stored, host, device", b);
    if (!problem.b_on_demand) return SourceKind::stored;
    return devices && devices_make ? SourceKind::device_made : SourceKind::host_made;
}

void add_planning(CLI::App& command, PlanningOptions& o, bool problem_required) {
    auto* problem = command.add_option(
        "problem", o.problem,
        "dense:M,N,K,t | blocks:nb,bs,occ[,seed] | synthetic:M,N,K,density[,lo,hi[,seed]] |\nalkane:n:v1|v2|v3[:min]");
    if (problem_required) problem->required();
    command.add_option("--machine", o.machine, "summit, h200x8, frontier, laptop, this, or a path to a JSON file")
        ->capture_default_str();
    command.add_option("--ranks", o.ranks, "MPI ranks")->capture_default_str()->check(CLI::Range(1, kMostRanks));
    command.add_option("--devices-per-rank", o.devices_per_rank, "GPUs of a rank, 0 for none (default: the machine's)")
        ->check(CLI::Range(0, 1024));
    command
        .add_option("--devices-per-gpu", o.devices_per_gpu,
                    "so many devices of a rank are one and the same GPU, as in run --devices 0,0,0 (default: the "
                    "machine's)")
        ->check(CLI::Range(1, 1024));
    add_memory(command, o.memory,
               "hard budget for tiles, as in 16GiB: of each device, without devices of a rank's host (default: the "
               "machine's)");
    command.add_option("--algorithm", o.algorithm, "auto, stationary_b, outer_product, split_k or replicate_b")
        ->capture_default_str();
    command
        .add_option("--blocks", o.blocks,
                    "device blocks: auto, columns, patches (of rows and columns) or worst_fit (published)")
        ->capture_default_str();
    command.add_option("--grid", o.grid, "ranks as PxQ, of stationary_b and outer_product (default: from the shapes)");
    add_parameters(command, o.parameters);
    add_source_of_b(command, o.b);
    command.add_option("--filter", o.filter, "skip products that cannot lift a result tile above this norm")
        ->capture_default_str();
}

Planned make_plan(const PlanningOptions& o, int threads) {
    const auto machine = o.machine == "this" ? probe_machine(threads, o.ranks) : read_machine(o.machine).machine;
    return make_plan(o, machine);
}

Planned make_plan(const PlanningOptions& o, MachineModel machine) {
    require(std::isfinite(o.filter) && o.filter >= 0, "--filter {} is not a finite number >= 0", o.filter);
    machine.ranks = o.ranks;
    if (o.devices_per_rank >= 0) machine.devices_per_rank = o.devices_per_rank;
    if (o.devices_per_gpu > 0) machine.devices_per_gpu = o.devices_per_gpu;
    require(machine.devices_per_gpu <= std::max(1, machine.devices_per_rank),
            "--devices-per-gpu {}: a rank has {} devices", machine.devices_per_gpu, machine.devices_per_rank);
    require(machine.devices_per_gpu == 1 || machine.devices_per_rank <= 60 * machine.devices_per_gpu,
            "--devices-per-gpu {}: a rank has {} devices, more than 60 shared GPUs", machine.devices_per_gpu,
            machine.devices_per_rank);
    // Without a budget the devices of a GPU have its memory together.
    machine.device.memory /= machine.devices_per_gpu;
    if (machine.devices_per_rank > 0 && machine.device.memory == 0 && o.machine == "this")
        throw BackendUnavailable(kernels::cuda::why_no_device());
    require(machine.devices_per_rank == 0 || machine.device.memory > 0,
            "--devices-per-rank {}: machine {} has no devices", machine.devices_per_rank, machine.name);
    Planned out;
    out.problem = make_problem(o.problem);
    const ContractionSpec spec(out.problem.spec);
    PlanRequest request;
    request.spec = &spec;
    request.a = &out.problem.a;
    request.b = &out.problem.b;
    request.source_b =
        source_of_b(o.b, out.problem, machine.devices_per_rank > 0, machine.device.make_bytes_per_second > 0);
    request.screening = {o.filter, 1, out.problem.c ? &*out.problem.c : nullptr};
    if (!o.grid.empty()) {
        std::tie(request.grid_rows, request.grid_cols) = parse_grid(o.grid);
        require(static_cast<std::int64_t>(request.grid_rows) * request.grid_cols == o.ranks,
                "--grid {} is not a grid of {} ranks", o.grid, o.ranks);
    }
    request.host_memory = machine.host_memory;
    if (!o.memory.empty())
        (machine.devices_per_rank > 0 ? request.device_memory : request.host_memory) = parse_bytes(o.memory);
    // As `run` does.
    if (machine.devices_per_rank > 0 && request.device_memory > machine.device.memory)
        throw MachineError(
            fmt::format("a device of machine {} has {} of memory, but {} are asked for{}", machine.name,
                        format_bytes(machine.device.memory * machine.devices_per_gpu), o.memory,
                        machine.devices_per_gpu > 1 ? fmt::format(" {} times", machine.devices_per_gpu) : ""));
    request.algorithm = o.algorithm;
    request.blocks = o.blocks;
    request.parameters = o.parameters;
    out.budget.host_bytes = request.host_memory;
    if (machine.devices_per_rank > 0)
        out.budget.device_bytes = request.device_memory > 0 ? request.device_memory : machine.device.memory;
    const double start = now_seconds();
    try {
        out.plan = build_plan(request, machine);
    } catch (const BudgetError&) {
        // A result that does not fit beside the operands is handed over tile by tile. (`run` does so from 0.8 of the
        // memory on.)
        if (machine.devices_per_rank == 0 || o.filter > 0) throw;
        request.host_memory = 0;
        Plan plan = build_plan(request, machine);
        for (const auto& rank : plan.rank_counts)
            if (rank.peak_bytes - rank.stored_c > machine.host_memory) throw;
        out.plan = std::move(plan);
        out.budget.host_bytes = 0;
        out.result_stored = false;
    }
    out.seconds = now_seconds() - start;
    out.machine = std::move(machine);
    return out;
}

}  // namespace tessera::app
