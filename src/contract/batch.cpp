#include "tessera/contract/batch.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/clock.hpp"
#include "comm/same_on_all.hpp"
#include "contract/execute_planned.hpp"
#include "contract/planned_impl.hpp"
#include "shape/product_shape.hpp"
#include "shape/require_whole.hpp"

namespace tessera {

namespace {

/// The sums of this plan are C's own tiles, one for each, so that a later plan can go on where it ended.
bool sums_in_place(const Plan& plan) {
    return plan.segments == 1 && plan.devices_per_rank == 0 &&
           std::ranges::all_of(plan.sums, [](const PlanSum& s) { return s.offset < 0 && s.device < 0; });
}

Shape united(const Shape& x, const Shape& y) {
    std::vector<std::int64_t> tiles;
    std::ranges::set_union(x.ordinals(), y.ordinals(), std::back_inserter(tiles));
    std::vector<double> norms(tiles.size(), 0.0);
    return Shape::from_sorted(x.grid(), std::move(tiles), std::move(norms));
}

/// The same tensor with all tiles of a shape.
template <Scalar T>
Tensor<T> grown(const Tensor<T>& x, const Shape& shape) {
    return Tensor<T>::generate(
        shape,
        [&](const TileInfo& info, std::span<T> tile) {
            const auto old = x.tile(info.coordinates);
            if (old.empty())
                std::ranges::fill(tile, T{});
            else
                std::ranges::copy(old, tile.begin());
        },
        0, x.placement());
}

/// Adds the products of a plan to the sums, in their place and in order. Returns the bytes held at most.
template <Scalar T>
std::pair<ExecuteCounts, std::int64_t> go_on(const PlannedContraction::Impl& planned,
                                             const PreparedOperands<T>& operands, Tensor<T>& sums) {
    const Plan& plan = planned.plan;
    Communicator& ranks = *planned.ranks;
    const auto& mine = plan.rank_counts[static_cast<std::size_t>(ranks.rank())];
    MemoryBudget budget(planned.here.memory > 0 ? planned.here.memory : MemoryBudget::kUnlimited);
    ExecuteCounts counts;
    together(ranks, [&] {
        budget.take(mine.stored_a + mine.stored_b + mine.stored_c + plan.other_bytes, "operands and result");
        std::vector<double> norms(static_cast<std::size_t>(plan.c.tile_count()));
        TileSink<T> sink;
        sink.tile = [&](std::int64_t slot) { return sums.impl().tile(slot); };
        sink.finished = [&](std::int64_t slot, double norm) { norms[slot] = norm; };
        ExecuteOptions<T> how;
        how.conjugate_a = planned.options.conjugates(0);
        how.conjugate_b = planned.options.conjugates(1);
        how.budget = &budget;
        how.resume = true;
        counts = execute(plan, ranks, operands.a->source(false), operands.b->source(false), sink, how);
        sums.impl().set_norms(std::move(norms));
    });
    return {counts, budget.peak()};
}

}  // namespace

template <Scalar T>
struct ContractionBatch<T>::Impl {
    Impl(std::string_view text, Tensor<T>& to, const Resources& r, const BatchOptions& o, const PlanOptions& p)
        : spec(text),
          c(&to),
          here(r),
          options(o),
          how(p),
          sums(o.retain_sparsity ? to.shape() : Shape(to.grid()), to.placement()) {
        require_whole("batch", to.shape());
        require(spec.operand_count() == 2, "batch '{}': has one operand, two are needed", spec.text());
        require(static_cast<int>(spec.c().size()) == to.rank(),
                "batch '{}': C has rank {}, but the result's labels '{}'", spec.text(), to.rank(), spec.c());
        (void)scalar_of<T>(o.alpha, "alpha");
        (void)scalar_of<T>(o.beta, "beta");
        require(!o.whole_a == !o.whole_b, "batch '{}': the whole of one operand is declared, that of the other is not",
                spec.text());
        if (o.whole_a) {
            const TileGrid grid = spec.result_grid(o.whole_a->grid(), o.whole_b->grid());
            require_like_result(spec, to.grid(), grid);
            whole.push_back(*o.whole_a);
            whole.push_back(*o.whole_b);
        }
        options.whole_a = options.whole_b = nullptr;
        // Sums that go on from batch to batch stay with C's tiles, where this algorithm has them.
        if (to.communicator().size() > 1 && how.algorithm == Algorithm::automatic)
            how.algorithm = Algorithm::outer_product;
        restart();
    }

