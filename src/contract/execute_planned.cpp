#include "contract/execute_planned.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "execute/device/execute_devices.hpp"
#include "tensor/resident.hpp"

namespace tessera {

namespace {

/// Result tiles whose norm is below the filter go; what they held is added to what was left out.
template <Scalar T>
Tensor<T> drop_small(Tensor<T> c, const Plan& plan, ContractReport& report) {
    double square = report.left_out * report.left_out;
    for (std::int64_t s = 0; s < c.tile_count(); ++s) {
        const double n = c.shape().norm_of(s);
        if (n >= plan.filter) continue;
        const double skipped = plan.skipped[s];
        const auto stands_for = static_cast<double>(c.shape().symmetry().orbit(c.grid(), c.shape().tile(s)));
        square += stands_for * ((skipped + n) * (skipped + n) - skipped * skipped);
        ++report.dropped_tiles;
    }
    report.left_out = std::sqrt(square) * (1 + 1e-12);
    return report.dropped_tiles > 0 ? filter(c, plan.filter) : std::move(c);
}

/// What the plan says of all ranks.
ContractReport planned_figures(const PlannedContraction::Impl& planned) {
    const Plan& plan = planned.plan;
    ContractReport report;
    report.left_out = plan.counts.left_out_bound;
    report.flops = plan.counts.flops;
    report.products = plan.counts.products;
    report.bytes_a = plan.counts.bytes_a;
    report.bytes_b = plan.counts.bytes_b;
    report.bytes_c = plan.counts.bytes_c;
    report.algorithm = name(plan.algorithm);
    report.threads = plan.threads;
    report.ranks = plan.ranks;
    report.devices = planned.here.devices;
    return report;
}

void add_devices(ContractReport& report, ExecuteCounts& counts, DeviceExecuteCounts ran) {
    counts = ran.host;
    report.trace = std::move(ran.trace);
    for (const auto& d : ran.devices) {
        report.loaded_bytes += d.loaded_bytes;
        report.stored_bytes += d.stored_bytes;
        report.copied_bytes += d.copied_bytes;
        report.descriptor_bytes += d.descriptor_bytes;
        report.peak_device_bytes = std::max(report.peak_device_bytes, d.high_water);
        counts.made_tiles += d.made_tiles;
    }
}

/// Figures of one rank become those of all.
void join_ranks(ContractReport& report, const ExecuteCounts& counts, Communicator& ranks) {
    report.made_tiles = counts.made_tiles;
    if (ranks.size() == 1) return;
    report.rank_sent_bytes = counts.sent_bytes;
    report.rank_received_bytes = counts.received_bytes;
    report.sent_bytes = counts.sent_bytes;
    std::int64_t* const summed[] = {&report.made_tiles,   &report.sent_bytes,   &report.loaded_bytes,
                                    &report.stored_bytes, &report.copied_bytes, &report.descriptor_bytes};
    std::int64_t all[std::size(summed)];
    for (std::size_t i = 0; i < std::size(summed); ++i) all[i] = *summed[i];
    ranks.sum(std::span<std::int64_t>(all));
    for (std::size_t i = 0; i < std::size(summed); ++i) *summed[i] = all[i];
    report.peak_device_bytes = largest_on_all(ranks, report.peak_device_bytes);
    double seconds[] = {counts.transfer_seconds, std::min(counts.waited_seconds, counts.transfer_seconds)};
    ranks.sum(std::span<double>(seconds));
    report.overlap = seconds[0] > 0 ? 1 - seconds[1] / seconds[0] : 1;
}

/// What the trace tells of the devices' time.
void add_trace(ContractReport& report, bool traced, Communicator& ranks) {
    report.overlap = std::numeric_limits<double>::quiet_NaN();
    if (!traced) return;
    const auto shares = device_overlap(report.trace);
    double seconds[] = {shares.transfer_seconds, shares.hidden_seconds, shares.work_seconds, shares.make_seconds};
    if (ranks.size() > 1) ranks.sum(std::span<double>(seconds));
    report.overlap = seconds[0] > 0 ? seconds[1] / seconds[0] : 1;
    report.transfer_seconds = seconds[0] / report.ranks;
    report.device_seconds = seconds[2] / report.ranks;
    report.make_seconds = seconds[3] / report.ranks;
}

void require_planned_ranks(const char* name, const PlannedContraction::Impl& planned, const Communicator& ranks) {
    require(same_ranks(ranks, *planned.ranks),
            "{} is on another communicator ({} ranks) than the plan ({}): plan with the operands' communicator among "
            "the resources",
            name, ranks.size(), planned.ranks->size());
}

template <Scalar T>
void require_operand(int number, const PlannedContraction::Impl& planned, const ContractOperand<T>& x,
                     const Shape& shape, SourceKind source, bool reduced, const Distribution& where) {
    const char* name = number == 0 ? "A" : "B";
    const auto& bounds = planned.options.bounds;
    require_planned_symmetry(name, shape.symmetry(), x.shape().symmetry());
    if (bounds.empty() || !(x.shape().grid() == shape.grid()))
        require_planned_shape(name, shape, x.shape(), planned.plan.filter > 0);
    else
        require_planned_shape(name, shape,
                              bounded_shape(x.shape(), window_of(planned.spec, number, shape.grid(), bounds)),
                              planned.plan.filter > 0);
    if (x.made()) {
        require(static_cast<bool>(x.made()->make), "operand {} is made on demand, but has no function to make it",
                name);
        require(source != SourceKind::stored, "{} is made on demand, but the plan is for a stored one", name);
        require(source != SourceKind::device_made || makes_tiles(x.made()->on_device),
                "{} has no way to be made by devices, but the plan is for that", name);
        return;
    }
    require(source == SourceKind::stored, "{} is stored, but the plan is for one that is made on demand", name);
    require_planned_ranks(name, planned, x.stored()->communicator());
    if (!reduced && planned.ranks->size() == 1) {
        const auto homes =
            homes_among(name, x.stored()->placement().devices, x.stored()->impl().places->homes, planned.here.devices);
        const auto& as = planned.plan.homes(number == 0 ? Operand::a : Operand::b);
        const auto any = [](const std::vector<std::int16_t>& h) {
            return std::any_of(h.begin(), h.end(), [](auto home) { return home >= 0; });
        };
        if (any(homes) || any(as))
            require(homes == as, "{} has tiles on other devices, or on the host, than those that the plan is for",
                    name);
    }
    if (!reduced && planned.ranks->size() > 1 && x.stored()->distribution() != where)
        user_error("{} is dealt to {}, but the plan is for {}", name, to_string(x.stored()->distribution()),
                   to_string(where));
}

template <Scalar T>
void require_old(const PlannedContraction::Impl& planned, const Tensor<T>& old) {
    const Plan& plan = planned.plan;
    require_like_result(planned.spec, old.grid(), plan.c.grid());
    require_planned_symmetry("C", plan.c.symmetry(), old.tiles().symmetry());
    require_planned_ranks("C", planned, old.communicator());
    if (planned.ranks->size() > 1 && old.distribution() != plan.distribution_c)
        user_error("C is dealt to {}, but the plan is for {}", to_string(old.distribution()),
                   to_string(plan.distribution_c));
    if (planned.options.beta == 0.0 || plan.shape_given) return;
    if (plan.filter > 0) return require_planned_shape("C", plan.added, old.shape(), true);
    if (plan.c.same_tiles(old.tiles())) return;
    for (auto o : old.tiles().ordinals())
        if (!plan.c.find(TileOrdinal{o}))
            user_error("C has tile {}, which is not among the plan's result tiles",
                       to_string(old.grid().coordinates(TileOrdinal{o})));
}

/// The C that is added to, with each tile where the result has it.
template <Scalar T>
const Tensor<T>& old_where_it_is_added(const Plan& plan, const Placement& where, const Tensor<T>& old,
                                       std::optional<Tensor<T>>& moved) {
    if (where.devices.empty()) return at_homes<T>(old, {}, {}, moved);
    std::vector<std::int16_t> homes;
    for (std::int64_t s = 0; s < old.tile_count(); ++s) {
        const auto at = plan.c.find(old.tiles().tile(s));
        homes.push_back(at ? static_cast<std::int16_t>(plan.home(Operand::c, *at)) : std::int16_t{-1});
    }
    return at_homes(old, where.devices, homes, moved);
}

}  // namespace

template <Scalar T>
void require_operands(const PlannedContraction::Impl& planned, const ContractOperand<T>& a, const ContractOperand<T>& b,
                      const Tensor<T>* old) {
    const Plan& plan = planned.plan;
    require(planned.ranks != nullptr, "the plan is for machine {}, which is described, not at hand: plan() plans here",
            planned.machine.name);
    require(plan.scalar == ScalarTraits<T>::kind, "the operands hold {}, but the plan is for {}",
            name(ScalarTraits<T>::kind), name(plan.scalar));
    require(!planned.into || old, "the plan adds to a C: use execute_into");
    require(planned.into || !old, "the plan is not one of plan_into: execute it, or plan with the C");
    require_operand(0, planned, a, planned.shape_a(), planned.source_a, planned.spec.needs_reduction(0),
                    plan.distribution_a);
    require_operand(1, planned, b, planned.shape_b(), planned.source_b, planned.spec.needs_reduction(1),
                    plan.distribution_b);
    if (old) require_old(planned, *old);
}

namespace {

/// The C that a plan works on in place. Where the work fails, it is zero: some of its tiles are old by then, some new.
template <Scalar T>
class InPlace {
  public:
    InPlace(Tensor<T>* c, const PlannedContraction::Impl& planned) : c_(c), planned_(planned) {}
    explicit operator bool() const { return c_ != nullptr; }
    typename Tensor<T>::Impl& impl() { return c_->impl(); }

