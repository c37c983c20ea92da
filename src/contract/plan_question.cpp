// From shapes and options to a plan: one place builds the planner's request, for the machine at hand or a described
// one.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "contract/machine_for.hpp"
#include "contract/planned_impl.hpp"
#include "contract/reduce.hpp"
#include "execute/device/execute_devices.hpp"
#include "inspect/build_plan.hpp"
#include "shape/fold.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera {

namespace {

std::string describe(const Shape& shape, bool norms) {
    std::uint64_t h = 0;
    for (auto o : shape.ordinals()) h = combine(h, static_cast<std::uint64_t>(o));
    if (norms)
        for (auto n : shape.norms()) h = combine(h, std::bit_cast<std::uint64_t>(n));
    return fmt::format("{} with {} tiles ({:016x}){}{}", to_string(shape.grid()), shape.tile_count(), h,
                       shape.symmetry().none() ? "" : ", ", shape.symmetry().text());
}

std::string describe(const std::optional<Distribution>& distribution) {
    return distribution ? to_string(*distribution) : "default";
}

std::string describe(const std::vector<IndexBounds>& bounds) {
    std::string text;
    for (const auto& b : bounds) text += fmt::format("{}{} {}..{}", text.empty() ? "" : ", ", b.label, b.lo, b.hi);
    return text.empty() ? "none" : text;
}

std::string origin(const OperandShape& x) {
    if (x.source == SourceKind::stored) return "stored, on " + describe(x.distribution);
    return x.source == SourceKind::host_made ? "made by cores" : "made by devices";
}

/// Ranks that call with different things would build different plans.
void require_same_call(Communicator& ranks, const PlanQuestion& q, const Resources& here) {
    if (ranks.size() == 1) return;
    const auto& o = q.options;
    const auto& p = q.how.parameters;
    const auto number = [](const auto& x) { return x ? fmt::format("{}", *x) : std::string("default"); };
    require_same_on_all(
        ranks, {{"the spec", q.spec.text()},
                {"the shape of A", describe(*q.a.shape, o.filter > 0)},
                {"the shape of B", describe(*q.b.shape, o.filter > 0)},
                {"the shape of C", q.c ? describe(*q.c->shape, o.filter > 0) : "none"},
                {"the origin of A", origin(q.a)},
                {"the origin of B", origin(q.b)},
                {"the origin of C", q.c ? origin(*q.c) : "none"},
                {"alpha", fmt::format("{} + {}i", o.alpha.real(), o.alpha.imag())},
                {"beta", fmt::format("{} + {}i", o.beta.real(), o.beta.imag())},
                {"conjugation of A and B", fmt::format("{} {}", o.conjugates(0), o.conjugates(1))},
                {"the result's distribution", describe(o.result_distribution)},
                {"bounds", describe(o.bounds)},
                {"the result's symmetry", o.result_symmetry.text()},
                {"folding", o.fold ? "asked for" : "not asked for"},
                {"filter", fmt::format("{}", o.filter)},
                {"the given result shape", o.result_shape ? describe(*o.result_shape, false) : "none"},
                {"a machine file", here.machine.empty() ? "none" : "given"},
                {"device memory", fmt::format("{}", here.device_memory)},
                {"the number of devices", fmt::format("{}", here.devices.size())},
                {"algorithm", name(q.how.algorithm)},
                {"grid", fmt::format("{}x{}", q.how.grid_rows, q.how.grid_cols)},
                {"deal", name(q.how.deal)},
                {"blocks", name(q.how.blocks)},
                {"parameters",
                 fmt::format("{} {} {}x{} {} {}", number(p.block_share), number(p.chunk_share), number(p.block_rows),
                             number(p.block_cols), number(p.depth), number(p.lookahead))}});
}

/// Of the tiles that this device has.
std::int64_t bytes_at_home(const Shape& shape, const std::vector<std::int16_t>& homes, int device, ScalarKind scalar) {
    std::int64_t bytes = 0;
    for (std::size_t s = 0; s < homes.size(); ++s)
        if (homes[s] == device)
            bytes += align_up(shape.grid().tile_elements(shape.tile(static_cast<std::int64_t>(s))) * bytes_of(scalar));
    return bytes;
}

/// Bytes that the tiles of an operand take on this rank; where nobody said on which rank they are, as dealt by
/// `likely`.
std::int64_t stored_bytes(const OperandShape& x, ScalarKind scalar, const Communicator& ranks,
                          const Distribution& likely) {
    if (x.source != SourceKind::stored) return 0;
    if (ranks.size() == 1) {
        auto bytes = tile_storage_bytes(*x.shape, bytes_of(scalar));
        for (std::size_t d = 0; d < x.devices.size(); ++d)
            bytes -= bytes_at_home(*x.shape, x.homes, static_cast<int>(d), scalar);
        return bytes;
    }
    return tile_storage_bytes(*x.shape, bytes_of(scalar), x.distribution ? *x.distribution : likely, ranks.rank());
}
std::int64_t stored_bytes(const OperandShape& x, ScalarKind scalar, const Communicator& ranks) {
    return stored_bytes(x, scalar, ranks, Distribution::even(x.shape->grid(), ranks.size()));
}

/// Bytes on this rank that a bounded operand takes besides the tiles that are kept: those left out, and copies.
std::int64_t bounds_bytes(const PlanQuestion& q, int n, const Communicator& ranks) {
    const auto& parts = q.bounds[static_cast<std::size_t>(n)];
    if (!parts.whole) return 0;
    const auto& x = n == 0 ? q.a : q.b;
    const auto bytes = [&](const Shape& shape) {
        return stored_bytes({shape, x.source, x.distribution}, q.scalar, ranks);
    };
    return bytes(*parts.whole) - bytes(*parts.kept) + bytes(q.spec.needs_reduction(n) ? *parts.kept : *parts.cut);
}

/// An operand as the product sees it.
struct Reduced {
    std::optional<Shape> made;  // where it is not the operand itself
    WholeShape whole;           // of one with symmetry
    OperandShape operand;
    SourceKind given = SourceKind::stored;  // of the operand itself, where it is another; cores reduce it

