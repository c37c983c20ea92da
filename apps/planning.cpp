#include "planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "command.hpp"
#include "device/discovery.hpp"
#include "probe/machine.hpp"
#include "tessera/chem/geometry.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera::app {

namespace {

constexpr int kMostRanks = 100'000;
}  // namespace

void add_source_of_b(Command command, std::string& b) {
    auto option = command.add_option("--source-b", b,
                                     "where tiles of B come from: auto, stored, host or device (made there on demand)");
    command.add_old_name("--b", option.show_default());
}

SourceKind source_of_b(const std::string& b, const Problem& problem, bool devices, bool devices_make) {
    if (b == "stored") return SourceKind::stored;
    if (b == "host") return SourceKind::host_made;
    if (b == "device") {
        require(devices, "--source-b device: there are no devices to make its tiles");
        return SourceKind::device_made;
    }
    require(b == "auto", "--source-b {}: one of auto, stored, host, device", b);
    if (!problem.b_on_demand) return SourceKind::stored;
    return devices && devices_make ? SourceKind::device_made : SourceKind::host_made;
}

void add_planning(Command command, PlanningOptions& o, bool problem_required) {
    auto problem = command.add_option(
        "problem", o.problem,
        "dense:M,N,K,t | blocks:nb,bs,occ[,seed] | "
        "synthetic:M,N,K,density[,lo,hi[,seed]] |\nalkane:n:v1|v2|v3|O,A[:min] | geometry:FILE:O,A[:BASIS]");
    if (problem_required) problem.required();
    command
        .add_option("--machine", o.machine,
                    "summit, h200x8, frontier, pizdaint, laptop, this, or a path to a JSON file")
        .show_default();
    command.add_option("--ranks", o.ranks, "MPI ranks").show_default().check(between(1, kMostRanks));
    command.add_option("--devices-per-rank", o.devices_per_rank, "GPUs of a rank, 0 for none (default: the machine's)")
        .check(between(0, 1024));
    command
        .add_option("--devices-per-gpu", o.devices_per_gpu,
                    "so many devices of a rank are one and the same GPU, as in run --devices 0,0,0 (default: the "
                    "machine's)")
        .check(between(1, 1024));
    add_memory(command, o.where, "hard budget of a rank's tiles on the host, as in 16GiB (default: the machine's)");
    add_how(command, o.how);
    add_source_of_b(command, o.b);
    command.add_option("--filter", o.filter, "skip products that cannot lift a result tile above this norm")
        .show_default();
}

Problem problem_of(const std::string& text, const CommonOptions& common) {
    const auto parts = split(text, ':');
    if (parts[0] != "geometry") return make_problem(text);
    const auto clusters = [](const std::string& words) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
        const auto two = split(words, ',');
        std::int64_t n[2] = {};
        if (two.size() != 2) return std::nullopt;
        for (int i = 0; i < 2; ++i) {
            const auto* end = two[i].data() + two[i].size();
            const auto [stop, error] = std::from_chars(two[i].data(), end, n[i]);
            if (error != std::errc() || stop != end) return std::nullopt;
        }
        return std::pair(n[0], n[1]);
    };
    // A file's name may have colons: the numbers are the last part, or the last but one.
    std::size_t at = parts.size() - 1;
    if (at > 2 && !clusters(parts[at])) --at;
    const auto numbers = at >= 2 ? clusters(parts[at]) : std::nullopt;
    require(numbers.has_value(),
            "problem '{}': geometry takes a file and two numbers of clusters, of occupied and of atomic orbitals, and "
            "perhaps a basis (geometry:FILE:O,A[:BASIS])",
            text);
    chem::GeometryOptions how;
    std::tie(how.occupied_clusters, how.ao_clusters) = *numbers;
    if (at + 1 < parts.size()) how.basis = parts[at + 1];
    how.threads = resolve_threads(common.threads);
    if (!common.quiet && mpi_world().rank() == 0)
        how.log = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
    std::string file = parts[1];
    for (std::size_t i = 2; i < at; ++i) file += ":" + parts[i];
    return chem::make_geometry(chem::read_xyz(file), how);
}

PlannedProblem make_plan(const PlanningOptions& o, const CommonOptions& common) {
    const auto problem = [&] { return problem_of(o.problem, common); };
    if (o.machine == "this") return make_plan(o, probe_machine(common.threads, o.ranks), problem());
    const auto known = known_machines();
    const bool path = o.machine.find('/') != std::string::npos || o.machine.ends_with(".json");
    require(path || known.empty() || std::ranges::find(known, o.machine) != known.end(),
            "--machine {}: one of {}, this, or the path of a JSON file", o.machine, fmt::join(known, ", "));
    auto machine = read_machine(o.machine).machine;
    return make_plan(o, std::move(machine), problem());
}

PlannedProblem make_plan(const PlanningOptions& o, MachineModel machine, Problem problem) {
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
        throw BackendUnavailable(device::why_none());
    require(machine.devices_per_rank == 0 || machine.device.memory > 0,
            "--devices-per-rank {}: machine {} has no devices", machine.devices_per_rank, machine.name);
    const bool devices = machine.devices_per_rank > 0;
    const auto budgets = budgets_of(o.where, devices, "--devices-per-rank");
    const auto source = source_of_b(o.b, problem, devices, machine.device.make_bytes_per_second > 0);
    ContractOptions options;
    options.filter = o.filter;
    if (problem.c) options.result_shape = &*problem.c;
    auto planned = plan_for<double>(machine, problem.spec, problem.a, {problem.b, source},
                                    {budgets.host, budgets.device}, options, plan_options_of(o.how, o.ranks, devices));
    return {std::move(problem), std::move(planned)};
}

}  // namespace tessera::app
