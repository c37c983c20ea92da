// The inspector's front: builds the candidates, costs each by its own counted traffic and by simulation, keeps the
// cheapest.

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"
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

/// Times this close are equal as far as a simulation can tell: then fewer bytes win, whose cost on a busy machine
/// (cores that copy them) it does not know.
constexpr double kSame = 0.05;

bool better(const PlanCandidate& x, const PlanCandidate& y) {
    const double gap = kSame * std::min(x.seconds_predicted, y.seconds_predicted);
    if (std::abs(x.seconds_predicted - y.seconds_predicted) > gap) return x.seconds_predicted < y.seconds_predicted;
    return x.bytes_sent != y.bytes_sent ? x.bytes_sent < y.bytes_sent : x.seconds_predicted < y.seconds_predicted;
}

}  // namespace

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

    if (request.algorithm != "auto") {
        const auto it = std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                                     [&](const auto& a) { return request.algorithm == a.first; });
        const auto assignment = it->second(in);
        require(assignment.possible, "algorithm '{}' cannot do '{}': {}", request.algorithm, request.spec->text(),
                assignment.reason);
        auto plan = write_plan(in, assignment);
        plan.candidates = {{assignment.algorithm, "asked for", plan.counts.sent_bytes, 0, true, true}};
        return plan;
    }
    if (machine.ranks == 1) {
        auto plan = write_plan(in, of_one_rank(in));
        plan.candidates = {{plan.algorithm, plan.reason, 0, 0, true, true}};
        return plan;
    }

    std::vector<PlanCandidate> candidates;
    Plan best;
    std::size_t taken = 0;  // of the candidates
    std::string refused;
    std::int64_t smallest = INT64_MAX;
    bool found = false;
    for (const auto& [name, make] : kAlgorithms) {
        const auto assignment = make(in);
        PlanCandidate c{assignment.algorithm, assignment.reason, 0, 0, false, assignment.possible};
        if (assignment.possible) try {
                auto plan = write_plan(in, assignment);
                c.bytes_sent = plan.counts.sent_bytes;
                c.seconds_predicted = simulate(plan, machine).seconds;
                if (!found || better(c, candidates[taken])) {
                    found = true;
                    taken = candidates.size();
                    best = std::move(plan);
                }
            } catch (const BudgetError& e) {
                c.possible = false;
                c.reason = "does not fit the memory";
                if (e.smallest_bytes() < smallest) {
                    smallest = e.smallest_bytes();
                    refused = e.what();
                }
            }
        candidates.push_back(std::move(c));
    }
    if (!found) throw BudgetError(refused, request.host_memory, smallest);
    candidates[taken].chosen = true;
    best.candidates = std::move(candidates);
    return best;
}

}  // namespace tessera
