// Plan and execute in one call; and contractions of one operand, which have no plan.

#include "tessera/contract/contract.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "contract/execute_planned.hpp"
#include "contract/plan_cache.hpp"
#include "contract/planned_impl.hpp"
#include "contract/reduce.hpp"
#include "shape/require_whole.hpp"

namespace tessera {

template <Scalar T>
Executed<T> plan_and_execute(std::string_view text, const ContractOperand<T>& a, const ContractOperand<T>& b,
                             Tensor<T>* old, const TileConsumer<T>* consume, const Resources& here,
                             const ContractOptions& options, const PlanOptions& how, const Watch& watch,
                             std::int64_t held_bytes) {
    Communicator& ranks = ranks_of(a, b, old, here);
    settle_norms(options, a, b, old);
    const OperandShape shape_a = shape_of(a), shape_b = shape_of(b);
    std::optional<OperandShape> c;
    if (old) c = shape_of(ContractOperand<T>(*old));
    const PlanKey key{text, shape_a, shape_b, c ? &*c : nullptr, ScalarTraits<T>::kind, here, ranks, options, how};
    const bool keeps = key.complete() && held_bytes == 0;
    if (const auto kept = keeps ? PlanCache::instance().find(key) : std::nullopt) {
        const auto& p = kept->impl();
        require_operands(p, a, b, old);
        try {
            return execute_prepared(p, PreparedOperands<T>(p.spec, a, b, options.bounds, here.threads, ranks), old,
                                    consume, watch);
        } catch (const MachineError&) {
            if (!key.resident()) throw;  // else others may have the memory now: planned for what is left
        }
    }
    auto question = question_of<T>(text, shape_a, shape_b, key.c, options, how);
    question.held_bytes = held_bytes;
    const auto done = [](const PlannedContraction& planned, Executed<T> ran) {
        ran.report.plan_seconds = planned.seconds();
        return ran;
    };
    if (!(options.filter > 0 && question.spec.operand_count() == 2 && question.reduces())) {
        const auto planned = plan_here(question, here, ranks);
        require_operands(planned.impl(), a, b, old);
        if (keeps) PlanCache::instance().keep(key, planned);
        return done(planned,
                    execute_prepared(planned.impl(),
                                     PreparedOperands<T>(question.spec, a, b, options.bounds, here.threads, ranks), old,
                                     consume, watch));
    }
    check_question(question, here);
    const auto reducing = require_room_to_reduce(question, here, ranks);
    const PreparedOperands<T> operands(question.spec, a, b, options.bounds, here.threads, ranks);
    const auto x = operands.a->operand(), y = operands.b->operand();
    settle_norms(options, x, y, old);
    const auto& spec = question.spec;
    const auto reduced = spec.reduced_labels(0) + "," + spec.reduced_labels(1) + "->" + spec.c();
    auto left = options;  // bounds of labels that are gone are done with
    std::erase_if(left.bounds, [&](const IndexBounds& range) {
        return spec.reduced_labels(0).find(range.label) == std::string::npos &&
               spec.reduced_labels(1).find(range.label) == std::string::npos;
    });
    auto again = question_of<T>(reduced, shape_of(x), shape_of(y), c ? &*c : nullptr, left, how);
    again.reducing = reducing;
    again.held_bytes = held_bytes;
    for (const auto& [n, operand] : {std::pair{0, &a}, {1, &b}})
        if (spec.needs_reduction(n) && operand->stored()) again.held_bytes += operand->stored()->tile_bytes();
    const auto planned = plan_here(again, here, ranks);
    require_operands(planned.impl(), x, y, old);
    return done(planned, execute_prepared(planned.impl(), operands, old, consume, watch));
}

template <Scalar T>
Contraction<T> contract(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                        const std::type_identity_t<ContractOperand<T>>& b, const Resources& here,
                        const ContractOptions& options, const PlanOptions& how, const Watch& watch) {
    auto ran = plan_and_execute<T>(spec, a, b, nullptr, nullptr, here, options, how, watch);
    return {std::move(ran.tensor), std::move(ran.report)};
}

template <Scalar T>
ConsumedContraction contract_each(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                  const std::type_identity_t<ContractOperand<T>>& b,
                                  const std::type_identity_t<TileConsumer<T>>& sink, const Resources& here,
                                  const ContractOptions& options, const PlanOptions& how, const Watch& watch) {
    require(options.filter == 0, "filter {}: a result that is handed over tile by tile cannot be filtered",
            options.filter);
    require(static_cast<bool>(sink), "there is no function to hand the tiles to");
    auto ran = plan_and_execute<T>(spec, a, b, nullptr, &sink, here, options, how, watch);
    return {std::move(ran.handed_over), std::move(ran.report)};
}

template <Scalar T>
ContractReport contract_into(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                             const std::type_identity_t<ContractOperand<T>>& b, Tensor<T>& c, const Resources& here,
                             const ContractOptions& options, const PlanOptions& how, const Watch& watch) {
    auto ran = plan_and_execute<T>(spec, a, b, &c, nullptr, here, options, how, watch);
    c = std::move(ran.tensor);
    return std::move(ran.report);
}

namespace {

/// What bounds leave of the operand: a copy, with room for both.
template <Scalar T>
Tensor<T> bounded_within(const Tensor<T>& x, const Box& window, const Resources& here) {
    const auto bytes =
        tile_storage_bytes(bounded_shape(x.shape(), window), sizeof(T), x.distribution(), x.communicator().rank());
    const auto needed = largest_on_all(x.communicator(), x.tile_bytes() + bytes);
    if (here.memory > 0 && needed > here.memory)
        throw BudgetError(fmt::format("a memory budget of {} ({} bytes) is too small for an operand and what bounds "
                                      "leave of it: that alone takes {} ({} bytes)",
                                      format_bytes(here.memory), here.memory, format_bytes(needed), needed),
                          here.memory, needed);
    return bounded(x, window, false, here.threads);
}

template <Scalar T>
Contraction<T> run_one(std::string_view text, const Tensor<T>& whole, const Tensor<T>* old, const Resources& here,
                       const ContractOptions& options) {
    const double start = now_seconds();
    const ContractionSpec spec(without_ellipsis(text, {whole.grid().extents()}));
    const TileGrid grid = spec.result_grid(whole.grid());
    const T alpha = scalar_of<T>(options.alpha, "alpha"), beta = scalar_of<T>(options.beta, "beta");
    require(old || beta == T(0), "beta is {}, but there is no C to add to: use contract_into", options.beta.real());
    require(options.filter >= 0 && std::isfinite(options.filter), "filter {} is not a finite number >= 0",
            options.filter);
    require(here.memory >= 0, "memory budget {} is negative", here.memory);
    require(here.devices.empty() && here.device_memory == 0,
            "spec '{}': has one operand, which the cores work on; give no devices", spec.text());
    require_conjugate(options, 1, spec.text());
    require_whole("a contraction of one operand", whole.tiles());
    require(options.result_symmetry.none() && !options.fold,
            "spec '{}': has one operand, whose result has no symmetry and whose sums are not folded", spec.text());
    require(!options.result_shape && !options.result_distribution,
            "spec '{}': has one operand, whose tiles say which the result has and where; give no shape or distribution",
            spec.text());
    require(!options.conjugate_b, "spec '{}': has one operand, so there is no B to conjugate", spec.text());
    if (old) require_like_result(spec, old->grid(), grid);
    std::optional<Tensor<T>> part;
    if (!options.bounds.empty()) {
        const TileGrid* const grids[] = {&whole.grid()};
        require_bounds(spec, grids, options.bounds);
        part = bounded_within(whole, window_of(spec, 0, whole.grid(), options.bounds), here);
    }
    const Tensor<T>& a = part ? *part : whole;
    const bool adds = old && beta != T(0);
    const auto added = adds ? std::optional(old->tile_bytes()) : std::nullopt;
    Contraction<T> out{reduce(a, spec.a(), spec.c(), here.threads, here.memory, added, alpha, options.conjugates(0),
                              part ? whole.tile_bytes() : 0),
                       {}};
    out.report.bytes_a = a.tile_bytes();
    if (part) out.report.bytes_a += whole.tile_bytes();
    const auto bytes = reduce_bytes(a.tiles(), &a.distribution(), sizeof(T), spec.a(), spec.c(), a.communicator());
    out.report.peak_host_bytes = out.report.bytes_a + bytes.copy + bytes.result;
    if (adds) {
        auto sum = add(T(1), out.tensor, beta, *old);
        out.report.peak_host_bytes += old->tile_bytes() + sum.tile_bytes();
        out.tensor = std::move(sum);
    }
    out.report.peak_host_bytes = largest_on_all(a.communicator(), out.report.peak_host_bytes);
    if (options.filter > 0) {
        double square = 0;
        for (double n : out.tensor.shape().norms())
            if (n < options.filter) square += n * n, ++out.report.dropped_tiles;
        out.report.left_out = std::sqrt(square) * (1 + 1e-12);
        out.tensor = filter(out.tensor, options.filter);
    }
    out.report.bytes_c = out.tensor.tile_bytes();
    out.report.algorithm = "reduce";
    out.report.threads = resolve_threads(here.threads);
    out.report.execute_seconds = now_seconds() - start;
    return out;
}

}  // namespace

template <Scalar T>
Contraction<T> contract(std::string_view spec, const Tensor<T>& a, const Resources& here,
                        const ContractOptions& options) {
    return run_one<T>(spec, a, nullptr, here, options);
}

template <Scalar T>
ContractReport contract_into(std::string_view spec, const Tensor<T>& a, Tensor<T>& c, const Resources& here,
                             const ContractOptions& options) {
    auto result = run_one<T>(spec, a, &c, here, options);
    c = std::move(result.tensor);
    return std::move(result.report);
}

template <Scalar T>
Tensor<T> permute(const Tensor<T>& x, const Permutation& p, int threads) {
    require(p.rank() == x.rank(), "permute: permutation {} for a tensor of rank {}", to_string(p), x.rank());
    std::string in, out;
    for (int d = 0; d < x.rank(); ++d) in += static_cast<char>('a' + d);
    for (int d = 0; d < x.rank(); ++d) out += in[p[d]];
    return reduce(x, in, out, threads);
}

#define TESSERA_INSTANTIATE(T)                                                                                         \
    template Executed<T> plan_and_execute<T>(std::string_view, const ContractOperand<T>&, const ContractOperand<T>&,   \
                                             Tensor<T>*, const TileConsumer<T>*, const Resources&,                     \
                                             const ContractOptions&, const PlanOptions&, const Watch&, std::int64_t);  \
    template Contraction<T> contract<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,             \
                                        const std::type_identity_t<ContractOperand<T>>&, const Resources&,             \
                                        const ContractOptions&, const PlanOptions&, const Watch&);                     \
    template ContractReport contract_into<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,        \
                                             const std::type_identity_t<ContractOperand<T>>&, Tensor<T>&,              \
                                             const Resources&, const ContractOptions&, const PlanOptions&,             \
                                             const Watch&);                                                            \
    template ConsumedContraction contract_each<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,   \
                                                  const std::type_identity_t<ContractOperand<T>>&,                     \
                                                  const std::type_identity_t<TileConsumer<T>>&, const Resources&,      \
                                                  const ContractOptions&, const PlanOptions&, const Watch&);           \
    template Contraction<T> contract<T>(std::string_view, const Tensor<T>&, const Resources&, const ContractOptions&); \
    template ContractReport contract_into<T>(std::string_view, const Tensor<T>&, Tensor<T>&, const Resources&,         \
                                             const ContractOptions&);                                                  \
    template Tensor<T> permute(const Tensor<T>&, const Permutation&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
