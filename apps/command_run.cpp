#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "command_purify.hpp"
#include "contract/machine_for.hpp"
#include "execute/device/execute_devices.hpp"
#include "gemm_rate.hpp"
#include "io/file.hpp"
#include "io/trace.hpp"
#include "planning.hpp"
#include "probe/rates.hpp"
#include "report.hpp"
#include "tensor/checksum.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/problems/insulator.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    ContractionOptions contraction;
    std::string problem, trace, b = "auto";
    bool resident = false;
    int repeat = 1;
    Command command{nullptr};
    bool given(const char* option) const { return command.count(option) > 0; }
};

/// What the command line asks for.
struct Request {
    Problem problem;
    Resources here;
    ContractOptions what;
    PlanOptions how;
    SourceKind source_b = SourceKind::stored;
    Shape old_shape;         // of the C that --beta adds to
    bool checkable = false;  // sampled tiles are held against the slow sum
    bool resident = false;   // operands and result live on the devices
    bool adds() const { return what.beta != 0.0; }
    bool devices() const { return !here.devices.empty(); }
};

Request request_of(const Options& o) {
    Request r;
    r.here = resources_of(o.contraction.where, o.common);
    r.what = contract_options_of(o.contraction);
    r.how = plan_options_of(o.contraction.how, mpi_world().size(), r.devices());
    require(o.trace.empty() || r.devices(), "--trace {}: only devices keep a time line; give --devices", o.trace);
    r.problem = problem_of(o.problem, o.common);
    const ContractionSpec spec(r.problem.spec);
    r.source_b = source_of_b(o.b, r.problem, r.devices(), device_can_make(spec, Operand::b));
    r.old_shape = r.problem.c ? *r.problem.c : Shape::dense(spec.result_grid(r.problem.a.grid(), r.problem.b.grid()));
    require(o.repeat == 1 || !r.adds(),
            "--repeat {}: with --beta each execution would add to the result of the last one", o.repeat);
    require(!o.resident || r.devices(), "--resident: there are no devices for tensors to live on; give --devices");
    require(!o.resident || mpi_world().size() == 1,
            "--resident: tensors live on devices of one rank, this is one of {}", mpi_world().size());
    r.resident = o.resident;
    if (r.resident) r.what.result_on_devices = true;
    r.checkable = o.contraction.beta == 0 && o.contraction.filter == 0;
    return r;
}

/// From the shapes alone: a budget that is too small is refused before the operands are made, and across ranks they are
/// made where the plan wants them.
PlannedContraction plan_shapes(const Request& r) {
    const auto& p = r.problem;
    OperandShape a(p.a), b(p.b, r.source_b);
    const auto live = [&](OperandShape& x) {
        if (!r.resident || x.source != SourceKind::stored) return;
        x.devices = r.here.devices;
        x.homes = tile_places<double>(*x.shape, Placement::on_devices(x.devices))->homes;
    };
    live(a);
    live(b);
    auto what = r.what;
    if (p.c) what.result_shape = &*p.c;
    return r.adds() ? plan_into<double>(p.spec, a, b, r.old_shape, r.here, what, r.how)
                    : plan<double>(p.spec, a, b, r.here, what, r.how);
}

/// The problem's operands on these ranks, where the plan likes them.
struct Operands {
    Tensor<double> a;
    std::optional<Tensor<double>> stored_b, old;
    GeneratedTensor<double> made_b;

