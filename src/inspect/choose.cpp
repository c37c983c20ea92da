// The inspector's front: builds the candidates, costs each by its own counted traffic and by simulation, keeps the
// cheapest.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/check.hpp"
#include "inspect/algorithms.hpp"
#include "inspect/device_blocks.hpp"
#include "inspect/rank_costs.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {

namespace {

/// A grid that was asked for is taken as it is, or the algorithm is not possible.
Assignment with_its_grid(Assignment out, const PlanOptions& asked) {
    if (!out.possible || asked.grid_rows == 0 || (out.grid_rows == asked.grid_rows && out.grid_cols == asked.grid_cols))
        return out;
    out.possible = false;
    out.reason = fmt::format("its grid is {} x {} here, {} x {} is asked for", out.grid_rows, out.grid_cols,
                             asked.grid_rows, asked.grid_cols);
    return out;
}

constexpr std::size_t kManyProducts = 100'000;  // a plan of so many takes hundredths of a second to write

/// What is written, simulated and weighed.
struct Way {
    Assignment assignment;
    std::optional<DeviceCut> cut = {};      // the blocks, where one rank has devices
    std::optional<RankCosts> counted = {};  // where ranks have many products
};

/// A plan that may still be the one.
struct Kept {
    std::size_t candidate;
    Plan plan;
};

/// Where some were simulated, those alone are in question.
bool in_question(const PlanCandidate& x, const std::vector<PlanCandidate>& all) {
    return x.possible && (x.simulated || std::none_of(all.begin(), all.end(), [](auto& c) { return c.simulated; }));
}
double shortest_of(const std::vector<PlanCandidate>& candidates) {
    double seconds = INFINITY;
    for (const auto& c : candidates)
        if (in_question(c, candidates)) seconds = std::min(seconds, c.seconds_predicted);
    return seconds;
}
/// Candidates whose time is as good as the shortest.
std::vector<std::size_t> as_short_as_any(const std::vector<PlanCandidate>& candidates, double same) {
    std::vector<std::size_t> out;
    const auto shortest = shortest_of(candidates);
    for (std::size_t i = 0; i < candidates.size(); ++i)
        if (in_question(candidates[i], candidates) && candidates[i].seconds_predicted <= (1 + same) * shortest)
            out.push_back(i);
    return out;
}

/// Writes and simulates a plan for each way that is possible, and takes the cheapest.
class Weighing {
  public:
    Weighing(const Inspection& in, double same) : in_(in), same_(same) {}

    void add(Way way) {
        const auto& a = way.assignment;
        PlanCandidate c{a.algorithm, a.reason, 0, 0, false, a.possible};
        if (way.cut) {
            c.blocks = {way.cut->blocks};
            c.bytes_loaded = way.cut->counted.bytes_loaded;
        }
        if (c.possible && way.cut && left_out(*way.cut)) {
            const auto& best = *best_counted_;
            c.seconds_predicted =
                std::max(way.cut->least_seconds,
                         shortest_of(candidates) * way.cut->counted.seconds_predicted / best.seconds_predicted);
            c.reason = "not simulated: by counting it takes longer";
            ++left_out_;
        } else if (const auto* better = c.possible && way.counted ? no_worse_than(*way.counted) : nullptr) {
            c.bytes_sent = way.counted->sent_bytes;
            c.seconds_predicted =
                better->seconds * std::max(1.0, way.counted->busiest_seconds / better->counts.busiest_seconds);
            c.reason = "not simulated: by counting no rank has less to do, and more is sent";
            ++left_out_;
        } else if (c.possible) {
            if (way.cut) best_counted_ = best_counted_.value_or(way.cut->counted);
            try {
                if (way.cut) finish_cut(in_, *way.cut);
                auto plan = write_plan(in_, a, way.cut ? &*way.cut : nullptr);
                c.bytes_sent = plan.counts.sent_bytes;
                c.bytes_loaded = plan.counts.loaded_bytes;
                c.blocks = plan.blocks;
                c.seconds_predicted = simulate(plan, in_.machine).seconds;
                c.simulated = true;
                if (way.counted) {
                    way.counted->sent_bytes = c.bytes_sent;  // tiles that come again count again
                    counted_.push_back({*way.counted, c.seconds_predicted});
                }
                kept_.push_back({candidates.size(), std::move(plan)});
            } catch (const BudgetError& e) {
                c.possible = false;
                c.reason = "does not fit the memory";
                if (!refused_ || lacks(e) < lacks(*refused_)) refused_.emplace(e);
            }
        }
        candidates.push_back(std::move(c));
        const auto good = as_short_as_any(candidates, same_);
        std::erase_if(kept_,
                      [&](const Kept& k) { return std::find(good.begin(), good.end(), k.candidate) == good.end(); });
    }