    Reduced(const PlanQuestion& q, int n, int ranks) : operand(n == 0 ? q.a : q.b) {
        if (!operand.shape->symmetry().none()) {
            whole = whole_shape(*operand.shape);
            if (n == 0 && q.options.fold) whole = folded(q.spec, std::move(whole), q.b.shape->symmetry());
            operand.shape = &whole.shape;
        }
        if (!q.spec.needs_reduction(n)) return;
        const auto in = q.spec.labels(n), out = q.spec.reduced_labels(n);
        made = reduced_shape(*operand.shape, in, out);
        if (operand.source != SourceKind::stored) given = SourceKind::host_made;
        const auto where = reduce_placement(operand.shape->grid(), in, out, ranks).result;
        OperandShape reduced{*made, SourceKind::stored, ranks > 1 ? std::optional(where) : std::nullopt};
        if (!operand.homes.empty()) {
            reduced.devices = operand.devices;
            reduced.homes = reduced_homes(*operand.shape, operand.homes, in, out);
        }
        operand = std::move(reduced);
    }
    const TileViews* views() const { return whole.views.empty() ? nullptr : &whole.views; }
    SourceKind source() const { return made ? given : operand.source; }
    Reduced(const Reduced&) = delete;
    Reduced& operator=(const Reduced&) = delete;
};

/// The one place that builds a request.
PlanRequest request_of(const PlanQuestion& q, const ContractionSpec& reduced, const Reduced& a, const Reduced& b,
                       const PlanBudget& budget, int threads) {
    PlanRequest request;
    request.spec = &reduced;
    request.a = a.operand.shape;
    request.b = b.operand.shape;
    request.views_a = a.views();
    request.views_b = b.views();
    request.source_a = a.operand.source;
    request.source_b = b.operand.source;
    request.scalar = q.scalar;
    request.distribution_a = a.operand.distribution;
    request.distribution_b = b.operand.distribution;
    request.distribution_c = q.c && q.c->distribution ? q.c->distribution : q.options.result_distribution;
    request.screening = {q.options.filter, q.alpha_magnitude, q.options.result_shape};
    request.screening.beta_magnitude = q.beta_magnitude;
    request.screening.symmetry = q.options.result_symmetry;
    if (q.c && q.beta_magnitude != 0 && !q.options.result_shape) request.accumulate = q.c->shape;
    request.host_memory = budget.host_bytes;
    request.device_memory = budget.device_bytes;
    request.how = q.how;
    request.planning_memory = memory_bytes();
    request.planning_threads = resolve_threads(threads);
    return request;
}

/// Tiles of A, and tiles of B in another order than devices multiply, are made by the cores.
void settle_sources(OperandShape& a, OperandShape& b, const ContractionSpec& reduced, bool devices) {
    if (a.source == SourceKind::device_made) a.source = SourceKind::host_made;
    if (b.source == SourceKind::device_made && !(devices && device_can_make(reduced, Operand::b)))
        b.source = SourceKind::host_made;
}

std::shared_ptr<const TilePlaces> places_for(ScalarKind scalar, const Shape& c, const Placement& where,
                                             const std::vector<std::int16_t>& homes) {
    switch (scalar) {
        case ScalarKind::f32:
            return tile_places<float>(c, where, homes);
        case ScalarKind::f64:
            return tile_places<double>(c, where, homes);
        case ScalarKind::c64:
            return tile_places<std::complex<float>>(c, where, homes);
        case ScalarKind::c128:
            break;
    }
    return tile_places<std::complex<double>>(c, where, homes);
}

/// The devices that are asked for; where none are, those that tensors live on.
Resources with_devices(const PlanQuestion& q, const Resources& here) {
    auto out = here;
    if (!out.devices.empty()) return out;
    for (const auto* x : {&q.a, &q.b, q.c ? &*q.c : nullptr})
        for (const int d : x ? x->devices : std::vector<int>{})
            if (std::find(out.devices.begin(), out.devices.end(), d) == out.devices.end()) out.devices.push_back(d);
    return out;
}

/// Whether the result stays on devices.
bool result_stays(const PlanQuestion& q, const Resources& here) {
    const bool symmetric = !q.options.result_symmetry.none();
    if (const auto& asked = q.options.result_on_devices) {
        require(!*asked || !symmetric, "the result is to stay on devices, but has the symmetry '{}', which hosts store",
                q.options.result_symmetry.text());
        require(!*asked || !here.devices.empty(), "the result is to stay on devices, but there are none");
        return *asked;
    }
    if (q.c) return !q.c->devices.empty();
    if (symmetric) return false;
    const auto on_host = [](const OperandShape& x) { return x.source == SourceKind::stored && x.devices.empty(); };
    return !(q.a.devices.empty() && q.b.devices.empty()) && !on_host(q.a) && !on_host(q.b);
}

struct Built {
    Plan plan;
    std::exception_ptr too_large;  // why the result cannot be stored; null where it can
};

/// Operands and a result of a given shape that are more than all ranks may hold, however they are dealt: no plan can
/// store that result.
bool surely_too_large(const PlanRequest& r, const MachineModel& machine) {
    if (!r.screening.given || r.host_memory <= 0) return false;
    std::int64_t bytes = tile_storage_bytes(*r.screening.given, bytes_of(r.scalar));
    if (r.source_a == SourceKind::stored) bytes += tile_storage_bytes(*r.a, bytes_of(r.scalar));
    if (r.source_b == SourceKind::stored) bytes += tile_storage_bytes(*r.b, bytes_of(r.scalar));
    return bytes / machine.ranks > r.host_memory;
}

/// A result that devices hand over tile by tile takes no room on the host: where it does not fit beside the operands,
/// perhaps the rest does.
template <class Room>
Built build(PlanRequest request, const MachineModel& machine, bool may_hand_over, const Room& require_room) {
    const auto limit = request.host_memory;
    const bool plan_once = may_hand_over && surely_too_large(request, machine);
    std::exception_ptr too_large;
    if (!plan_once) {
        try {
            Built out{build_plan(request, machine), nullptr};
            require_room(out.plan, false);
            return out;
        } catch (const MachineError&) {
            if (!may_hand_over) throw;
            too_large = std::current_exception();
        }
    }
    request.host_memory = 0;
    Built out{build_plan(request, machine), too_large};
    const auto& n = out.plan.counts;
    if (plan_once)
        out.too_large = std::make_exception_ptr(BudgetError(
            fmt::format("a host memory of {} ({} bytes) is too small for '{}': the smallest that works is {} ({} "
                        "bytes)",
                        format_bytes(limit), limit, out.plan.spec, format_bytes(n.peak_host_bytes), n.peak_host_bytes),
            limit, n.peak_host_bytes));
    for (const auto& rank : out.plan.rank_counts)
        if (limit > 0 && rank.peak_bytes - rank.stored_c > limit) std::rethrow_exception(out.too_large);
    require_room(out.plan, true);
    return out;
}

/// Whether the result may be worked on where C lies. A C that is added to must be there until each of its tiles is
/// summed elsewhere: where that is done in one go, and a second C is worth saving.
constexpr std::int64_t kWorthIt = 1 << 20;
bool works_in_place(const Plan& plan, const OperandShape& c, bool adds) {
    if (!plan.c.same_tiles(*c.shape) || (plan.ranks > 1 && c.distribution != plan.distribution_c)) return false;
    return !adds || (plan.counts.bytes_c > kWorthIt &&
                     std::all_of(plan.chains.begin(), plan.chains.end(),
                                 [](const PlanChain& ch) { return ch.starts && ch.finishes; }));
}

/// What tiles take that are summed beside a C in place: those of a step, for each thread.
std::int64_t bytes_beside(const Plan& plan) {
    std::int64_t most = 0;
    for (const auto& s : plan.steps) {
        if (s.kind != StepKind::compute) continue;
        std::int64_t bytes = 0;
        for (auto i = s.begin; i < s.end; ++i)
            bytes += align_up(plan.c.grid().tile_elements(plan.c.tile(plan.sums[plan.chains[i].sum].c)) *
                              bytes_of(plan.scalar));
        most = std::max(most, bytes);
    }
    return plan.threads * most;
}

}  // namespace