    Operands(const Request& r, const PlannedContraction& planned, Communicator& ranks)
        : a(r.resident ? Tensor<double>::generate(r.problem.a, r.problem.make_a, r.problem.hash_a,
                                                  Placement::on_devices(r.here.devices))
                       : Tensor<double>::generate(r.problem.a, r.problem.make_a, r.here.threads,
                                                  {ranks, planned.distribution_a()})),
          made_b{r.problem.b, r.problem.make_b, r.source_b == SourceKind::device_made ? r.problem.hash_b : HashRule{}} {
        if (r.source_b == SourceKind::stored && r.resident)
            stored_b = Tensor<double>::generate(r.problem.b, r.problem.make_b, r.problem.hash_b,
                                                Placement::on_devices(r.here.devices));
        else if (r.source_b == SourceKind::stored)
            stored_b = Tensor<double>::generate(r.problem.b, r.problem.make_b, r.here.threads,
                                                {ranks, planned.distribution_b()});
        if (r.adds()) old = Tensor<double>::random(r.old_shape, 7, r.here.threads, {ranks, planned.distribution_c()});
    }
    ContractOperand<double> b() const {
        return stored_b ? ContractOperand<double>(*stored_b) : ContractOperand<double>(made_b);
    }
};

/// A filter looks at the norms of tiles, which are there now: the plan is made anew with them, on several ranks by the
/// same algorithm, since the operands are where that wants them.
PlannedContraction plan_with_norms(const Request& r, const PlannedContraction& shapes, const Operands& x) {
    auto what = r.what;
    auto how = r.how;
    if (r.problem.c) what.result_shape = &*r.problem.c;
    if (shapes.plan().ranks > 1) {
        how.algorithm = shapes.plan().algorithm;
        what.result_distribution = shapes.distribution_c();
    }
    return x.old ? plan_into<double>(r.problem.spec, x.a, x.b(), *x.old, r.here, what, how)
                 : plan<double>(r.problem.spec, x.a, x.b(), r.here, what, how);
}

/// On devices a result that does not fit well beside the operands is never stored: its tiles are hashed, the sampled
/// ones kept, the others dropped.
struct HandedOver {
    Shape shape;
    std::vector<std::int64_t> hashes;
    std::map<std::int64_t, std::vector<double>> kept;

    void prepare(const Shape& planned, const VerifyOptions& sample) {
        shape = planned;
        hashes.assign(static_cast<std::size_t>(shape.tile_count()), 0);
        for (auto slot : verify_slots(shape, sample)) kept[slot];
    }
    void take(std::int64_t slot, std::span<const double> tile) {
        hashes[slot] = std::bit_cast<std::int64_t>(
            tile_checksum(shape.tile(slot), tile.data(), static_cast<std::int64_t>(tile.size_bytes())));
        if (const auto k = kept.find(slot); k != kept.end()) k->second.assign(tile.begin(), tile.end());
    }
};

bool hands_over(const Request& r, const PlannedContraction& planned, Communicator& ranks) {
    if (!r.devices() || !r.checkable || r.resident) return false;
    if (!planned.result_fits()) return true;
    const auto nodes = nodes_of(ranks);
    const auto all = std::accumulate(nodes.memory.begin(), nodes.memory.end(), 0.0);
    const auto& n = planned.counts();
    return static_cast<double>(n.bytes_a + n.bytes_b + n.bytes_c) > 0.8 * all;
}

/// Each rank looks at its own tiles; operands' tiles are made anew, wherever they are stored.
Verification check_sample(const Request& r, const Shape& shape, const VerifyOptions& sample, Communicator& ranks,
                          const std::function<std::span<const double>(std::int64_t)>& tile) {
    const auto& p = r.problem;
    const GeneratedTensor<double> a{p.a, p.make_a}, b{p.b, p.make_b};
    auto checked = verify_tiles<double>(p.spec, a, b, shape, tile, sample);
    if (ranks.size() == 1) return checked;
    std::int64_t counts[] = {checked.tiles, checked.elements};
    ranks.sum(std::span<std::int64_t>(counts));
    double error[] = {checked.max_relative_error};
    ranks.max(std::span<double>(error));
    return {counts[0], counts[1], error[0]};
}

/// What came out, stored or handed over.
struct Outcome {
    Tensor<double> result;
    bool handed_over = false;
    HandedOver handed;
    ContractReport report;
    double seconds = 0;              // of the execution
    std::int64_t process_bytes = 0;  // at most, of any rank
    const Shape& shape() const { return handed_over ? handed.shape : result.shape(); }
};

