// An einsum of any number of operands, step by step: each is a contraction of two, planned and executed as such.

#include "tessera/contract/einsum.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "contract/bounds.hpp"
#include "contract/einsum_impl.hpp"
#include "contract/execute_planned.hpp"
#include "contract/reduce.hpp"

namespace tessera {

namespace {

/// The ranks that all operands live on.
template <Scalar T>
Communicator& ranks_of_all(const std::vector<ContractOperand<T>>& operands, const Tensor<T>* old,
                           const Resources& here) {
    require(!operands.empty(), "einsum: there is no operand");
    Communicator* ranks = &ranks_of(operands.front(), operands.back(), old, here);
    for (std::size_t o = 0; o < operands.size(); ++o) {
        const auto* x = operands[o].stored();
        require(!x || same_ranks(x->communicator(), *ranks),
                "einsum: operand {} is on other ranks ({} of them) than the others ({})", o + 1,
                x ? x->communicator().size() : 0, ranks->size());
    }
    return *ranks;
}

/// Tiles of a part on this rank.
std::int64_t stored_bytes(const OperandShape& x, ScalarKind scalar, const Communicator& ranks) {
    if (x.source != SourceKind::stored) return 0;
    if (ranks.size() == 1) return tile_storage_bytes(*x.shape, bytes_of(scalar));
    const auto where = x.distribution ? *x.distribution : Distribution::even(x.shape->grid(), ranks.size());
    return tile_storage_bytes(*x.shape, bytes_of(scalar), where, ranks.rank());
}

/// A plan for each step. Where the budget is too small for some, the smallest that is enough for all is named.
template <Scalar T>
void plan_steps(PlannedEinsum::Impl& e, std::vector<OperandShape> parts, const OperandShape* old) {
    const auto count = static_cast<int>(e.order.steps.size());
    std::int64_t least = 0;
    for (int i = 0; i < count; ++i) {
        const auto& step = e.order.steps[static_cast<std::size_t>(i)];
        const auto options = e.step_options(i);
        auto question =
            question_of<T>(step.spec, parts[static_cast<std::size_t>(step.left)],
                           parts[static_cast<std::size_t>(step.right)], i + 1 == count ? old : nullptr, options, e.how);
        for (int part = 0; part < static_cast<int>(parts.size()); ++part)
            if (e.held(part, i))
                question.held_bytes += stored_bytes(parts[static_cast<std::size_t>(part)], e.scalar, *e.ranks);
        if (old && i + 1 < count) question.held_bytes += stored_bytes(*old, e.scalar, *e.ranks);
        try {
            e.steps.push_back(plan_here(question, e.here, *e.ranks));
        } catch (const BudgetError& error) {
            if (e.here.memory == 0 || error.smallest_bytes() <= e.here.memory) throw;  // of the machine, of devices
            auto more = e.here;
            more.memory = error.smallest_bytes();
            least = std::max(least, more.memory);
            e.steps.push_back(plan_here(question, more, *e.ranks));
        }
        const auto& plan = e.steps.back().plan();
        e.peak_bytes = std::max(e.peak_bytes, plan.counts.peak_host_bytes);
        parts.emplace_back(plan.c, SourceKind::stored,
                           e.ranks->size() > 1 ? std::optional(plan.distribution_c) : std::nullopt);
        if (!plan.homes_c.empty()) {
            parts.back().devices = e.steps.back().impl().here.devices;
            parts.back().homes = plan.homes_c;
        }
    }
    if (least > e.here.memory)
        throw BudgetError(
            fmt::format("a memory budget of {} ({} bytes) is too small for '{}': the smallest that works "
                        "is {} ({} bytes)",
                        format_bytes(e.here.memory), e.here.memory, e.spec.text(), format_bytes(least), least),
            e.here.memory, least);
}

/// By the bounds of the norms: all operands, and what is held of intermediates.
std::int64_t peak_of_bounds(const PlannedEinsum::Impl& e) {
    const auto bytes = [&](const Shape& s) { return tile_storage_bytes(s, bytes_of(e.scalar)); };
    std::int64_t peak = 0;
    for (int i = 0; i < static_cast<int>(e.order.steps.size()); ++i) {
        std::int64_t now = bytes(e.order.steps[static_cast<std::size_t>(i)].result);
        for (int part = 0; part < e.operands() + i; ++part) {
            const auto& s = e.order.steps[static_cast<std::size_t>(i)];
            if (part != s.left && part != s.right && !e.held(part, i)) continue;
            now += part < e.operands() ? bytes(e.shapes[static_cast<std::size_t>(part)])
                                       : bytes(e.order.steps[static_cast<std::size_t>(part - e.operands())].result);
        }
        peak = std::max(peak, now);
    }
    return peak;
}

template <Scalar T>
PlannedEinsum plan_einsum(std::string_view text, const std::vector<OperandShape>& operands, const OperandShape* old,
                          const Resources& here, const ContractOptions& options, const PlanOptions& how,
                          Communicator& ranks) {
    const double start = now_seconds();
    std::vector<IndexVector> extents;
    std::vector<const TileGrid*> grids;
    std::vector<const Shape*> shapes;
    for (const auto& x : operands) {
        shapes.push_back(x.shape);
        grids.push_back(&x.shape->grid());
        extents.push_back(grids.back()->extents());
    }
    EinsumSpec spec(text, extents);
    require(spec.count() >= 2, "spec '{}': has one operand, for which there is nothing to plan", spec.text());
    const TileGrid grid = result_grid(spec.operands, spec.result, grids);
    if (ranks.size() > 1) require_same_on_all(ranks, {{"the spec", spec.text()}});
    require_conjugate(options, spec.count(), spec.text());
    require(options.filter >= 0 && std::isfinite(options.filter), "filter {} is not a finite number >= 0",
            options.filter);
    const double alpha = std::abs(scalar_of<T>(options.alpha, "alpha"));
    require(old || scalar_of<T>(options.beta, "beta") == T(0),
            "beta is {}, but there is no C to add to: use contract_into", options.beta.real());
    if (old) require_like_result(spec_text(spec.operands, spec.result), spec.result, old->shape->grid(), grid);

    require_bounds(spec.operands, spec.text(), grids, options.bounds);

    auto e = std::make_shared<PlannedEinsum::Impl>();
    for (const auto* s : shapes) e->shapes.push_back(*s);
    std::vector<Shape> parts;  // what bounds leave of them; all tiles, where they have symmetry
    for (int o = 0; o < spec.count() && options.bounds.empty(); ++o)
        parts.push_back(whole_shape(*shapes[static_cast<std::size_t>(o)]).shape);
    for (int o = 0; o < spec.count() && !options.bounds.empty(); ++o) {
        const auto n = static_cast<std::size_t>(o);
        const ContractionSpec alone(spec.operands[n] + "->");
        parts.push_back(bounded_shape(*shapes[n], window_of(alone, 0, *grids[n], options.bounds)));
    }
    for (std::size_t o = 0; o < parts.size(); ++o) shapes[o] = &parts[o];
    e->order = order_of(spec, shapes, options.filter, alpha);
    e->spec = std::move(spec);
    e->here = here;
    e->ranks = &ranks;
    e->options = options;
    e->how = how;
    e->scalar = ScalarTraits<T>::kind;
    e->into = old != nullptr;
    if (options.result_shape) e->given = *options.result_shape;
    e->options.result_shape = nullptr;
    if (options.filter > 0)
        e->peak_bytes = peak_of_bounds(*e);
    else
        plan_steps<T>(*e, operands, old);
    e->seconds = now_seconds() - start;
    return PlannedEinsum(std::move(e));
}

template <Scalar T>
std::vector<OperandShape> shapes_of(const std::vector<ContractOperand<T>>& operands) {
    std::vector<OperandShape> out;
    for (const auto& x : operands) out.push_back(shape_of(x));
    return out;
}

/// Sums over the steps.
void add(ContractReport& all, ContractReport step) {
    all.flops += step.flops;
    all.products += step.products;
    all.made_tiles += step.made_tiles;
    all.dropped_tiles += step.dropped_tiles;
    all.bytes_c = step.bytes_c;
    all.peak_host_bytes = std::max(all.peak_host_bytes, step.peak_host_bytes);
    all.execute_seconds += step.execute_seconds;
    if (all.algorithm.find(step.algorithm) == std::string::npos)
        all.algorithm += (all.algorithm.empty() ? "" : ", ") + step.algorithm;
    all.threads = step.threads;
    all.ranks = step.ranks;
    all.devices = step.devices;
    all.sent_bytes += step.sent_bytes;
    all.rank_sent_bytes += step.rank_sent_bytes;
    all.rank_received_bytes += step.rank_received_bytes;
    all.overlap = std::min(all.overlap, step.overlap);
    all.device_seconds += step.device_seconds;
    all.transfer_seconds += step.transfer_seconds;
    all.make_seconds += step.make_seconds;
    all.loaded_bytes += step.loaded_bytes;
    all.stored_bytes += step.stored_bytes;
    all.copied_bytes += step.copied_bytes;
    all.descriptor_bytes += step.descriptor_bytes;
    all.peak_device_bytes = std::max(all.peak_device_bytes, step.peak_device_bytes);
    all.steps.push_back(std::move(step));
}

/// Norm of an operand as the products see it, or a bound of it.
double norm_of(const EinsumSpec& spec, int operand, const Shape& shape) {
    const auto& given = spec.operands[static_cast<std::size_t>(operand)];
    const auto own = own_labels(spec, operand);
    return own == given ? shape.norm() : reduced_shape(shape, given, own).norm();
}

template <Scalar T>
Contraction<T> run(const PlannedEinsum::Impl& e, const std::vector<ContractOperand<T>>& operands, Tensor<T>* old,
                   const Watch& watch) {
    const int n = e.operands(), count = static_cast<int>(e.order.steps.size());
    const bool filtered = e.options.filter > 0;
    std::vector<std::optional<Tensor<T>>> made(static_cast<std::size_t>(count));
    const auto part = [&](int p) {
        return p < n ? operands[static_cast<std::size_t>(p)]
                     : ContractOperand<T>(*made[static_cast<std::size_t>(p - n)]);
    };
    // Of each part: its norm, and how far it may be from what it would be without a filter.
    std::vector<double> norms, off(static_cast<std::size_t>(n), 0.0);
    for (int o = 0; filtered && o < n; ++o) norms.push_back(norm_of(e.spec, o, part(o).shape()));

    const double all_flops = e.order.cost.flops / 2 * flops_per_multiply_add(e.scalar);
    double flops = 0;
    Watch watching = watch;
    if (watch.on_progress)
        watching.on_progress = [&](double done, double total) {
            watch.on_progress(flops + done, std::max(all_flops, flops + total));
        };
    ContractReport report;
    for (int i = 0; i < count; ++i) {
        const auto& step = e.order.steps[static_cast<std::size_t>(i)];
        const auto a = part(step.left), b = part(step.right);
        Tensor<T>* c = i + 1 == count ? old : nullptr;
        const auto options = e.step_options(i);
        Executed<T> ran;
        if (e.steps.empty()) {
            std::int64_t held = old && !c ? old->tile_bytes() : 0;
            for (int p = 0; p < n + i; ++p)
                if (e.held(p, i) && part(p).stored()) held += part(p).stored()->tile_bytes();
            ran = plan_and_execute<T>(step.spec, a, b, c, nullptr, e.here, options, e.how, watching, held);
            report.plan_seconds += ran.report.plan_seconds;
        } else {
            const auto& planned = e.steps[static_cast<std::size_t>(i)].impl();
            require_operands(planned, a, b, c);
            ran = execute_prepared<T>(planned,
                                      PreparedOperands<T>(planned.spec, a, b, options.bounds, e.here.threads, *e.ranks),
                                      c, nullptr, watching);
        }
        if (filtered) {
            const auto l = static_cast<std::size_t>(step.left), r = static_cast<std::size_t>(step.right);
            const double from_parts = off[l] * norms[r] + norms[l] * off[r] + off[l] * off[r];
            off.push_back((ran.report.left_out + std::abs(scalar_of<T>(options.alpha, "alpha")) * from_parts) *
                          (1 + 1e-12));
            norms.push_back(ran.tensor.shape().norm() * (1 + 1e-12));
        }
        flops += ran.report.flops;
        made[static_cast<std::size_t>(i)] = std::move(ran.tensor);
        add(report, std::move(ran.report));
        for (const int p : {step.left, step.right})
            if (p >= n) made[static_cast<std::size_t>(p - n)].reset();
    }
    if (filtered) report.left_out = off.back();
    for (int o = 0; o < n; ++o)
        if (const auto& x = operands[static_cast<std::size_t>(o)]; x.stored())
            (o == 0 ? report.bytes_a : report.bytes_b) += tile_storage_bytes(x.shape(), sizeof(T));
    return {std::move(*made.back()), std::move(report)};
}

template <Scalar T>
Contraction<T> plan_and_run(std::string_view spec, const std::vector<ContractOperand<T>>& operands, Tensor<T>* old,
                            const Resources& here, const ContractOptions& options, const PlanOptions& how,
                            const Watch& watch) {
    Communicator& ranks = ranks_of_all(operands, old, here);
    std::optional<OperandShape> c;
    if (old) c = shape_of(ContractOperand<T>(*old));
    const auto planned = plan_einsum<T>(spec, shapes_of(operands), c ? &*c : nullptr, here, options, how, ranks);
    auto out = run<T>(planned.impl(), operands, old, watch);
    out.report.plan_seconds += planned.seconds();
    return out;
}

/// One operand as the front door for one takes it.
template <Scalar T>
Tensor<T> made_whole(const ContractOperand<T>& x, const Resources& here, Communicator& ranks) {
    const auto& m = *x.made();
    require(static_cast<bool>(m.make), "operand 1 is made on demand, but has no function to make it");
    return Tensor<T>::generate(m.shape, m.make, here.threads,
                               {ranks, Distribution::even(m.shape.grid(), ranks.size())});
}

}  // namespace

template <Scalar T>
Contraction<T> contract(std::string_view spec, const std::vector<ContractOperand<T>>& operands, const Resources& here,
                        const ContractOptions& options, const PlanOptions& how, const Watch& watch) {
    if (operands.size() != 1) return plan_and_run<T>(spec, operands, nullptr, here, options, how, watch);
    if (operands[0].stored()) return contract(spec, *operands[0].stored(), here, options);
    return contract(spec, made_whole(operands[0], here, ranks_of_all<T>(operands, nullptr, here)), here, options);
}

template <Scalar T>
ContractReport contract_into(std::string_view spec, const std::vector<ContractOperand<T>>& operands, Tensor<T>& c,
                             const Resources& here, const ContractOptions& options, const PlanOptions& how,
                             const Watch& watch) {
    if (operands.size() == 1) {
        if (operands[0].stored()) return contract_into(spec, *operands[0].stored(), c, here, options);
        return contract_into(spec, made_whole(operands[0], here, ranks_of_all<T>(operands, &c, here)), c, here,
                             options);
    }
    auto ran = plan_and_run<T>(spec, operands, &c, here, options, how, watch);
    c = std::move(ran.tensor);
    return std::move(ran.report);
}

template <Scalar T>
PlannedEinsum plan(std::string_view spec, const std::vector<OperandShape>& operands, const Resources& here,
                   const ContractOptions& options, const PlanOptions& how) {
    return plan_einsum<T>(spec, operands, nullptr, here, options, how,
                          here.communicator ? *here.communicator : self_communicator());
}

template <Scalar T>
PlannedEinsum plan(std::string_view spec, const std::vector<ContractOperand<T>>& operands, const Resources& here,
                   const ContractOptions& options, const PlanOptions& how) {
    return plan_einsum<T>(spec, shapes_of(operands), nullptr, here, options, how,
                          ranks_of_all<T>(operands, nullptr, here));
}

template <Scalar T>
PlannedEinsum plan_into(std::string_view spec, const std::vector<ContractOperand<T>>& operands, const Tensor<T>& c,
                        const Resources& here, const ContractOptions& options, const PlanOptions& how) {
    const OperandShape old = shape_of(ContractOperand<T>(c));
    return plan_einsum<T>(spec, shapes_of(operands), &old, here, options, how, ranks_of_all<T>(operands, &c, here));
}

namespace {

template <Scalar T>
void require_planned(const PlannedEinsum::Impl& e, const std::vector<ContractOperand<T>>& operands, bool into) {
    require(e.scalar == ScalarTraits<T>::kind, "the operands hold {}, but the plan is for {}",
            name(ScalarTraits<T>::kind), name(e.scalar));
    require(e.into == into, "einsum '{}': {}", e.spec.text(),
            e.into ? "the plan adds to a C: use execute_into" : "the plan is not one of plan_into: use execute");
    require(static_cast<int>(operands.size()) == e.operands(), "einsum '{}': {} operands, but the plan is for {}",
            e.spec.text(), operands.size(), e.operands());
    for (int o = 0; o < e.operands(); ++o) {
        const auto& x = operands[static_cast<std::size_t>(o)];
        const auto who = operand_name(o, e.operands());
        require_planned_shape(who.c_str(), e.shapes[static_cast<std::size_t>(o)], x.shape(), e.options.filter > 0);
        require(!x.stored() || same_ranks(x.stored()->communicator(), *e.ranks),
                "{} is on other ranks ({} of them) than the plan ({})", who,
                x.stored() ? x.stored()->communicator().size() : 0, e.ranks->size());
    }
}

}  // namespace

template <Scalar T>
Contraction<T> execute(const PlannedEinsum& planned, const std::vector<ContractOperand<T>>& operands,
                       const Watch& watch) {
    require_planned(planned.impl(), operands, false);
    return run<T>(planned.impl(), operands, nullptr, watch);
}

template <Scalar T>
ContractReport execute_into(const PlannedEinsum& planned, const std::vector<ContractOperand<T>>& operands, Tensor<T>& c,
                            const Watch& watch) {
    const auto& e = planned.impl();
    require_planned(e, operands, true);
    if (!e.steps.empty()) require_like_result(e.spec.text(), e.spec.result, c.grid(), e.steps.back().plan().c.grid());
    auto ran = run<T>(e, operands, &c, watch);
    c = std::move(ran.tensor);
    return std::move(ran.report);
}

#define TESSERA_INSTANTIATE(T)                                                                                        \
    template Contraction<T> contract<T>(std::string_view, const std::vector<ContractOperand<T>>&, const Resources&,   \
                                        const ContractOptions&, const PlanOptions&, const Watch&);                    \
    template ContractReport contract_into<T>(std::string_view, const std::vector<ContractOperand<T>>&, Tensor<T>&,    \
                                             const Resources&, const ContractOptions&, const PlanOptions&,            \
                                             const Watch&);                                                           \
    template PlannedEinsum plan<T>(std::string_view, const std::vector<OperandShape>&, const Resources&,              \
                                   const ContractOptions&, const PlanOptions&);                                       \
    template PlannedEinsum plan<T>(std::string_view, const std::vector<ContractOperand<T>>&, const Resources&,        \
                                   const ContractOptions&, const PlanOptions&);                                       \
    template PlannedEinsum plan_into<T>(std::string_view, const std::vector<ContractOperand<T>>&, const Tensor<T>&,   \
                                        const Resources&, const ContractOptions&, const PlanOptions&);                \
    template Contraction<T> execute<T>(const PlannedEinsum&, const std::vector<ContractOperand<T>>&, const Watch&);   \
    template ContractReport execute_into<T>(const PlannedEinsum&, const std::vector<ContractOperand<T>>&, Tensor<T>&, \
                                            const Watch&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
