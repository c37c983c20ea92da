#include "contract/given_plan.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

bool same_tiles(const Shape& x, const Shape& y) {
    return x.grid() == y.grid() && std::ranges::equal(x.ordinals(), y.ordinals());
}

void same_operand(const char* name, const Shape& planned, const Shape& now, bool norms) {
    require(planned.grid() == now.grid(), "the given plan is for {} with other tilings", name);
    require(same_tiles(planned, now), "the given plan is for {} with {} tiles, not these {}", name,
            planned.tile_count(), now.tile_count());
    require(!norms || planned == now, "the given plan is for {} with other norms, which the filter looks at", name);
}

template <class X>
void same(const char* name, const X& planned, const X& now) {
    require(planned == now, "the given plan is for {} {}, not {}", name, planned, now);
}

void fits(const char* name, std::int64_t needs, std::int64_t limit) {
    if (limit > 0 && needs > limit)
        throw BudgetError(fmt::format("the given plan needs {} bytes of {}, the budget is {}", needs, name, limit),
                          limit, needs);
}

}  // namespace

void require_plan_of(const Plan& plan, const PlanRequest& r, const MachineModel& machine) {
    same<std::string>("spec", plan.spec, r.spec->text());
    same_operand("A", plan.a, *r.a, r.screening.filter > 0);
    same_operand("B", plan.b, *r.b, r.screening.filter > 0);
    require(plan.scalar == r.scalar, "the given plan is for another scalar type");
    require(plan.source_a == r.source_a && plan.source_b == r.source_b,
            "the given plan is for operands that are stored or made elsewhere");
    same("ranks:", plan.ranks, machine.ranks);
    same("threads:", plan.threads, machine.threads_per_rank);
    same("devices of a rank:", plan.devices_per_rank, machine.devices_per_rank);
    same("a filter of", plan.filter, r.screening.filter);
    if (plan.filter > 0) {
        same("alpha of magnitude", plan.alpha_magnitude, r.screening.alpha_magnitude);
        same("beta of magnitude", plan.beta_magnitude, r.screening.beta_magnitude);
        require(!r.accumulate || plan.added == *r.accumulate, "the given plan is for another C to add to");
    }
    if (machine.ranks > 1)
        require((!r.distribution_a || plan.distribution_a == *r.distribution_a) &&
                    (!r.distribution_b || plan.distribution_b == *r.distribution_b) &&
                    (!r.distribution_c || plan.distribution_c == *r.distribution_c),
                "the given plan is for another distribution over the ranks");
    const auto* given = r.screening.given;
    require(plan.shape_given == (given != nullptr) && (!given || same_tiles(plan.c, *given)),
            "the given plan is for another result shape");
    require(!r.accumulate || std::ranges::includes(plan.c.ordinals(), r.accumulate->ordinals()),
            "the given plan's result lacks tiles of C");
    require(r.other_bytes <= plan.other_bytes, "the given plan leaves {} bytes for the old C and originals, not {}",
            plan.other_bytes, r.other_bytes);
    fits("host memory", plan.counts.peak_host_bytes, r.host_memory);
    if (plan.devices_per_rank > 0)
        fits("device memory", device_budget_for(plan.counts.peak_device_bytes), r.device_memory);
}

}  // namespace tessera