/// The clock runs while the plan does. The first touch of memory for the result and for staging is not work.
Outcome execute_problem(const Options& o, const Request& r, const PlannedContraction& planned, Operands& x,
                        const VerifyOptions& sample, Communicator& ranks) {
    Outcome out;
    out.handed_over = hands_over(r, planned, ranks);
    const auto& mine = planned.plan().rank_counts[static_cast<std::size_t>(ranks.rank())];
    const std::int64_t staging = r.devices() ? 192 << 20 : 64 << 20;
    if (out.handed_over)
        out.handed.prepare(planned.plan().c, sample);
    else
        touch_memory(mine.stored_c + mine.arena_bytes + staging, r.here.threads);
    ranks.barrier();  // or one would wait, with its clock running, for another that still prepares

    ProgressBar bar(r.problem.name, ranks.rank() == 0 && !o.common.quiet && !o.common.json);
    const Watch watch{[&](double done, double total) { bar.show(done, total); }, !o.trace.empty()};
    const double start = now_seconds();
    if (x.old) {
        out.report = execute_into<double>(planned, x.a, x.b(), *x.old, watch);
        out.result = std::move(*x.old);
    } else if (out.handed_over) {
        const auto take = [&](std::int64_t slot, std::span<const double> tile, double) { out.handed.take(slot, tile); };
        out.report = execute_each<double>(planned, x.a, x.b(), take, watch).report;
    } else {
        auto done = execute<double>(planned, x.a, x.b(), watch);
        out.report = std::move(done.report);
        out.result = std::move(done.tensor);
    }
    for (const int d : r.resident ? r.here.devices : std::vector<int>{}) synchronize(d);
    out.seconds = now_seconds() - start;
    if (r.resident) out.result = to_host(out.result);  // to be looked at
    double most[] = {out.seconds, static_cast<double>(process_peak_bytes())};
    if (ranks.size() > 1) ranks.max(std::span<double>(most));
    out.seconds = most[0];
    out.process_bytes = static_cast<std::int64_t>(most[1]);
    return out;
}

std::uint64_t checksum_of(Outcome& out, Communicator& ranks) {
    if (!out.handed_over) return checksum(out.result);
    if (ranks.size() > 1) ranks.sum(std::span<std::int64_t>(out.handed.hashes));
    return join_checksums(ScalarKind::f64, out.shape().grid(), out.handed.hashes);
}

void run_density_matrix(const Options& o) {
    for (const char* option :
         {"--alpha", "--beta", "--repeat", "--explain", "--trace", "--source-b", "--algorithm", "--grid", "--deal",
          "--blocks", "--block-share", "--chunk-share", "--block", "--depth", "--lookahead", "--resident"})
        require(!o.given(option), "{}: is of contractions; {} is not one", option, o.problem);
    const double filter = contract_options_of(o.contraction).filter;
    run_purify({o.problem, o.given("--filter") ? filter : 1e-6, resources_of(o.contraction.where, o.common),
                o.contraction.check > 0, o.common});
}