namespace {

void check_symmetry(const PlanQuestion& q, const TileGrid& result) {
    for (int n : {0, 1}) {
        const auto& x = n == 0 ? q.a : q.b;
        const auto& symmetry =
            (q.bounds[static_cast<std::size_t>(n)].whole ? q.bounds[static_cast<std::size_t>(n)].whole.get() : x.shape)
                ->symmetry();
        if (symmetry.none()) continue;
        const auto refuse = [&](const char* why) {
            user_error("spec '{}': {} has the symmetry '{}', and {}: desymmetrise it first", q.spec.text(),
                       n == 0 ? "A" : "B", symmetry.text(), why);
        };
        if (x.source != SourceKind::stored) refuse("is made on demand");
        if (q.spec.needs_reduction(n)) refuse("a diagonal or a sum of its own is taken");
        if (!q.options.bounds.empty()) refuse("there are bounds");
    }
    const auto& wanted = q.options.result_symmetry;
    wanted.require_fits(result);
    const auto meet = [&](const Shape* x, const char* what) {
        if (x && !(x->symmetry() == wanted))
            user_error("spec '{}': the result has the symmetry '{}', {} has '{}'", q.spec.text(), wanted.text(), what,
                       x->symmetry().text());
    };
    meet(q.options.result_shape, "the given result shape");
    meet(q.c ? q.c->shape : nullptr, "C");
}

}  // namespace

