#pragma once
// What `plan` and `simulate` share: a named problem on a described machine becomes a plan; no data is touched. With
// `run`: where its operand B comes from.

#include <CLI/CLI.hpp>

#include <string>

#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::app {

struct PlanningOptions {
    std::string problem, machine = "this", memory, algorithm = "auto", blocks = "auto", grid, b = "auto";
    int ranks = 1, devices_per_rank = -1, devices_per_gpu = 0;
    double filter = 0;
    PlanParameters parameters;
};
/// Adds the problem and --machine --ranks --devices-per-rank --devices-per-gpu --memory --algorithm --blocks --grid --b
/// --filter and the parameters.
void add_planning(CLI::App& command, PlanningOptions& options, bool problem_required);

/// --b: where tiles of a problem's B come from.
void add_source_of_b(CLI::App& command, std::string& b);
/// What --b says. On its own it is stored, or made on demand: by the devices, if `devices_make` them, or the host.
SourceKind source_of_b(const std::string& b, const Problem& problem, bool devices, bool devices_make);

struct Planned {
    Problem problem;
    MachineModel machine;
    Plan plan;
    PlanBudget budget;
    double seconds = 0;         // of building the plan
    bool result_stored = true;  // false: with it the host would need more than it has; devices hand its tiles over
};
/// threads: of this machine, where that is the one planned for.
Planned make_plan(const PlanningOptions& options, int threads);
/// The same on a machine that is already read.
Planned make_plan(const PlanningOptions& options, MachineModel machine);

}  // namespace tessera::app
