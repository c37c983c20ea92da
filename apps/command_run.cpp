#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "inspect/build_plan.hpp"
#include "probe/rates.hpp"
#include "report.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    ContractionOptions contraction;
    std::string problem;
};

void run(const Options& o) {
    auto options = library_options(o.contraction, o.common);
    const Problem problem = make_problem(o.problem);
    const bool talk = !o.common.quiet && !o.common.json;

    const ContractionSpec spec(problem.spec);
    const Shape old_shape = problem.c ? *problem.c : Shape::dense(spec.result_grid(problem.a.grid(), problem.b.grid()));
    // A budget that is too small is refused before the operands are made.
    if (options.memory > 0) {
        PlanRequest request;
        request.spec = &spec;
        request.a = &problem.a;
        request.b = &problem.b;
        if (problem.b_on_demand) request.source_b = SourceKind::host_made;
        request.screening = {options.filter, std::abs(o.contraction.alpha), problem.c ? &*problem.c : nullptr};
        if (o.contraction.beta != 0) {
            if (!problem.c) request.accumulate = &old_shape;
            request.other_bytes = tile_storage_bytes(old_shape, sizeof(double));
        }
        request.memory = options.memory;
        request.algorithm = options.algorithm;
        build_plan(request, {});
    }
    const double gemm_before = measure_gemm_gflops(o.common.threads);
    const auto a = Tensor<double>::generate(problem.a, problem.make_a, o.common.threads);
    std::optional<Tensor<double>> stored_b;
    const GeneratedTensor<double> made_b{problem.b, problem.make_b};
    if (!problem.b_on_demand) stored_b = Tensor<double>::generate(problem.b, problem.make_b, o.common.threads);
    const auto b = stored_b ? ContractOperand<double>(*stored_b) : ContractOperand<double>(made_b);
    if (problem.c) options.result_shape = &*problem.c;
    std::optional<Tensor<double>> old;
    if (o.contraction.beta != 0) old = Tensor<double>::random(old_shape, 7);

    Contraction<double> result;
    ContractionSummary s;
    {
        ProgressBar bar(problem.name, talk);
        options.on_progress = [&](double done, double total) { bar.show(done, total); };
        double pause = 0;  // printing the plan and the first touch of memory are not part of the work
        options.on_plan = [&](const Plan& plan) {
            const double t = now_seconds();
            if (o.contraction.explain) fmt::print(o.common.json ? stderr : stdout, "{}", explain(plan));
            std::fflush(stdout);
            touch_memory(plan.counts.bytes_c + plan.counts.arena_bytes + (64 << 20), o.common.threads);
            pause = now_seconds() - t;
        };
        const double start = now_seconds();
        if (old) {
            result.report = contract_into<double>(problem.spec, a, b, *old, options);
            result.tensor = std::move(*old);
        } else {
            result = contract<double>(problem.spec, ContractOperand<double>(a), b, options);
        }
        s.seconds = now_seconds() - start - pause;
    }
    s.gemm_gflops = std::max(gemm_before, measure_gemm_gflops(o.common.threads));
    s.problem = problem.name;
    s.spec = problem.spec;
    s.report = result.report;
    s.density_a = problem.a.density();
    s.density_b = problem.b.density();
    s.density_c = result.tensor.shape().density();
    s.metadata_bytes = a.metadata_bytes() + (stored_b ? stored_b->metadata_bytes() : problem.b.metadata_bytes()) +
                       result.tensor.metadata_bytes();
    s.checksum = checksum(result.tensor);
    const bool checkable = o.contraction.beta == 0 && o.contraction.filter == 0;
    if (checkable) {
        VerifyOptions v;
        v.tiles = o.contraction.check;
        v.alpha = options.alpha;
        v.threads = o.common.threads;
        s.checked = verify_sample<double>(problem.spec, a, b, result.tensor, v);
    }
    if (o.common.json)
        print_json(to_json(s));
    else if (!o.common.quiet)
        fmt::print("{}", to_text(s));
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
    command->footer(
        "With --beta, C starts as random tiles. Sampled tiles are checked where neither --beta nor --filter is given.\n"
        "Example: tessera run alkane:12:v3:min --explain");
    return [o] { run(*o); };
}

}  // namespace tessera::app