    void restart() {
        report = {};
        last_k.clear();
        report.as_one_call = !whole.empty();
        if (whole.empty()) {
            report.why_not = "the whole operands were not declared";
        } else if (spec.needs_reduction(0) || spec.needs_reduction(1)) {
            differs("an operand has a diagonal or a sum of its own");
        } else {
            const Shape given = c->shape();
            const int segments =
                product_shape(spec, whole[0], whole[1], {0, 1, options.retain_sparsity ? &given : nullptr}).segments;
            if (segments > 1) differs(fmt::format("one call would sum {} segments apart", segments));
        }
    }
    void differs(const std::string& why) {
        if (!report.as_one_call) return;
        report.as_one_call = false;
        report.why_not = why;
    }

    ContractOptions what(const std::vector<IndexBounds>& bounds) const {
        ContractOptions o;
        o.beta = 1.0;
        o.conjugate_a = options.conjugate_a;
        o.conjugate_b = options.conjugate_b;
        o.bounds = bounds;
        if (options.retain_sparsity) o.result_shape = &c->shape();
        return o;
    }
    const PlannedContraction& plan_for(const ContractOperand<T>& a, const ContractOperand<T>& b,
                                       const std::vector<IndexBounds>& bounds);
    void check_order(const Plan& plan, const ContractOperand<T>& a, const ContractOperand<T>& b,
                     const std::vector<IndexBounds>& bounds);
    void add(const ContractOperand<T>& a, const ContractOperand<T>& b, const std::vector<IndexBounds>& bounds);

