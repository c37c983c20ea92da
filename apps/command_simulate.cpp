#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "device/discovery.hpp"
#include "io/file.hpp"
#include "io/trace.hpp"
#include "papers.hpp"
#include "planning.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    PlanningOptions planning;
    std::string trace;
    bool papers = false;
};

constexpr std::size_t kMostSpans = 20'000'000;  // a trace beyond this is of no use to anyone

void run_papers(const Options& o) {
    const auto table = simulate_papers([&](int number, int of, const std::string& command) {
        if (!o.common.quiet && !o.common.json) fmt::print(stderr, "{:>2} of {}  {}\n", number, of, command);
    });
    if (!o.common.json) {
        fmt::print("{}", to_text(table));
        return;
    }
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& r : table.rows)
        rows.push_back({{"what", r.what},
                        {"unit", r.unit},
                        {"published", r.published},
                        {"simulated", r.simulated},
                        {"ratio", r.ratio()},
                        {"tolerance", r.tolerance},
                        {"within", r.within()},
                        {"fitted_on", r.fitted_on},
                        {"command", r.command},
                        {"reason", r.reason}});
    print_json({{"machine", "summit"}, {"commit", bench::build_commit()}, {"fitted", table.fitted}, {"rows", rows}});
}

/// The busiest rank over the mean.
struct Balance {
    double flops = 1, time = 1;
};
Balance balance_of(const Plan& plan, const Simulation& s) {
    const auto of = [](const auto& values, const auto& value) {
        double most = 0, sum = 0;
        for (const auto& x : values) {
            most = std::max(most, value(x));
            sum += value(x);
        }
        return sum > 0 ? most * static_cast<double>(values.size()) / sum : 1;
    };
    return {of(plan.rank_counts, [](const RankCounts& r) { return r.flops; }),
            of(s.rank_seconds, [](double seconds) { return seconds; })};
}

/// Of the device that was measured; null where the machine was read from a file or has none.
nlohmann::json measured_driver(const MachineModel& machine) {
    if (machine.name != "this" || device::count() == 0) return nullptr;
    return device::info(0).driver;
}

void run(const Options& o) {
    if (o.papers) return run_papers(o);
    require(!o.planning.problem.empty(), "simulate: a problem is required (or --papers)");
    if (!o.trace.empty()) const AtomicFile can_be_written(o.trace);  // known before the work, not behind it
    const auto [problem, planned] = make_plan(o.planning, o.common);
    const Plan& plan = planned.plan();
    const MachineModel& machine = planned.machine();
    require(o.trace.empty() || plan.steps.size() < kMostSpans, "--trace: {} steps are more than a trace can show",
            plan.steps.size());
    const double start = now_seconds();
    const auto s = simulate(planned, machine, {!o.trace.empty()});
    const double seconds = now_seconds() - start;
    if (!o.trace.empty()) write_chrome_trace(s.trace, o.trace);
    const auto& n = plan.counts;
    const auto balance = balance_of(plan, s);
    if (o.common.json) {
        return print_json({
            {"problem", problem.name},
            {"machine", machine.name},
            {"commit", bench::build_commit()},
            {"driver", measured_driver(machine)},
            {"algorithm", name(plan.algorithm)},
            {"blocks", names(plan.blocks)},
            {"ranks", plan.ranks},
            {"devices_per_rank", plan.devices_per_rank},
            {"devices_per_gpu", machine.devices_per_gpu},
            {"grid", {plan.grid_rows, plan.grid_cols}},
            {"flops", n.flops},
            {"products", n.products},
            {"seconds", s.seconds},
            {"tflops", s.tflops},
            {"tflops_per_device", s.tflops_per_device},
            {"busy",
             {{"device", s.busy.device},
              {"network", s.busy.network},
              {"host_link", s.busy.host_link},
              {"cores", s.busy.cores}}},
            {"overlap", s.overlap},
            {"balance", {{"flops", balance.flops}, {"time", balance.time}}},
            {"bytes",
             {{"moved_host_to_device", n.loaded_bytes},
              {"moved_device_to_host", n.stored_bytes},
              {"moved_device_to_device", n.copied_bytes},
              {"sent", n.sent_bytes}}},
            {"made_tiles", n.made_tiles},
            {"steps", plan.steps.size()},
            {"plan_seconds", planned.seconds()},
            {"result_stored", planned.result_fits()},
            {"simulate_seconds", seconds},
        });
    }
    if (o.common.quiet) return;
    const auto devices = static_cast<std::int64_t>(plan.ranks) * plan.devices_per_rank;
    fmt::print("problem     {} on machine {}: {} rank{}", problem.name, machine.name, format_count(plan.ranks),
               plan.ranks == 1 ? "" : "s");
    if (devices > 0) fmt::print(", {} device{}", format_count(devices), devices == 1 ? "" : "s");
    fmt::print("\nalgorithm   {}, grid {} x {}", name(plan.algorithm), plan.grid_rows, plan.grid_cols);
    if (!plan.blocks.empty()) fmt::print(", blocks by {}", names(plan.blocks));
    fmt::print("\ntime        {} predicted\n", format_seconds(s.seconds));
    fmt::print("rate        {:.4g} TFLOP/s", s.tflops);
    if (devices > 0) fmt::print(", {:.4g} per device", s.tflops_per_device);
    fmt::print("\nwork        {} in {} tile products\n", format_flops(n.flops), format_count(n.products));
    fmt::print("moved       {} sent", format_bytes(n.sent_bytes));
    if (devices > 0)
        fmt::print(", {} to devices, {} back, {} between them", format_bytes(n.loaded_bytes),
                   format_bytes(n.stored_bytes), format_bytes(n.copied_bytes));
    fmt::print("\nbusy        ");
    if (devices > 0)
        fmt::print("devices {:.0f} %, their links {:.0f} %, ", 100 * s.busy.device, 100 * s.busy.host_link);
    fmt::print("network {:.0f} %, cores {:.0f} %\n", 100 * s.busy.network, 100 * s.busy.cores);
    fmt::print("overlap     {:.0f} % of the time with transfers under way is also work\n", 100 * s.overlap);
    if (plan.ranks > 1)
        fmt::print("balance     flops {:.3f}, time {:.3f} (the busiest rank over the mean)\n", balance.flops,
                   balance.time);
    fmt::print("simulated   {} steps in {}, planned in {}\n",
               format_count(static_cast<std::int64_t>(plan.steps.size())), format_seconds(seconds),
               format_seconds(planned.seconds()));
    if (!o.trace.empty()) fmt::print("trace       {} (open in chrome://tracing or ui.perfetto.dev)\n", o.trace);
}

}  // namespace

Action add_simulate(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("simulate", "predict the time line of a named problem on a described machine");
    add_planning(command, o->planning, false);
    command.add_option("--trace", o->trace, "write the time line as a Chrome trace").check(check_name);
    const auto of_a_problem = command.options();  // the table is always the same: none of these goes with it
    auto papers = command.add_flag("--papers", o->papers, "published figures of Summit against simulated ones");
    for (const auto option : of_a_problem) papers.excludes(option);
    add_common(command, o->common);
    command.footer(
        "A rank of machine summit is one socket: 21 cores and 3 GPUs. Rates come from the machine file.\n"
        "Example: tessera simulate alkane:65:v1 --machine summit --ranks 36 --trace out.json");
    return [o] { run(*o); };
}

}  // namespace tessera::app