std::vector<std::int16_t> homes_among(const char* operand, const std::vector<int>& own,
                                      const std::vector<std::int16_t>& homes, const std::vector<int>& devices) {
    if (own.empty() || own == devices) return homes;
    std::vector<std::int16_t> number;
    for (const int d : own) {
        const auto it = std::find(devices.begin(), devices.end(), d);
        require(it != devices.end(), "{} is on device {}, which is not among those of the contraction", operand, d);
        number.push_back(static_cast<std::int16_t>(it - devices.begin()));
    }
    auto out = homes;
    for (auto& h : out)
        if (h >= 0) h = number[static_cast<std::size_t>(h)];
    return out;
}

void check_question(const PlanQuestion& q, const Resources& here) {
    if (q.spec.operand_count() != 2) user_error("spec '{}': has one operand, but two were given", q.spec.text());
    const TileGrid grid = q.spec.result_grid(q.a.shape->grid(), q.b.shape->grid());
    require(q.options.filter >= 0 && std::isfinite(q.options.filter), "filter {} is not a finite number >= 0",
            q.options.filter);
    require(here.memory >= 0, "memory budget {} is negative", here.memory);
    require(here.device_memory >= 0, "device memory budget {} is negative", here.device_memory);
    require(here.device_memory == 0 || !here.devices.empty(), "device memory budget {}: there are no devices",
            here.device_memory);
    require_conjugate(q.options, 2, q.spec.text());
    if (q.c) require_like_result(q.spec, q.c->shape->grid(), grid);
    check_symmetry(q, grid);
}