void run(const Options& o) {
    if (is_insulator(o.problem)) return run_density_matrix(o);
    const Request r = request_of(o);
    const Problem& problem = r.problem;
    Communicator& ranks = mpi_world();
    const bool first = ranks.rank() == 0;
    if (!o.trace.empty() && first) const AtomicFile can_be_written(o.trace);  // known before the work, not behind it

    const auto shapes = plan_shapes(r);
    double planning = shapes.seconds();
    const auto gemm_before = gemm_rate(ranks, r.here, r.devices() ? 0 : 0.5);
    Operands x(r, shapes, ranks);
    std::optional<PlannedContraction> with_norms;
    if (r.what.filter > 0) {
        with_norms = plan_with_norms(r, shapes, x);
        planning += with_norms->seconds();
    }
    const PlannedContraction& planned = with_norms ? *with_norms : shapes;
    if (o.contraction.explain && first) {
        Plan shown = planned.plan();  // why this algorithm was said when it was chosen
        shown.candidates = shapes.plan().candidates;
        shown.decided = shapes.plan().decided;
        fmt::print(o.common.json ? stderr : stdout, "{}", explain(shown));
        std::fflush(stdout);
    }
    VerifyOptions sample;
    sample.tiles = o.contraction.check;
    sample.alpha = r.what.alpha;
    sample.threads = r.here.threads;
    Outcome out;
    std::vector<double> times;
    for (int i = 0; i < o.repeat; ++i) {
        out = Outcome();  // the memory of the one before is used again
        out = execute_problem(o, r, planned, x, sample, ranks);
        times.push_back(out.seconds);
    }

    ContractionSummary s;
    if (o.repeat > 1) s.spread = spread_of(times);
    s.problem = problem.name;
    s.spec = problem.spec;
    s.report = out.report;
    s.report.plan_seconds = planning;
    s.seconds = spread_of(times).median + planning;
    s.process_bytes = out.process_bytes;
    const auto gemm_after = gemm_rate(ranks, r.here, std::clamp(s.seconds, r.devices() ? 0.3 : 0.5, 3.0));
    s.gemm_gflops = std::max(gemm_before.best_gflops, gemm_after.best_gflops);
    s.gemm_sustained_gflops = gemm_after.mean_gflops;
    s.densities = {problem.a.density(), problem.b.density()};
    s.density_c = out.shape().density();
    s.metadata_bytes = x.a.metadata_bytes() + (x.stored_b ? x.stored_b->metadata_bytes() : problem.b.metadata_bytes()) +
                       (out.handed_over ? out.shape().metadata_bytes() : out.result.metadata_bytes());
    s.checksum = checksum_of(out, ranks);
    if (r.checkable)
        s.checked = check_sample(r, out.shape(), sample, ranks, [&](std::int64_t slot) -> std::span<const double> {
            if (!out.handed_over) return out.result.tile(slot);
            return out.handed.kept[slot];
        });
    if (!first) return;
    if (o.common.json)
        print_json(to_json(s));
    else if (!o.common.quiet)
        fmt::print("{}", to_text(s));
    if (!o.trace.empty()) {
        std::fflush(stdout);
        write_chrome_trace(s.report.trace, o.trace);
    }
    if (s.checked.max_relative_error > 1e-12)
        throw CheckFailed(fmt::format("{}: a sampled element is off by {:.2e} relative to the slow sum", problem.name,
                                      s.checked.max_relative_error));
}

}  // namespace

Action add_run(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("run", "make a named problem, contract it, check sampled tiles");
    command
        .add_option("problem", o->problem,
                    "dense:M,N,K,t | blocks:nb,bs,occ[,seed] | synthetic:M,N,K,density[,lo,hi[,seed]] |\n"
                    "alkane:n:v1|v2|v3|O,A[:min] | geometry:FILE:O,A[:BASIS] | purify:n[,tile,bandwidth,gap[,seed]]")
        .required();
    add_contraction(command, o->contraction);
    add_common(command, o->common);
    add_source_of_b(command, o->b);
    command.add_option("--trace", o->trace, "with --devices: write what really ran as a Chrome trace (rank 0's)")
        .check(check_name);
    command.add_flag("--resident", o->resident,
                     "with --devices: operands live there, and as much of the result as there is room for");
    command
        .add_option("--repeat,--repeats", o->repeat,
                    "execute so often; the time is the median, and quartiles are printed")
        .show_default()
        .check(between(1, 100'000));
    command.footer(
        "purify: the density matrix of a model insulator, filtered at 1e-6 unless --filter says otherwise.\n"
        "With --beta, C starts as random tiles. Sampled tiles are checked where neither --beta nor --filter is given.\n"
        "Example: tessera run alkane:12:v3:min --explain");
    o->command = command;
    return [o] { run(*o); };
}

}  // namespace tessera::app