    Plan take() {
        if (kept_.empty() && refused_) throw *refused_;
        if (kept_.empty()) {
            std::string why;
            for (const auto& c : candidates)
                why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", name(c.algorithm), c.reason);
            user_error("no algorithm can do '{}' as it is asked for ({})", in_.request.spec->text(), why);
        }
        const auto taken = cheapest(candidates, same_);
        auto best = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.candidate == taken; });
        best->plan.decided = choose(candidates, taken, same_);
        if (left_out_ > 0)
            best->plan.decided += fmt::format("; {} not simulated: by counting {} no better", left_out_,
                                              left_out_ == 1 ? "it is" : "they are");
        best->plan.candidates = std::move(candidates);
        return std::move(best->plan);
    }

    std::vector<PlanCandidate> candidates;

  private:
    /// Where its products or loads alone take longer than a plan that is there; of many products, whose plan takes long
    /// to write, also where by counting it loads no less and takes longer than the way that was written first.
    bool left_out(const DeviceCut& cut) const {
        if (!best_counted_ || candidates.empty()) return false;
        if (cut.least_seconds > (1 + same_) * shortest_of(candidates)) return true;
        return in_.product.products.size() > kManyProducts && cut.counted.bytes_loaded >= best_counted_->bytes_loaded &&
               cut.counted.seconds_predicted > (1 + same_) * best_counted_->seconds_predicted;
    }

    /// A plan that is there and keeps what is counted from winning: no rank gets done sooner by more than times differ
    /// that are the same, and no fewer bytes move.
    struct Counted {
        RankCosts counts;
        double seconds;
    };
    const Counted* no_worse_than(const RankCosts& x) const {
        const auto it = std::find_if(counted_.begin(), counted_.end(), [&](const Counted& y) {
            return x.sent_bytes >= y.counts.sent_bytes &&
                   static_cast<double>(x.most_moved_bytes) * (1 + same_) >=
                       static_cast<double>(y.counts.most_moved_bytes) &&
                   x.busiest_seconds * (1 + same_) >= y.counts.busiest_seconds;
        });
        return it == counted_.end() ? nullptr : &*it;
    }

    static double lacks(const BudgetError& e) {
        return static_cast<double>(e.smallest_bytes()) /
               static_cast<double>(std::max<std::int64_t>(1, e.budget_bytes()));
    }

    const Inspection& in_;
    double same_;
    std::vector<Kept> kept_;
    std::optional<PlanCandidate> best_counted_;
    std::vector<Counted> counted_;        // ways of ranks that were simulated
    std::optional<BudgetError> refused_;  // by the candidate that comes closest to its budget
    int left_out_ = 0;
};

/// The algorithms that were not weighed by themselves, because on one rank their plan is the one that is taken.
void list_others(Plan& plan) {
    const auto taken = std::find_if(plan.candidates.begin(), plan.candidates.end(), [](auto& c) { return c.chosen; });
    ensure(taken != plan.candidates.end(), "none of {} candidates is chosen", plan.candidates.size());
    const auto like = *taken;
    for (const auto& row : algorithms()) {
        if (std::any_of(plan.candidates.begin(), plan.candidates.end(),
                        [&](const PlanCandidate& c) { return c.algorithm == row.algorithm; }))
            continue;
        auto other = like;
        other.algorithm = row.algorithm;
        other.chosen = false;
        other.same_plan = true;
        other.reason = fmt::format("on one rank its plan is that of {}", name(like.algorithm));
        plan.candidates.push_back(std::move(other));
    }
}