    /// Runs what touches C.
    template <class Work>
    void guard(Work&& work) {
        if (!c_) return work();
        const auto lost = [&](const std::exception& e) {
            clear();
            return fmt::format("{}; C was worked on in place and is zero now (strict keeps it)", e.what());
        };
        try {
            work();
        } catch (const BudgetError& e) {
            throw BudgetError(lost(e), e.budget_bytes(), e.smallest_bytes());
        } catch (const MachineError& e) {
            throw MachineError(lost(e));
        } catch (const UserError& e) {
            throw UserError(lost(e));
        } catch (...) {
            clear();
            throw;
        }
    }

  private:
    void clear() {
        auto& c = c_->impl();
        parallel_for(c.local_count(), planned_.plan.threads, 1, [&](std::int64_t i) {
            const auto s = c.local_slot(i);
            std::fill_n(c.tile(s), c.elements(s), T(0));
        });
        c.shape = c.shape.with_norms(std::vector<double>(static_cast<std::size_t>(c.shape.tile_count())));
    }

    Tensor<T>* c_;
    const PlannedContraction::Impl& planned_;
};

}  // namespace

template <Scalar T>
Executed<T> execute_prepared(const PlannedContraction::Impl& planned, const PreparedOperands<T>& operands,
                             Tensor<T>* old, const TileConsumer<T>* consume, const Watch& watch) {
    const Plan& plan = planned.plan;
    Communicator& ranks = *planned.ranks;
    const double begin = now_seconds();
    const bool devices = plan.devices_per_rank > 0, adds = old && planned.options.beta != 0.0;
    // Results that devices hand over tile by tile are never stored.
    const bool hand_over = consume && devices && plan.homes_c.empty();
    if (planned.too_large && !hand_over) std::rethrow_exception(planned.too_large);

    Executed<T> out;
    out.report = planned_figures(planned);
    MemoryBudget budget(planned.here.memory > 0 ? planned.here.memory : MemoryBudget::kUnlimited);
    const auto& mine = plan.rank_counts[static_cast<std::size_t>(ranks.rank())];
    std::unique_ptr<typename Tensor<T>::Impl> impl;
    // An operand that is C is read until the end; and this C may have other tiles than that of the plan.
    const bool is_operand = old && (operands.a->stored == old || operands.b->stored == old);
    const bool has_tiles =
        old && planned.in_place && plan.c.same_tiles(old->tiles()) && old->placement().devices.empty();
    InPlace<T> place(has_tiles && !is_operand ? old : nullptr, planned);
    ExecuteCounts counts;
    const bool stays = !plan.homes_c.empty();
    Placement where(ranks, plan.distribution_c);
    if (stays) where.devices = planned.here.devices;
    std::optional<Tensor<T>> moved;
    const Tensor<T>* from = adds ? &old_where_it_is_added(plan, where, *old, moved) : nullptr;
    const auto work = [&] {
        budget.take(mine.stored_a + mine.stored_b + plan.other_bytes, "operands");
        const bool counts_one = !adds || planned.one_c;
        if (place && counts_one) budget.take(mine.stored_c, "result");
        if (planned.in_place && !has_tiles && counts_one) budget.take(old->tile_bytes(), "the old C");
        if (!hand_over && !place)
            impl = std::make_unique<typename Tensor<T>::Impl>(plan.c, where, planned.result_places, &budget, "result");
        std::vector<double> norms(static_cast<std::size_t>(plan.c.tile_count()));
        TileSink<T> sink;
        auto* result = place ? &place.impl() : impl.get();
        sink.tile = [&](std::int64_t slot) { return result->tile(slot); };
        if (adds)
            sink.old_tile = [&](std::int64_t slot) -> const T* {
                const auto s = from->tiles().find(plan.c.tile(slot));
                return s ? from->impl().tile(*s) : nullptr;
            };
        if (stays) {
            sink.device_tile = [&](std::int64_t slot) { return impl->device_tile(slot); };
            if (adds)
                sink.old_device_tile = [&](std::int64_t slot) -> const T* {
                    const auto s = from->tiles().find(plan.c.tile(slot));
                    return s ? from->impl().device_tile(*s) : nullptr;
                };
        }
        sink.finished = [&](std::int64_t slot, double norm) { norms[slot] = norm; };
        if (place && adds)  // each tile is summed elsewhere, and C read, before it is written
            sink.consume = [&](std::int64_t slot, std::span<const T> tile, double norm) {
                std::copy(tile.begin(), tile.end(), result->tile(slot));
                norms[slot] = norm;
            };
        if (hand_over)
            sink.consume = [&](std::int64_t slot, std::span<const T> tile, double norm) {
                norms[slot] = norm;
                (*consume)(slot, tile, norm);
            };
        ExecuteOptions<T> how;
        how.alpha = scalar_of<T>(planned.options.alpha, "alpha");
        how.beta = scalar_of<T>(planned.options.beta, "beta");
        how.conjugate_a = planned.options.conjugates(0);
        how.conjugate_b = planned.options.conjugates(1);
        how.budget = &budget;
        how.budget_results = place && adds;
        how.layouts = planned.layouts.get();
        how.progress = watch.on_progress;
        const SeenTiles<T> seen_a(plan.views_a, *operands.a, plan.filter > 0),
            seen_b(plan.views_b, *operands.b, plan.filter > 0);
        const auto &a = seen_a.source, &b = seen_b.source;
        if (planned.direct && !hand_over) {
            auto& store = device_store(planned.here.devices[0]);
            const auto needed = store.used_bytes() + plan.device_counts.front().peak_bytes;
            if (const auto most = planned.here.device_memory; most > 0 && needed > most)
                throw BudgetError(
                    fmt::format("a device memory of {} ({} bytes) is less than tensors and work there take: {} "
                                "({} bytes)",
                                format_bytes(most), most, format_bytes(needed), needed),
                    most, needed);
            const auto base = [](const typename Tensor<T>::Impl& x) -> const void* {
                return x.device.empty() ? nullptr : x.device[0].get();
            };
            planned.direct->run(plan, store,
                                {base(operands.a->stored->impl()), base(operands.b->stored->impl()), base(*impl)}, a, b,
                                sink, how);
            out.report.copied_bytes = plan.counts.copied_bytes;
            out.report.peak_device_bytes = needed;
        } else if (devices) {
            DeviceOptions on;
            if (plan.resident())
                for (const int d : planned.here.devices) on.stores.push_back(&device_store(d));
            on.memory = planned.here.device_memory;
            on.ranks = &ranks;
            on.trace = watch.trace;
            add_devices(out.report, counts,
                        execute_devices(plan, ranks.rank(), planned.here.devices, a, b, sink, how, on));
        } else {
            const auto multiply = [&] { counts = execute(plan, ranks, a, b, sink, how); };
            if (ranks.size() == 1)
                place.guard(multiply);
            else
                multiply();
            out.report.threads = counts.threads;
        }
        if (!consume) {
            result->set_norms(std::move(norms));
            if (stays) result->put_off_norms();
            if (!place) impl->buffer.leave_budget();
            return;
        }
        if (stays) norms = norms_of_tiles<T>(*impl);
        if (!hand_over)
            parallel_for(plan.c.tile_count(), plan.threads, 1, [&](std::int64_t slot) {
                if (!impl->is_local(slot)) return;
                const auto n = static_cast<std::size_t>(impl->elements(slot));
                if (impl->home(slot) < 0) return (*consume)(slot, {impl->tile(slot), n}, norms[slot]);
                std::vector<T> tile(n);
                impl->store(impl->home(slot))
                    .copy_out(tile.data(), impl->device_tile(slot), static_cast<std::int64_t>(n * sizeof(T)));
                (*consume)(slot, tile, norms[slot]);
            });
        out.handed_over = plan.c.with_norms(std::move(norms));
        impl = nullptr;
    };
    // A rank that fails makes all fail, also those that are done.
    if (ranks.size() == 1)
        together(ranks, work);
    else
        place.guard([&] { together(ranks, work); });
    auto& report = out.report;
    report.peak_host_bytes = largest_on_all(ranks, std::max(budget.peak(), planned.reducing));
    join_ranks(report, counts, ranks);
    if (devices) add_trace(report, watch.trace, ranks);
    if (!consume) {
        out.tensor = place ? std::move(*old) : Tensor<T>(std::move(impl));
        if (plan.filter > 0 && !plan.shape_given) out.tensor = drop_small(std::move(out.tensor), plan, report);
        // Small results of long sums, and those of several ranks, are summed up on hosts.
        if (planned.result_stays && !stays) out.tensor = to_devices(out.tensor, planned.here.devices);
    }
    report.execute_seconds = now_seconds() - begin;
    return out;
}

namespace {

template <Scalar T>
Executed<T> execute_checked(const PlannedContraction& planned, const ContractOperand<T>& a, const ContractOperand<T>& b,
                            Tensor<T>* old, const TileConsumer<T>* consume, const Watch& watch) {
    const auto& p = planned.impl();
    settle_norms(p.options, a, b, old);
    require_operands(p, a, b, old);
    return execute_prepared(p, PreparedOperands<T>(p.spec, a, b, p.options.bounds, p.here.threads, *p.ranks), old,
                            consume, watch);
}

}  // namespace

template <Scalar T>
Contraction<T> execute(const PlannedContraction& planned, const std::type_identity_t<ContractOperand<T>>& a,
                       const std::type_identity_t<ContractOperand<T>>& b, const Watch& watch) {
    auto ran = execute_checked<T>(planned, a, b, nullptr, nullptr, watch);
    return {std::move(ran.tensor), std::move(ran.report)};
}

template <Scalar T>
ConsumedContraction execute_each(const PlannedContraction& planned, const std::type_identity_t<ContractOperand<T>>& a,
                                 const std::type_identity_t<ContractOperand<T>>& b,
                                 const std::type_identity_t<TileConsumer<T>>& sink, const Watch& watch) {
    require(static_cast<bool>(sink), "there is no function to hand the tiles to");
    require(planned.plan().filter == 0, "filter {}: a result that is handed over tile by tile cannot be filtered",
            planned.plan().filter);
    auto ran = execute_checked<T>(planned, a, b, nullptr, &sink, watch);
    return {std::move(ran.handed_over), std::move(ran.report)};
}

template <Scalar T>
ContractReport execute_into(const PlannedContraction& planned, const std::type_identity_t<ContractOperand<T>>& a,
                            const std::type_identity_t<ContractOperand<T>>& b, Tensor<T>& c, const Watch& watch) {
    auto ran = execute_checked<T>(planned, a, b, &c, nullptr, watch);
    c = std::move(ran.tensor);
    return std::move(ran.report);
}

#define TESSERA_INSTANTIATE(T)                                                                                        \
    template Executed<T> execute_prepared(const PlannedContraction::Impl&, const PreparedOperands<T>&, Tensor<T>*,    \
                                          const TileConsumer<T>*, const Watch&);                                      \
    template void require_operands(const PlannedContraction::Impl&, const ContractOperand<T>&,                        \
                                   const ContractOperand<T>&, const Tensor<T>*);                                      \
    template Contraction<T> execute<T>(const PlannedContraction&, const std::type_identity_t<ContractOperand<T>>&,    \
                                       const std::type_identity_t<ContractOperand<T>>&, const Watch&);                \
    template ConsumedContraction execute_each<T>(                                                                     \
        const PlannedContraction&, const std::type_identity_t<ContractOperand<T>>&,                                   \
        const std::type_identity_t<ContractOperand<T>>&, const std::type_identity_t<TileConsumer<T>>&, const Watch&); \
    template ContractReport execute_into<T>(                                                                          \
        const PlannedContraction&, const std::type_identity_t<ContractOperand<T>>&,                                   \
        const std::type_identity_t<ContractOperand<T>>&, Tensor<T>&, const Watch&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