    ContractionSpec spec;
    Tensor<T>* c;
    Resources here;
    BatchOptions options;
    PlanOptions how;
    std::vector<Shape> whole;  // of A and B, where declared
    Tensor<T> sums;
    struct Kept {
        std::vector<IndexBounds> bounds;
        Shape a, b;  // whole, as they came
        SourceKind from_a, from_b;
        std::optional<Distribution> where_a, where_b;
        PlannedContraction planned;
    };
    std::vector<Kept> kept;
    BatchReport report;
    /// By result tile: the last k that was added, as the part of A's ordinal that k makes, and where its range ended.
    struct LastK {
        std::int64_t tile = -1, end = 0;
    };
    std::map<std::int64_t, LastK> last_k;
    bool failed = false;
};

/// A plan that was made for these tiles, or a new one.
template <Scalar T>
const PlannedContraction& ContractionBatch<T>::Impl::plan_for(const ContractOperand<T>& a, const ContractOperand<T>& b,
                                                              const std::vector<IndexBounds>& bounds) {
    const auto same = [](const Shape& x, const Shape& y) {
        return x.grid() == y.grid() && std::ranges::equal(x.ordinals(), y.ordinals());
    };
    const OperandShape x = shape_of(a), y = shape_of(b);
    for (const auto& k : kept)
        if (k.bounds == bounds && k.from_a == x.source && k.from_b == y.source && k.where_a == x.distribution &&
            k.where_b == y.distribution && same(k.a, a.shape()) && same(k.b, b.shape()) &&
            std::ranges::includes(k.planned.plan().c.ordinals(), sums.shape().ordinals()))
            return k.planned;
    const ContractOptions asked = what(bounds);
    const OperandShape old = shape_of(ContractOperand<T>(sums));
    auto question = question_of<T>(spec.text(), x, y, &old, asked, how);
    question.held_bytes += c->tile_bytes();
    auto planned = plan_here(question, here, ranks_of(a, b, c, here));
    report.plan_seconds += planned.seconds();
    ++report.plans;
    // Plans of sums that have grown since serve no longer.
    std::erase_if(kept, [&](const Kept& k) {
        return !std::ranges::includes(k.planned.plan().c.ordinals(), sums.shape().ordinals());
    });
    constexpr std::size_t kMostPlans = 32;
    if (kept.size() == kMostPlans) kept.erase(kept.begin());
    kept.push_back(
        {bounds, a.shape(), b.shape(), x.source, y.source, x.distribution, y.distribution, std::move(planned)});
    return kept.back().planned;
}

/// Whether the products continue those before in the order of one call: per result tile, ascending in k.
template <Scalar T>
void ContractionBatch<T>::Impl::check_order(const Plan& plan, const ContractOperand<T>& a, const ContractOperand<T>& b,
                                            const std::vector<IndexBounds>& bounds) {
    if (!report.as_one_call) return;
    if (!(a.shape().grid() == whole[0].grid() && b.shape().grid() == whole[1].grid()))
        return differs("a batch has other tiles than the whole operands");
    const auto contracted = spec.labels_with(LabelRole::contracted);
    const auto key = [&](std::int32_t slot) {
        const auto at = plan.a.grid().coordinates(plan.a.tile(slot));
        std::int64_t k = 0;
        for (int d = 0; d < at.size(); ++d)
            if (contracted.find(spec.a()[static_cast<std::size_t>(d)]) != std::string::npos)
                k += at[d] * plan.a.grid().ordinal_strides()[d];
        return k;
    };
    // A tile of k may be cut between two batches where k is one index.
    IndexBounds range{0, 0, contracted.size() == 1 ? INT64_MAX : 0};
    for (const auto& r : bounds)
        if (contracted.size() == 1 && r.label == contracted[0]) range = r;
    for (const auto& chain : plan.chains) {
        if (chain.products == 0 || chain.part > 0) continue;
        const auto first = static_cast<std::size_t>(chain.first_product);
        const auto last = first + static_cast<std::size_t>(chain.products) - 1;
        LastK& k = last_k[plan.c.tile(plan.sums[static_cast<std::size_t>(chain.sum)].c).value];
        const auto from = key(plan.products[first].a);
        if (from < k.tile || (chain.starts && from == k.tile && !(contracted.size() == 1 && range.lo >= k.end)))
            return differs("contracted ranges do not come in ascending order");
        k = {key(plan.products[last].a), range.hi};
    }
}

template <Scalar T>
void ContractionBatch<T>::Impl::add(const ContractOperand<T>& a, const ContractOperand<T>& b,
                                    const std::vector<IndexBounds>& bounds) {
    require(!failed, "batch '{}': an earlier batch has failed, and its sums are lost", spec.text());
    require_whole("batch", a.shape());
    require_whole("batch", b.shape());
    const auto& planned = plan_for(a, b, bounds);
    const Plan& plan = planned.plan();
    require_operands(planned.impl(), a, b, &sums);
    const double start = now_seconds();
    failed = true;  // until it has gone well
    if (!std::ranges::equal(plan.c.ordinals(), sums.shape().ordinals())) sums = grown(sums, plan.c);
    const PreparedOperands<T> operands(spec, a, b, bounds, here.threads, *planned.impl().ranks);
    if (sums_in_place(plan)) {
        check_order(plan, a, b, bounds);
        const auto [counts, peak] = go_on(planned.impl(), operands, sums);
        std::int64_t sent = counts.sent_bytes;
        c->communicator().sum(std::span(&sent, 1));
        report.sent_bytes += sent;
        report.peak_host_bytes = std::max(report.peak_host_bytes, largest_on_all(c->communicator(), peak));
    } else {
        differs(plan.segments > 1 ? "a batch was summed in segments" : "sums were made apart from C's tiles");
        auto ran = execute_prepared<T>(planned.impl(), operands, &sums, nullptr, {});
        sums = std::move(ran.tensor);
        report.sent_bytes += ran.report.sent_bytes;
        report.peak_host_bytes = std::max(report.peak_host_bytes, ran.report.peak_host_bytes);
    }
    failed = false;
    ++report.batches;
    report.flops += plan.counts.flops;
    report.products += plan.counts.products;
    report.execute_seconds += now_seconds() - start;
}

template <Scalar T>
ContractionBatch<T>::ContractionBatch(std::string_view spec, Tensor<T>& c, const Resources& here,
                                      const BatchOptions& options, const PlanOptions& how)
    : impl_(std::make_unique<Impl>(spec, c, here, options, how)) {}
template <Scalar T>
ContractionBatch<T>::ContractionBatch(ContractionBatch&&) noexcept = default;
template <Scalar T>
ContractionBatch<T>& ContractionBatch<T>::operator=(ContractionBatch&&) noexcept = default;
template <Scalar T>
ContractionBatch<T>::~ContractionBatch() = default;

template <Scalar T>
void ContractionBatch<T>::add(const ContractOperand<T>& a, const ContractOperand<T>& b,
                              const std::vector<IndexBounds>& bounds) {
    impl_->add(a, b, bounds);
}

template <Scalar T>
void ContractionBatch<T>::add(Tensor<T>&& a, Tensor<T>&& b, const std::vector<IndexBounds>& bounds) {
    const Tensor<T> mine(std::move(a)), other(std::move(b));
    impl_->add(ContractOperand<T>(mine), ContractOperand<T>(other), bounds);
}

template <Scalar T>
BatchReport ContractionBatch<T>::finish(double filter) {
    Impl& me = *impl_;
    require(filter >= 0 && std::isfinite(filter), "batch '{}': filter {} is not a finite number >= 0", me.spec.text(),
            filter);
    require(!me.failed, "batch '{}': an earlier batch has failed, and its sums are lost", me.spec.text());
    require_same_on_all(me.c->communicator(), {{"the batch's filter", fmt::format("{}", filter)}});
    const double start = now_seconds();
    const T alpha = scalar_of<T>(me.options.alpha, "alpha"), beta = scalar_of<T>(me.options.beta, "beta");
    const Tensor<T>& old = *me.c;
    const bool adds = beta != T(0) && old.tile_count() > 0;
    // What a contraction does to a finished sum, in the same order.
    Tensor<T> out = adds ? grown(me.sums, united(me.sums.shape(), old.shape())) : std::move(me.sums);
    if (adds || alpha != T(1))
        out.update_tiles(
            [&](const TileInfo& info, std::span<T> tile) {
                if (alpha != T(1))
                    for (T& e : tile) e *= alpha;
                if (!adds) return;
                const auto before = old.tile(info.coordinates);
                for (std::size_t i = 0; i < before.size(); ++i) tile[i] += beta * before[i];
            },
            me.here.threads);
    BatchReport report = me.report;
    if (filter > 0) {
        double square = 0;
        for (const double n : out.shape().norms())
            if (n < filter) square += n * n, ++report.dropped_tiles;
        report.left_out = std::sqrt(square) * (1 + 1e-12);
        out = tessera::filter(out, filter);
    }
    report.execute_seconds += now_seconds() - start;
    *me.c = std::move(out);
    me.sums = Tensor<T>(me.options.retain_sparsity ? me.c->shape() : Shape(me.c->grid()), me.c->placement());
    me.kept.clear();
    me.restart();
    return report;
}

template class ContractionBatch<float>;
template class ContractionBatch<double>;
template class ContractionBatch<std::complex<float>>;
template class ContractionBatch<std::complex<double>>;

}  // namespace tessera
