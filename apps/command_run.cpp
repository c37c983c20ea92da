#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "contract/machine_for.hpp"
#include "execute/device/device_share.hpp"
#include "execute/device/execute_devices.hpp"
#include "gemm_rate.hpp"
#include "inspect/build_plan.hpp"
#include "io/file.hpp"
#include "io/trace.hpp"
#include "kernels/cuda/device.hpp"
#include "planning.hpp"
#include "report.hpp"
#include "tensor/checksum.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    ContractionOptions contraction;
    std::string problem, trace, b = "auto";
};

/// The problem's operands on these ranks, where the plan likes them.
struct Operands {
    Tensor<double> a;
    std::optional<Tensor<double>> stored_b;
    GeneratedTensor<double> made_b;
    ContractOperand<double> b() const {
        return stored_b ? ContractOperand<double>(*stored_b) : ContractOperand<double>(made_b);
    }
};

PlanRequest request_of(const Problem& problem, SourceKind source_b, const ContractionSpec& spec,
                       const ContractOptions& options, const Shape& old_shape, double beta, bool consume,
                       const MachineModel& machine) {
    PlanRequest request;
    request.spec = &spec;
    request.a = &problem.a;
    request.b = &problem.b;
    request.source_b = source_b;
    request.screening = {options.filter, std::abs(options.alpha), problem.c ? &*problem.c : nullptr};
    if (beta != 0) {
        if (!problem.c) request.accumulate = &old_shape;
        request.other_bytes = tile_storage_bytes(old_shape, sizeof(double));
    }
    request.host_memory = options.memory > 0 ? options.memory : consume ? 0 : machine.host_memory;
    request.device_memory = options.device_memory;
    request.algorithm = options.algorithm;
    request.blocks = options.blocks;
    request.parameters = options.parameters;
    request.grid_rows = options.grid_rows;
    request.grid_cols = options.grid_cols;
    return request;
}

