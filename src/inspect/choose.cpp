// The inspector's front: builds the candidates, costs each by its own counted traffic and by simulation, keeps the
// cheapest.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>

#include "base/check.hpp"
#include "inspect/device_blocks.hpp"
#include "inspect/inspection.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {

namespace {

using Algorithm = Assignment (*)(const Inspection&);
constexpr std::array<std::pair<const char*, Algorithm>, 4> kAlgorithms{{{"stationary_b", stationary_b},
                                                                        {"outer_product", outer_product},
                                                                        {"split_k", split_k},
                                                                        {"replicate_b", replicate_b}}};

/// On one rank nothing travels: what is made on demand decides, else the shape of the work.
Assignment of_one_rank(const Inspection& in) {
    return !in.stored(Operand::b) && (in.stored(Operand::a) || in.request.b->elements() >= in.request.a->elements())
               ? stationary_b(in)
               : outer_product(in);
}

/// A grid that was asked for is taken as it is, or the algorithm is not possible.
Assignment with_its_grid(Assignment out, const PlanRequest& request) {
    if (!out.possible || request.grid_rows == 0 ||
        (out.grid_rows == request.grid_rows && out.grid_cols == request.grid_cols))
        return out;
    out.possible = false;
    out.reason = fmt::format("its grid is {} x {} here, {} x {} is asked for", out.grid_rows, out.grid_cols,
                             request.grid_rows, request.grid_cols);
    return out;
}

/// On one rank the algorithms differ in the order of the work alone: each does the same products, sends nothing and
/// cuts blocks in the same ways. So the others have the figures of the one that is taken.
void list_others(Plan& plan, const MachineModel& machine) {
    const auto over = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
    if (plan.candidates.empty()) {
        const double seconds = over(plan.counts.flops, machine.gemm.flops_per_second) +
                               over(static_cast<double>(plan.counts.made_bytes), machine.make_bytes_per_second);
        plan.candidates = {{plan.algorithm, plan.reason, 0, seconds, true, true}};
    }
    const auto taken = std::find_if(plan.candidates.begin(), plan.candidates.end(), [](auto& c) { return c.chosen; });
    ensure(taken != plan.candidates.end(), "none of {} candidates is chosen", plan.candidates.size());
    taken->bytes_loaded = plan.counts.loaded_bytes;  // blocks are weighed by an estimate; this is what was written
    const auto like = *taken;
    for (const auto& [name, make] : kAlgorithms) {
        if (name == plan.algorithm) continue;
        auto other = like;
        other.algorithm = name;
        other.chosen = false;
        other.reason = "on one rank the same products and bytes, in another order at most";
        plan.candidates.push_back(std::move(other));
    }
    const std::string why = plan.source_b != SourceKind::stored && plan.algorithm == std::string("stationary_b")
                                ? "columns of B in turn, each tile made once"
                                : "rows of A in turn, used while they are in the caches";
    plan.decided =
        (plan.decided.empty() ? "" : plan.decided + "; ") + fmt::format("on one rank none sends anything: {}", why);
}

/// A plan that may still be the one.
struct Kept {
    std::size_t candidate;
    Plan plan;
};

bool as_short(const PlanCandidate& x, double shortest, double same = kSameTime) {
    return x.possible && x.seconds_predicted <= (1 + same) * shortest;
}
double shortest_of(const std::vector<PlanCandidate>& candidates) {
    double seconds = INFINITY;
    for (const auto& c : candidates)
        if (c.possible) seconds = std::min(seconds, c.seconds_predicted);
    return seconds;
}

}  // namespace

std::size_t cheapest(const std::vector<PlanCandidate>& candidates, double same) {
    const auto shortest = shortest_of(candidates);
    const auto cost = [](const PlanCandidate& c) {
        return std::tuple(c.bytes_sent, c.bytes_loaded, c.seconds_predicted);
    };
    std::size_t best = candidates.size();
    for (std::size_t i = 0; i < candidates.size(); ++i)
        if (as_short(candidates[i], shortest, same) &&
            (best == candidates.size() || cost(candidates[i]) < cost(candidates[best])))
            best = i;
    ensure(best < candidates.size(), "none of {} candidates is possible", candidates.size());
    return best;
}