std::int64_t require_room_to_reduce(const PlanQuestion& q, const Resources& here, Communicator& ranks) {
    if (!q.reduces()) return q.reducing;
    std::int64_t there = q.held_bytes + (q.c ? stored_bytes(*q.c, q.scalar, ranks) : 0), peak = 0;
    for (const auto* x : {&q.a, &q.b}) there += stored_bytes(*x, q.scalar, ranks);
    for (int n : {0, 1}) there += bounds_bytes(q, n, ranks);
    for (int n : {0, 1}) {
        if (!q.spec.needs_reduction(n)) continue;
        const auto& x = n == 0 ? q.a : q.b;
        const auto in = q.spec.labels(n), out = q.spec.reduced_labels(n);
        const auto wanted = reduce_placement(x.shape->grid(), in, out, ranks.size()).x;
        const auto* where = x.source != SourceKind::stored ? nullptr : x.distribution ? &*x.distribution : &wanted;
        const auto bytes = reduce_bytes(*x.shape, where, bytes_of(q.scalar), in, out, ranks);
        there += bytes.result;
        if (bytes.copy > 0) peak = std::max(peak, there + bytes.copy);
    }
    peak = largest_on_all(ranks, peak);
    if (here.memory > 0 && peak > here.memory)
        throw BudgetError(
            fmt::format(
                "a memory budget of {} ({} bytes) is too small for '{}', whose operands are made as a whole, or "
                "moved, before the product: that alone takes {} ({} bytes)",
                format_bytes(here.memory), here.memory, q.spec.text(), format_bytes(peak), peak),
            here.memory, peak);
    return peak;
}

/// Ranks may have unequal budgets: all plan for the least. 0 is none.
std::int64_t least_budget(Communicator& ranks, std::int64_t memory) {
    if (ranks.size() == 1) return memory;
    double most[] = {memory > 0 ? -static_cast<double>(memory) : -HUGE_VAL};
    ranks.max(std::span<double>(most));
    return most[0] == -HUGE_VAL ? 0 : static_cast<std::int64_t>(-most[0]);
}