/// Cores alone: the algorithms differ in the order of the work, which no simulation tells apart.
Plan on_cores_of_one_rank(Inspection& in) {
    const auto over = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
    const auto& row = row_for_one_rank(in);
    auto plan = write_last_plan(in, row.assign(in));
    const double seconds = over(plan.counts.flops, in.machine.gemm.flops_per_second) +
                           over(static_cast<double>(plan.counts.made_bytes), in.machine.make_bytes_per_second);
    plan.candidates = {{plan.algorithm, plan.reason, 0, seconds, true, true}};
    list_others(plan);
    plan.decided = std::string("on one rank none sends anything: ") + row.why_on_one_rank;
    return plan;
}

/// On one rank with devices the algorithms are told apart by their blocks: worst fit is published for stationary_b,
/// patches of rows and columns for outer_product; whole columns are either's.
Plan on_devices_of_one_rank(Inspection& in, const std::optional<Assignment>& asked) {
    std::vector<std::int32_t> sums;
    for (std::size_t i = 0; i < in.sums.size(); ++i)
        if (in.sums[i].first < in.sums[i].last) sums.push_back(static_cast<std::int32_t>(i));
    auto all = ways_for_devices(in, sums, true);
    const auto usual = asked ? *asked : row_for_one_rank(in).assign(in);
    const auto assignment_for = [&](Blocks blocks) {
        if (asked || blocks == Blocks::columns) return usual;
        // Blocks of C that stay, whole or in strips, are patches that leave early.
        const auto published = blocks == Blocks::stay || blocks == Blocks::strips ? Blocks::patches : blocks;
        for (const auto& row : algorithms())
            if (row.blocks == published && row.algorithm != usual.algorithm) return row.assign(in);
        return usual;
    };
    if (all.brief) {
        auto& cut = all.ways.front();
        finish_cut(in, cut);
        const auto assignment = assignment_for(cut.blocks);
        auto plan = write_last_plan(in, assignment, &cut);
        PlanCandidate only{assignment.algorithm, assignment.reason, 0, cut.counted.seconds_predicted, true, true};
        only.bytes_loaded = plan.counts.loaded_bytes;
        only.blocks = plan.blocks;
        plan.candidates = {std::move(only)};
        plan.decided = "all fits, and products so small take less time than to weigh other ways";
        if (!asked) list_others(plan);
        return plan;
    }
    // The best by counting first: what follows may then be left out.
    std::stable_sort(all.ways.begin(), all.ways.end(), [](const DeviceCut& x, const DeviceCut& y) {
        return x.counted.seconds_predicted < y.counted.seconds_predicted;
    });
    Weighing weighing(in, kSameCount);
    for (auto& cut : all.ways) {
        auto assignment = assignment_for(cut.blocks);
        weighing.add({std::move(assignment), std::move(cut)});
    }
    for (const auto blocks : all.refused) {
        PlanCandidate c{assignment_for(blocks).algorithm, "does not fit the memory"};
        c.possible = false;
        c.blocks = {blocks};
        weighing.candidates.push_back(std::move(c));
    }
    auto plan = weighing.take();
    if (plan.candidates.size() == 1)
        plan.decided = in.request.how.blocks != Blocks::automatic ? "these blocks are asked for"
                       : all.nothing_twice                        ? "nothing is loaded twice: no way can load less"
                                                                  : "no other way goes with what is asked for";
    if (!asked) list_others(plan);
    return plan;
}

