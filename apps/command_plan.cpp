#include <fmt/format.h>

#include "base/units.hpp"
#include "command.hpp"
#include "planning.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    PlanningOptions planning;
};

void run(const Options& o) {
    const auto [problem, planned] = make_plan(o.planning, o.common);
    const Plan& plan = planned.plan();
    const double start = now_seconds();
    validate(plan);
    const double validate_seconds = now_seconds() - start;
    if (o.common.json) {
        auto j = nlohmann::json::parse(explain_json(planned));
        j["problem"] = problem.name;
        j["machine"] = planned.machine().name;
        j["plan_seconds"] = planned.seconds();
        j["result_stored"] = planned.result_fits();
        j["validate_seconds"] = validate_seconds;
        j["metadata_bytes"] = plan.metadata_bytes();
        return print_json(j);
    }
    fmt::print("{}", explain(planned));
    fmt::print("  planned    for machine {} in {}; the plan itself takes {}\n", planned.machine().name,
               format_seconds(planned.seconds()), format_bytes(plan.metadata_bytes()));
    fmt::print("  validated  in {}: every product once, sends meet receives, no cycle, within the budgets\n",
               format_seconds(validate_seconds));
}

}  // namespace

Action add_plan(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("plan", "build, check and print the plan of a named problem; touches no data");
    add_planning(command, o->planning, true);
    add_common(command, o->common);
    command.footer(
        "A rank of machine summit is one socket: 21 cores and 3 GPUs.\n"
        "Example: tessera plan alkane:65:v1 --machine summit --ranks 36");
    return [o] { run(*o); };
}

}  // namespace tessera::app