PlannedContraction plan_here(const PlanQuestion& q, const Resources& asked, Communicator& ranks) {
    const double start = now_seconds();
    Resources here = with_devices(q, asked);
    check_question(q, here);
    require_same_call(ranks, q, here);
    here.memory = least_budget(ranks, here.memory);
    if (q.reduces() && q.options.filter != 0)
        user_error(
            "filter {}: spec '{}' takes a diagonal or a sum of an operand first, whose norms are known when "
            "that is done; contract does both",
            q.options.filter, q.spec.text());
    const auto reducing = require_room_to_reduce(q, here, ranks);
    ContractionSpec reduced = q.spec;
    if (q.reduces())
        reduced = ContractionSpec(q.spec.reduced_labels(0) + "," + q.spec.reduced_labels(1) + "->" + q.spec.c());
    Reduced a(q, 0, ranks.size()), b(q, 1, ranks.size());
    const bool devices = !here.devices.empty();
    settle_sources(a.operand, b.operand, reduced, devices);
    if (devices) require_device_extents(reduced, a.operand.shape->grid(), b.operand.shape->grid());

    const double begun = now_seconds();
    const Nodes nodes = nodes_of(ranks);
    auto machine = machine_for(ranks, here, nodes);
    const double away = now_seconds() - begun;  // devices that wake up are not planning
    // Without a budget: what the machine has.
    const PlanBudget budget{here.memory > 0 ? here.memory : machine.host_memory, here.device_memory};
    auto request = request_of(q, reduced, a, b, budget, here.threads);
    const std::int64_t old_c = q.c ? stored_bytes(*q.c, q.scalar, ranks) : 0;
    std::int64_t others = q.held_bytes;
    for (const auto& [x, is] : {std::pair{&q.a, &a}, {&q.b, &b}})
        if (is->made) others += stored_bytes(*x, q.scalar, ranks);
    for (int n : {0, 1}) others += bounds_bytes(q, n, ranks);
    const bool stays = result_stays(q, here);
    const auto homes_a = homes_among("A", a.operand.devices, a.operand.homes, here.devices);
    const auto homes_b = homes_among("B", b.operand.devices, b.operand.homes, here.devices);
    if (!homes_a.empty()) request.homes_a = &homes_a;
    if (!homes_b.empty()) request.homes_b = &homes_b;
    if (stays || request.homes_a || request.homes_b) {
        std::int64_t in_use = 0;
        for (std::size_t d = 0; d < here.devices.size(); ++d) {
            const auto used = device_store(here.devices[d]).used_bytes();
            in_use = std::max(in_use, used);
            const auto own = bytes_at_home(*a.operand.shape, homes_a, static_cast<int>(d), q.scalar) +
                             bytes_at_home(*b.operand.shape, homes_b, static_cast<int>(d), q.scalar);
            request.device_other_bytes = std::max(request.device_other_bytes, used - own);
        }
        machine.device.memory += here.device_memory > 0 ? 0 : in_use;
    }
    const bool may_hand_over = devices && q.options.filter == 0 && !q.c && !stays;
    const auto attempt = [&] {
        return build(request, machine, may_hand_over, [&](const Plan& built, bool handed_over) {
            if (here.memory == 0) require_host_room(built, nodes, handed_over);
        });
    };
    // As much of the result as there is room for: all of it, or so many eighths of the memory.
    const auto build_beside = [&](std::int64_t bytes) {
        request.other_bytes = largest_on_all(ranks, bytes);
        if (!stays || ranks.size() > 1) return attempt();
        request.result_stays = INT64_MAX;
        const auto memory = here.device_memory > 0 ? here.device_memory : machine.device.memory;
        for (const int eighths : {6, 4, 2, 1, 0}) {
            try {
                return attempt();
            } catch (const BudgetError&) {
                request.result_stays = memory / 8 * eighths * static_cast<std::int64_t>(here.devices.size());
            }
        }
        return attempt();
    };
    // A C in place is the only one. Whether it can be is known when the result's tiles are.
    const bool symmetric = !q.a.shape->symmetry().none() || !q.b.shape->symmetry().none() ||
                           !q.options.result_symmetry.none();  // tiles are seen through views of others
    const bool may =
        q.c && q.c->devices.empty() && !q.options.strict && !devices && !stays && !symmetric && q.options.filter == 0;
    bool one_c = false;  // with beta: the budget has no room for a second C, which is not needed
    const auto build_around_c = [&]() -> Built {
        try {
            return build_beside(others + (may && q.beta_magnitude == 0 ? 0 : old_c));
        } catch (const BudgetError&) {
            if (!may || q.beta_magnitude == 0 || ranks.size() > 1) throw;
            std::optional<Built> alone;
            try {
                alone = build_beside(others);
            } catch (const BudgetError&) {
            }
            if (!alone || !works_in_place(alone->plan, *q.c, true) ||
                alone->plan.counts.peak_host_bytes + bytes_beside(alone->plan) > budget.host_bytes)
                throw;
            one_c = true;
            return std::move(*alone);
        }
    };
    auto [plan, too_large] = build_around_c();
    const bool in_place = may && works_in_place(plan, *q.c, q.beta_magnitude != 0);
    if (may && q.beta_magnitude == 0 && !in_place && old_c > 0) {
        auto beside = build_beside(others + old_c);
        plan = std::move(beside.plan);
        too_large = beside.too_large;
    }
#ifndef NDEBUG
    validate(plan, {too_large ? 0 : here.memory, here.device_memory});
#endif
    auto impl = std::make_shared<PlannedContraction::Impl>(
        PlannedContraction::Impl{q.spec, std::move(reduced), std::move(plan), std::nullopt, std::nullopt, here, &ranks,
                                 q.options, q.how, std::move(machine), q.c.has_value(), reducing, too_large,
                                 now_seconds() - start - away, a.source(), b.source()});
    impl->in_place = in_place;
    impl->one_c = one_c;
    if (a.made || a.views()) impl->original_a = *q.a.shape;
    if (b.made || b.views()) impl->original_b = *q.b.shape;
    impl->options.result_shape = nullptr;
    if (!devices) impl->layouts = std::make_unique<PlanLayouts>(impl->plan);
    if (!too_large) {
        Placement where(ranks, impl->plan.distribution_c);
        if (!impl->plan.homes_c.empty()) where.devices = here.devices;
        impl->result_places = places_for(q.scalar, impl->plan.c, where, impl->plan.homes_c);
    }
    impl->result_stays = stays;
    if (is_direct(impl->plan)) impl->direct = std::make_unique<DirectRuns>();
    return PlannedContraction(std::move(impl));
}