/// All algorithms. Of many products, whose plans take long to write, the best by counting comes first: what follows may
/// then be left out.
Plan across_ranks(const Inspection& in) {
    std::vector<Way> ways;
    std::vector<PlanCandidate> counted;
    const bool many = in.product.products.size() > kManyProducts;
    for (const auto& row : algorithms()) {
        auto assignment = with_its_grid(row.assign(in), in.request.how);
        auto counts = many && assignment.possible ? rank_costs(in, assignment) : std::nullopt;
        if (counts) counted.push_back({row.algorithm, "", counts->sent_bytes, counts->busiest_seconds});
        ways.push_back({std::move(assignment), {}, counts});
    }
    std::vector<std::size_t> order(ways.size());
    std::iota(order.begin(), order.end(), 0);
    if (!counted.empty()) {
        const auto first = counted[cheapest(counted)].algorithm;
        std::stable_partition(order.begin(), order.end(),
                              [&](std::size_t i) { return ways[i].assignment.algorithm == first; });
    }
    Weighing weighing(in, kSameTime);
    for (const auto i : order) weighing.add(std::move(ways[i]));
    auto plan = weighing.take();
    std::stable_sort(plan.candidates.begin(), plan.candidates.end(),
                     [](const auto& x, const auto& y) { return x.algorithm < y.algorithm; });
    return plan;
}

}  // namespace

std::size_t cheapest(const std::vector<PlanCandidate>& candidates, double same) {
    const auto good = as_short_as_any(candidates, same);
    ensure(!good.empty(), "none of {} candidates is possible", candidates.size());
    const auto cost = [&](std::size_t i) {
        const auto& c = candidates[i];
        return std::tuple(c.bytes_sent, c.bytes_loaded, c.seconds_predicted);
    };
    return *std::min_element(good.begin(), good.end(), [&](auto x, auto y) { return cost(x) < cost(y); });
}

std::string choose(std::vector<PlanCandidate>& candidates, std::size_t chosen, double same) {
    candidates[chosen].chosen = true;
    const auto possible = std::count_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.possible; });
    if (possible == 1)
        return candidates.size() == 1 ? "there is no other way to weigh" : "the only one that is possible";
    if (std::count_if(candidates.begin(), candidates.end(), [](const auto& c) { return c.simulated; }) == 1)
        return "the best by counting";
    const auto close = as_short_as_any(candidates, same).size();
    if (close == 1) return "it takes the least time";
    return fmt::format("{} take within {:.0f} % of the least time: of these it moves the fewest bytes", close,
                       100 * same);
}

Plan build_plan(const PlanRequest& request, const MachineModel& machine) {
    require(machine.ranks >= 1, "a machine of {} ranks", machine.ranks);
    const auto& how = request.how;
    require((how.grid_rows == 0) == (how.grid_cols == 0) && how.grid_rows >= 0 && how.grid_cols >= 0 &&
                (how.grid_rows == 0 || how.grid_rows * how.grid_cols == machine.ranks),
            "a grid of {} x {} for {} ranks", how.grid_rows, how.grid_cols, machine.ranks);
    Inspection in(request, machine);
    check_parameters(in);

    const bool one_with_devices = machine.ranks == 1 && machine.devices_per_rank > 0;
    if (how.algorithm != Algorithm::automatic) {
        const auto assignment = with_its_grid(row_of(how.algorithm).assign(in), how);
        require(assignment.possible, "algorithm '{}' cannot do '{}': {}", name(how.algorithm), request.spec->text(),
                assignment.reason);
        if (one_with_devices) return on_devices_of_one_rank(in, assignment);
        auto plan = write_plan(in, assignment);
        plan.candidates = {{assignment.algorithm, "asked for", plan.counts.sent_bytes, 0, true, true}};
        plan.candidates[0].bytes_loaded = plan.counts.loaded_bytes;
        plan.candidates[0].blocks = plan.blocks;
        return plan;
    }
    if (one_with_devices) return on_devices_of_one_rank(in, std::nullopt);
    if (machine.ranks == 1) return on_cores_of_one_rank(in);
    return across_ranks(in);
}

}  // namespace tessera