std::string choose(std::vector<PlanCandidate>& candidates, std::size_t chosen, double same) {
    candidates[chosen].chosen = true;
    const auto possible = std::count_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.possible; });
    if (possible == 1)
        return candidates.size() == 1 ? "there is no other way to weigh" : "the only one that is possible";
    const auto shortest = shortest_of(candidates);
    const auto close =
        std::count_if(candidates.begin(), candidates.end(), [&](const auto& c) { return as_short(c, shortest, same); });
    if (close == 1) return "it takes the least time";
    return fmt::format("{} take within {:.0f} % of the least time: of these it moves the fewest bytes", close,
                       100 * same);
}

Plan build_plan(const PlanRequest& request, const MachineModel& machine) {
    std::vector<const char*> names{"auto"};
    for (const auto& [name, make] : kAlgorithms) names.push_back(name);
    require(std::find(names.begin(), names.end(), request.algorithm) != names.end(),
            "algorithm '{}': one of {} is possible", request.algorithm, fmt::join(names, ", "));
    require(machine.ranks >= 1, "a machine of {} ranks", machine.ranks);
    require((request.grid_rows == 0) == (request.grid_cols == 0) && request.grid_rows >= 0 && request.grid_cols >= 0 &&
                (request.grid_rows == 0 || request.grid_rows * request.grid_cols == machine.ranks),
            "a grid of {} x {} for {} ranks", request.grid_rows, request.grid_cols, machine.ranks);
    const Inspection in(request, machine);
    check_parameters(in);

    if (request.algorithm != "auto") {
        const auto it = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                     [&](const auto& a) { return request.algorithm == a.first; });
        const auto assignment = with_its_grid(it->second(in), request);
        require(assignment.possible, "algorithm '{}' cannot do '{}': {}", request.algorithm, request.spec->text(),
                assignment.reason);
        auto plan = write_plan(in, assignment);
        if (plan.candidates.empty())
            plan.candidates = {{assignment.algorithm, "asked for", plan.counts.sent_bytes, 0, true, true}};
        return plan;
    }
    if (machine.ranks == 1) {
        auto plan = write_plan(in, of_one_rank(in));
        list_others(plan, machine);
        return plan;
    }

    std::vector<PlanCandidate> candidates;
    std::vector<Kept> kept;
    std::optional<BudgetError> refused;  // by the candidate that comes closest to its budget
    const auto lacks = [](const BudgetError& e) {
        return static_cast<double>(e.smallest_bytes()) /
               static_cast<double>(std::max<std::int64_t>(1, e.budget_bytes()));
    };
    for (const auto& [name, make] : kAlgorithms) {
        const auto assignment = with_its_grid(make(in), request);
        PlanCandidate c{assignment.algorithm, assignment.reason, 0, 0, false, assignment.possible};
        if (assignment.possible) try {
                auto plan = write_plan(in, assignment);
                c.bytes_sent = plan.counts.sent_bytes;
                c.bytes_loaded = plan.counts.loaded_bytes;
                c.blocks = plan.blocks;
                c.seconds_predicted = simulate(plan, machine).seconds;
                if (as_short(c, shortest_of(candidates))) kept.push_back({candidates.size(), std::move(plan)});
            } catch (const BudgetError& e) {
                c.possible = false;
                c.reason = "does not fit the memory";
                if (!refused || lacks(e) < lacks(*refused)) refused.emplace(e);
            }
        candidates.push_back(std::move(c));
        const auto shortest = shortest_of(candidates);
        std::erase_if(kept, [&](const Kept& k) { return !as_short(candidates[k.candidate], shortest); });
    }
    if (kept.empty() && refused) throw *refused;
    if (kept.empty()) {
        std::string why;
        for (const auto& c : candidates) why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", c.algorithm, c.reason);
        user_error("no algorithm can do '{}' as it is asked for ({})", request.spec->text(), why);
    }
    const auto taken = cheapest(candidates);
    auto best = std::find_if(kept.begin(), kept.end(), [&](const Kept& k) { return k.candidate == taken; });
    best->plan.decided = choose(candidates, taken);
    best->plan.candidates = std::move(candidates);
    return std::move(best->plan);
}

}  // namespace tessera