PlannedContraction plan_there(const PlanQuestion& q, const MachineModel& machine, const PlanBudget& wanted) {
    const double start = now_seconds();
    check_question(q, {});
    require(!q.reduces(), "spec '{}': takes a diagonal or a sum of an operand first; plan for the spec without it",
            q.spec.text());
    const bool devices = machine.devices_per_rank > 0;
    if (devices && wanted.device_bytes > machine.device.memory)
        throw MachineError(fmt::format(
            "a device of machine {} has {} of memory, but {} are asked for{}", machine.name,
            format_bytes(machine.device.memory * machine.devices_per_gpu), format_bytes(wanted.device_bytes),
            machine.devices_per_gpu > 1 ? fmt::format(" {} times", machine.devices_per_gpu) : ""));
    Reduced a(q, 0, machine.ranks), b(q, 1, machine.ranks);
    settle_sources(a.operand, b.operand, q.spec, devices);
    const PlanBudget budget{wanted.host_bytes > 0 ? wanted.host_bytes : machine.host_memory,
                            devices ? wanted.device_bytes : 0};
    const auto request = request_of(q, q.spec, a, b, budget, 0);
    auto [plan, too_large] = build(request, machine, devices && q.options.filter == 0, [](const Plan&, bool) {});
    auto impl = std::make_shared<PlannedContraction::Impl>(PlannedContraction::Impl{q.spec,
                                                                                    q.spec,
                                                                                    std::move(plan),
                                                                                    std::nullopt,
                                                                                    std::nullopt,
                                                                                    {},
                                                                                    nullptr,
                                                                                    q.options,
                                                                                    q.how,
                                                                                    machine,
                                                                                    false,
                                                                                    0,
                                                                                    too_large,
                                                                                    now_seconds() - start});
    impl->options.result_shape = nullptr;
    return PlannedContraction(std::move(impl));
}

}  // namespace tessera