void run(const Options& o) {
    auto options = library_options(o.contraction, o.common);
    options.trace = !o.trace.empty();
    require(!options.trace || !options.devices.empty(), "--trace {}: only devices keep a time line; give --devices",
            o.trace);
    const Problem problem = make_problem(o.problem);
    Communicator& ranks = mpi_world();
    const bool first = ranks.rank() == 0, talk = first && !o.common.quiet && !o.common.json;
    if (options.trace && first) const AtomicFile can_be_written(o.trace);  // known before the work, not behind it

    const ContractionSpec spec(problem.spec);
    const bool devices = !options.devices.empty();
    const auto source_b = source_of_b(o.b, problem, devices, device_can_make(spec, Operand::b));
    if (devices) require_device_extents(spec, problem.a.grid(), problem.b.grid());
    const Shape old_shape = problem.c ? *problem.c : Shape::dense(spec.result_grid(problem.a.grid(), problem.b.grid()));
    const bool checkable = o.contraction.beta == 0 && o.contraction.filter == 0;
    // On devices a result that does not fit beside the operands is never stored: its tiles are hashed, the sampled
    // ones kept, the others dropped.
    auto operands = tile_storage_bytes(problem.a, sizeof(double));
    if (source_b == SourceKind::stored) operands += tile_storage_bytes(problem.b, sizeof(double));
    const auto nodes = nodes_of(ranks);
    const auto all_memory = static_cast<double>(nodes.memory) * ((ranks.size() + nodes.ranks - 1) / nodes.ranks);
    const bool consume =
        devices && checkable && static_cast<double>(operands + old_shape.elements() * 8) > 0.8 * all_memory;
    if (o.contraction.beta != 0) operands += tile_storage_bytes(old_shape, sizeof(double));
    // A budget (without one: the memory) that is too small is refused before the operands are made, and across ranks
    // the operands are made where the plan wants them. A filter looks at the norms of tiles that are not there yet:
    // then that plan is not the one.
    std::optional<Plan> plan;
    double planning = 0;  // work of the contraction, done before its clock starts
    if (!devices || options.device_memory > 0 || ranks.size() > 1) {
        const double begin = now_seconds();
        const auto machine = machine_for(ranks, options, nodes);
        plan = build_plan(request_of(problem, source_b, spec, options, old_shape, o.contraction.beta, consume, machine),
                          machine);
        planning = now_seconds() - begin;
        if (ranks.size() > 1) {
            options.algorithm = plan->algorithm;
            options.result_distribution = plan->distribution_c;
        }
        if (options.filter == 0) options.plan = &*plan;
        if (options.memory == 0) require_host_room(*plan, nodes, consume);
    } else if (operands > nodes.memory) {
        throw MachineError(fmt::format("{}: the operands take {} on the host, which has {}", problem.name,
                                       format_bytes(operands), format_bytes(nodes.memory)));
    }
    const auto lay = [&](Distribution Plan::*which) { return plan ? (*plan).*which : Distribution(); };
    const auto gemm_before = gemm_rate(ranks, options, devices ? 0 : 0.5);
    Operands x{
        Tensor<double>::generate(problem.a, problem.make_a, o.common.threads, {ranks, lay(&Plan::distribution_a)}),
        std::nullopt,
        {problem.b, problem.make_b, source_b == SourceKind::device_made ? problem.hash_b : HashRule{}}};
    if (source_b == SourceKind::stored)
        x.stored_b =
            Tensor<double>::generate(problem.b, problem.make_b, o.common.threads, {ranks, lay(&Plan::distribution_b)});
    if (problem.c) options.result_shape = &*problem.c;
    std::optional<Tensor<double>> old;
    if (o.contraction.beta != 0)
        old = Tensor<double>::random(old_shape, 7, o.common.threads, {ranks, lay(&Plan::distribution_c)});

    VerifyOptions v;
    v.tiles = o.contraction.check;
    v.alpha = options.alpha;
    v.threads = o.common.threads;

    Contraction<double> result;
    ContractionSummary s;
    Shape shape;
    std::vector<std::int64_t> hashes;
    std::map<std::int64_t, std::vector<double>> kept;
    {
        ProgressBar bar(problem.name, talk);
        options.on_progress = [&](double done, double total) { bar.show(done, total); };
        double pause =
            0;  // printing the plan and the first touch of memory for the result and for staging are not work
        options.on_plan = [&](const Plan& used) {
            const double t = now_seconds();
            if (o.contraction.explain && first) {
                Plan shown = used;
                if (plan) shown.candidates = plan->candidates, shown.decided = plan->decided;  // why this algorithm
                fmt::print(o.common.json ? stderr : stdout, "{}", explain(shown));
            }
            std::fflush(stdout);
            const auto& mine = used.rank_counts[static_cast<std::size_t>(ranks.rank())];
            const std::int64_t staging = devices ? 192 << 20 : 64 << 20;
            if (!consume) touch_memory(mine.stored_c + mine.arena_bytes + staging, o.common.threads);
            shape = used.c;
            hashes.assign(static_cast<std::size_t>(used.c.tile_count()), 0);
            if (consume)
                for (auto slot : verify_slots(used.c, v)) kept[slot];
            ranks.barrier();  // or one would wait, with its clock running, for another's pause to end
            pause += now_seconds() - t;
        };
        const double start = now_seconds();
        if (old) {
            result.report = contract_into<double>(problem.spec, x.a, x.b(), *old, options);
            result.tensor = std::move(*old);
        } else if (consume) {
            result.report = contract_each<double>(
                                problem.spec, ContractOperand<double>(x.a), x.b(),
                                [&](std::int64_t slot, std::span<const double> tile, double) {
                                    hashes[slot] = std::bit_cast<std::int64_t>(tile_checksum(
                                        shape.tile(slot), tile.data(), static_cast<std::int64_t>(tile.size_bytes())));
                                    if (const auto k = kept.find(slot); k != kept.end())
                                        k->second.assign(tile.begin(), tile.end());
                                },
                                options)
                                .report;
        } else {
            result = contract<double>(problem.spec, ContractOperand<double>(x.a), x.b(), options);
        }
        s.seconds = now_seconds() - start - pause + planning;
        result.report.plan_seconds += planning;
    }
    if (ranks.size() > 1) {
        double seconds[] = {s.seconds};
        ranks.max(std::span<double>(seconds));
        s.seconds = seconds[0];
    }
    const auto gemm_after = gemm_rate(ranks, options, std::clamp(s.seconds, devices ? 0.3 : 0.5, 3.0));
    s.gemm_gflops = std::max(gemm_before.best_gflops, gemm_after.best_gflops);
    s.gemm_sustained_gflops = gemm_after.mean_gflops;
    s.problem = problem.name;
    s.spec = problem.spec;
    s.report = result.report;
    s.density_a = problem.a.density();
    s.density_b = problem.b.density();
    s.density_c = consume ? shape.density() : result.tensor.shape().density();
    s.metadata_bytes = x.a.metadata_bytes() + (x.stored_b ? x.stored_b->metadata_bytes() : problem.b.metadata_bytes()) +
                       (consume ? shape.metadata_bytes() : result.tensor.metadata_bytes());
    if (consume) {
        if (ranks.size() > 1) ranks.sum(std::span<std::int64_t>(hashes));
        s.checksum = join_checksums(ScalarKind::f64, shape.grid(), hashes);
    } else {
        s.checksum = checksum(result.tensor);
    }
    if (checkable) {
        // Each rank looks at its own tiles; operands' tiles are made anew, wherever they are stored.
        const GeneratedTensor<double> a{problem.a, problem.make_a}, b{problem.b, problem.make_b};
        s.checked = verify_tiles<double>(
            problem.spec, a, b, consume ? shape : result.tensor.shape(),
            [&](std::int64_t slot) -> std::span<const double> {
                if (!consume) return result.tensor.tile(slot);
                return kept[slot];
            },
            v);
        if (ranks.size() > 1) {
            std::int64_t counts[] = {s.checked.tiles, s.checked.elements};
            ranks.sum(std::span<std::int64_t>(counts));
            s.checked.tiles = counts[0];
            s.checked.elements = counts[1];
            double error[] = {s.checked.max_relative_error};
            ranks.max(std::span<double>(error));
            s.checked.max_relative_error = error[0];
        }
    }
    if (!first) return;
    if (o.common.json)
        print_json(to_json(s));
    else if (!o.common.quiet)
        fmt::print("{}", to_text(s));
    if (options.trace) {
        std::fflush(stdout);
        write_chrome_trace(s.report.trace, o.trace);
    }
    if (s.checked.max_relative_error > 1e-12)
        throw CheckFailed(fmt::format("{}: a sampled element is off by {:.2e} relative to the slow sum", problem.name,
                                      s.checked.max_relative_error));
}

}  // namespace

Action add_run(CLI::App& app) {
    auto o = std::make_shared<Options>();
    auto* command = app.add_subcommand("run", "make a named problem, contract it, check sampled tiles");
    command
        ->add_option("problem", o->problem,
                     "dense:M,N,K,t | blocks:nb,bs,occ[,seed] | synthetic:M,N,K,density[,lo,hi[,seed]] |\n"
                     "alkane:n:v1|v2|v3[:min]")
        ->required();
    add_contraction(*command, o->contraction);
    add_common(*command, o->common);
    add_source_of_b(*command, o->b);
    command->add_option("--trace", o->trace, "with --devices: write what really ran as a Chrome trace (rank 0's)");
    command->footer(
        "With --beta, C starts as random tiles. Sampled tiles are checked where neither --beta nor --filter is given.\n"
        "Example: tessera run alkane:12:v3:min --explain");
    return [o] { run(*o); };
}

}  // namespace tessera::app
