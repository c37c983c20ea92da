// The inspector's front: builds the candidates, costs each by its own counted traffic and by simulation, keeps the
// cheapest.

#include <algorithm>
#include <array>
#include <cmath>
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
        const auto assignment = it->second(in);
        require(assignment.possible, "algorithm '{}' cannot do '{}': {}", request.algorithm, request.spec->text(),
                assignment.reason);
        auto plan = write_plan(in, assignment);
        if (plan.candidates.empty())
            plan.candidates = {{assignment.algorithm, "asked for", plan.counts.sent_bytes, 0, true, true}};
        return plan;
    }
    if (machine.ranks == 1) {
        auto plan = write_plan(in, of_one_rank(in));
        if (plan.candidates.empty()) plan.candidates = {{plan.algorithm, plan.reason, 0, 0, true, true}};
        return plan;
    }

    std::vector<PlanCandidate> candidates;
    std::vector<Kept> kept;
    std::string refused;
    std::int64_t smallest = INT64_MAX;
    for (const auto& [name, make] : kAlgorithms) {
        const auto assignment = make(in);
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
                if (e.smallest_bytes() < smallest) {
                    smallest = e.smallest_bytes();
                    refused = e.what();
                }
            }
        candidates.push_back(std::move(c));
        const auto shortest = shortest_of(candidates);
        std::erase_if(kept, [&](const Kept& k) { return !as_short(candidates[k.candidate], shortest); });
    }
    if (kept.empty()) throw BudgetError(refused, request.host_memory, smallest);
    const auto taken = cheapest(candidates);
    auto best = std::find_if(kept.begin(), kept.end(), [&](const Kept& k) { return k.candidate == taken; });
    best->plan.decided = choose(candidates, taken);
    best->plan.candidates = std::move(candidates);
    return std::move(best->plan);
}

}  // namespace tessera
