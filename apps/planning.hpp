#pragma once
// What `plan` and `simulate` share: a named problem on a described machine becomes a plan; no data is touched. With
// `run`: where its operand B comes from.

#include <string>

#include "command.hpp"
#include "tessera/contract/planned_contraction.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::app {

struct PlanningOptions {
    std::string problem, machine = "this", b = "auto";
    int ranks = 1, devices_per_rank = -1, devices_per_gpu = 0;
    double filter = 0;
    WhereOptions where;
    HowOptions how;
};
/// Adds the problem and --machine --ranks --devices-per-rank --devices-per-gpu --memory --device-memory --source-b
/// --filter, and how to plan.
void add_planning(Command command, PlanningOptions& options, bool problem_required);

/// --source-b: where tiles of a problem's B come from.
void add_source_of_b(Command command, std::string& b);
/// What it says. On its own B is stored, or made on demand: by the devices, if `devices_make` them, or the host.
SourceKind source_of_b(const std::string& b, const Problem& problem, bool devices, bool devices_make);

/// make_problem, and geometry:FILE:O,A[:BASIS] of a molecule (docs/GEOMETRY.md), whose steps are told on stderr.
Problem problem_of(const std::string& text, const CommonOptions& common);

struct PlannedProblem {
    Problem problem;
    PlannedContraction planned;
};
/// Threads are those of this machine, where that is the one planned for.
PlannedProblem make_plan(const PlanningOptions& options, const CommonOptions& common);
/// The same on a machine that is already read, of a problem that is already made.
PlannedProblem make_plan(const PlanningOptions& options, MachineModel machine, Problem problem);

}  // namespace tessera::app
