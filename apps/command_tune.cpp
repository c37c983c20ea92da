// Which tiles a problem should have on a machine: plans and simulates many tilings, and says which is the best.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/units.hpp"
#include "command.hpp"
#include "commit.hpp"
#include "device/discovery.hpp"
#include "planning.hpp"
#include "probe/machine.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::app {

namespace {

struct Options {
    CommonOptions common;
    PlanningOptions planning;
    int trials = 40;
};

/// Where in the space of tilings: clusters of occupied orbitals and of atomic orbitals, or the tile size alone.
using Place = std::vector<std::int64_t>;

/// A family of problems whose tiling is searched.
struct Space {
    std::string problem;             // without its tiling
    Place least, most;               // of each parameter
    std::vector<Place> known;        // looked at first; the gain is over the best of these
    std::vector<std::string> names;  // of these; may be empty
    std::string ending;

    std::string text(const Place& at) const {
        for (std::size_t i = 0; i < names.size(); ++i)
            if (known[i] == at) return problem + names[i] + ending;
        return fmt::format("{}{}{}", problem, fmt::join(at, ","), ending);
    }
};

Space space_of(const std::string& text) {
    const auto parts = split(text, ':');
    const auto whole = [&](const std::string& word, const char* what) {
        std::int64_t x = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), x);
        require(error == std::errc() && end == word.data() + word.size() && x >= 1,
                "tune {}: {} is '{}', which is not a number of at least 1", text, what, word);
        return x;
    };
    if (parts[0] == "alkane" && (parts.size() == 2 || (parts.size() == 3 && parts[2] == "min"))) {
        const auto n = whole(parts[1], "n");
        Space s{"alkane:" + parts[1] + ":", {1, 1}, {3 * n + 1, n}, {}, {}, parts.size() == 3 ? ":min" : ""};
        const auto at_65 = [&](std::int64_t clusters) {
            return std::max<std::int64_t>(1, (2 * clusters * n + 65) / 130);
        };
        for (const auto& [occupied, ao, name] : {std::tuple{8, 60, "v1"}, {8, 42, "v2"}, {6, 27, "v3"}}) {
            s.known.push_back({at_65(occupied), at_65(ao)});
            s.names.emplace_back(name);
        }
        return s;
    }
    if (parts[0] == "dense" && parts.size() == 2) {
        const auto sides = split(parts[1], ',');
        require(sides.size() == 3, "tune {}: dense takes M,N,K, without the size of a tile", text);
        std::int64_t longest = 1;
        for (const auto& side : sides) longest = std::max(longest, whole(side, "a side"));
        Space s{text + ",", {std::min<std::int64_t>(longest, 16)}, {longest}, {}, {}, ""};
        for (const std::int64_t t : {512, 1024, 2048})
            if (t <= longest) s.known.push_back({t});
        if (s.known.empty()) s.known.push_back({longest});
        return s;
    }
    user_error("tune '{}': one of alkane:n[:min] and dense:M,N,K, without a tiling", text);
}

struct Trial {
    Place at;
    std::string problem, refused;  // why it cannot be
    double seconds = INFINITY, flops = 0;
    std::int64_t products = 0, sent = 0, loaded = 0, made = 0;
    std::string algorithm, blocks;
    int grid_rows = 0, grid_cols = 0;
};

Trial attempt(const Options& o, const MachineModel& machine, const Space& space, const Place& at) {
    Trial t;
    t.at = at;
    t.problem = space.text(at);
    auto planning = o.planning;
    planning.problem = t.problem;
    try {
        const auto planned = make_plan(planning, machine, make_problem(planning.problem)).planned;
        const auto& plan = planned.plan();
        t.seconds = simulate(planned, planned.machine()).seconds;
        t.flops = plan.counts.flops;
        t.products = plan.counts.products;
        t.sent = plan.counts.sent_bytes;
        t.loaded = plan.counts.loaded_bytes;
        t.made = plan.counts.made_bytes;
        t.algorithm = name(plan.algorithm);
        t.blocks = names(plan.blocks);
        t.grid_rows = plan.grid_rows;
        t.grid_cols = plan.grid_cols;
    } catch (const MachineError& e) {  // too large a plan, or too small a budget
        t.refused = e.what();
    }
    return t;
}

/// Nothing that was tried is better in flops, bytes and time at once.
bool on_the_front(const Trial& x, const std::vector<Trial>& all) {
    const auto bytes = [](const Trial& t) { return t.sent + t.loaded; };
    return x.refused.empty() && std::none_of(all.begin(), all.end(), [&](const Trial& y) {
               return y.refused.empty() && y.flops <= x.flops && bytes(y) <= bytes(x) && y.seconds <= x.seconds &&
                      (y.flops < x.flops || bytes(y) < bytes(x) || y.seconds < x.seconds);
           });
}

class Search {
  public:
    Search(const Options& o, const MachineModel& machine, Space space)
        : o_(o), machine_(machine), space_(std::move(space)), bar_("tune", !o.common.quiet && !o.common.json) {}

    /// From the best of the known ones: steps along each parameter, then along both, shorter and shorter.
    void run() {
        for (const auto& at : space_.known) look(at);
        known_ = trials_.size();
        for (double step = 1.6; step > 1.03 && !done(); step = std::sqrt(step)) {
            for (bool better = true; better && !done();) {
                const auto from = best();
                if (!from) break;
                const auto before = from->seconds;
                const Place at = from->at;
                for (const auto& [first, second] :
                     {std::pair{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}}) {
                    if (done()) break;
                    Place to = at;
                    move(to, to.size() - 1, second, step);
                    if (to.size() > 1) move(to, 0, first, step);
                    look(to);
                }
                better = best()->seconds < before * (1 - 1e-9);
            }
        }
    }

    const std::vector<Trial>& trials() const { return trials_; }
    std::size_t known() const { return known_; }
    const Trial* best(std::size_t first = 0, std::size_t last = SIZE_MAX) const {
        const Trial* out = nullptr;
        for (std::size_t i = first; i < std::min(last, trials_.size()); ++i)
            if (trials_[i].refused.empty() && (!out || trials_[i].seconds < out->seconds)) out = &trials_[i];
        return out;
    }

  private:
    bool done() const { return static_cast<int>(trials_.size()) >= std::max(o_.trials, static_cast<int>(known_)); }

    void move(Place& to, std::size_t i, int way, double step) const {
        if (way == 0) return;
        const auto x = static_cast<double>(to[i]);
        auto next = std::llround(way > 0 ? x * step : x / step);
        if (next == to[i]) next += way;
        to[i] = std::clamp<std::int64_t>(next, space_.least[i], space_.most[i]);
    }

    void look(const Place& at) {
        if (std::any_of(trials_.begin(), trials_.end(), [&](const Trial& t) { return t.at == at; })) return;
        trials_.push_back(attempt(o_, machine_, space_, at));
        bar_.show(static_cast<double>(trials_.size()), o_.trials);
    }

    const Options& o_;
    const MachineModel& machine_;
    Space space_;
    ProgressBar bar_;
    std::vector<Trial> trials_;
    std::size_t known_ = 0;
};

void run(const Options& o) {
    const auto space = space_of(o.planning.problem);
    const auto machine = o.planning.machine == "this" ? probe_machine(o.common.threads, o.planning.ranks)
                                                      : read_machine(o.planning.machine).machine;
    Options once = o;  // the old meaning of --memory is warned of once, not for each tiling
    auto& where = once.planning.where;
    if (o.planning.devices_per_rank > 0 || (o.planning.devices_per_rank < 0 && machine.devices_per_rank > 0))
        if (budgets_of(where, true).device > 0 && where.device_memory.empty())
            where.device_memory = std::exchange(where.memory, "");
    Search search(once, machine, space);
    search.run();
    const auto* best = search.best();
    if (!best) {
        const auto& first = search.trials().front();
        throw MachineError(
            fmt::format("tune {}: no tiling can be planned; {}: {}", o.planning.problem, first.problem, first.refused));
    }
    const auto* known = search.best(0, search.known());
    auto trials = search.trials();
    std::stable_sort(trials.begin(), trials.end(),
                     [](const Trial& x, const Trial& y) { return x.seconds < y.seconds; });
    if (o.common.json) {
        nlohmann::json rows = nlohmann::json::array();
        for (const auto& t : trials) {
            nlohmann::json row{{"problem", t.problem}, {"pareto", on_the_front(t, trials)}};
            if (t.refused.empty())
                row.update({{"seconds", t.seconds},
                            {"flops", t.flops},
                            {"products", t.products},
                            {"bytes", {{"sent", t.sent}, {"moved_host_to_device", t.loaded}, {"made", t.made}}},
                            {"algorithm", t.algorithm},
                            {"blocks", t.blocks},
                            {"grid", {t.grid_rows, t.grid_cols}}});
            else
                row["refused"] = t.refused;
            rows.push_back(row);
        }
        return print_json({{"problem", o.planning.problem},
                           {"machine", machine.name},
                           {"commit", bench::build_commit()},
                           {"best", best->problem},
                           {"seconds", best->seconds},
                           {"known", known ? nlohmann::json(known->problem) : nlohmann::json()},
                           {"gain", known ? nlohmann::json(known->seconds / best->seconds) : nlohmann::json()},
                           {"trials", rows}});
    }
    if (o.common.quiet) return;
    fmt::print("tilings of {} on machine {}, {} rank{}; * none is better in flops, bytes and time at once\n\n",
               o.planning.problem, machine.name, o.planning.ranks, o.planning.ranks == 1 ? "" : "s");
    fmt::print("  {:<24}{:>11}{:>12}{:>11}{:>12}{:>12}  {}\n", "problem", "predicted", "work", "sent", "to devices",
               "made", "algorithm");
    for (const auto& t : trials) {
        if (!t.refused.empty()) {
            fmt::print("  {:<24}  refused: {}\n", t.problem, t.refused);
            continue;
        }
        fmt::print("{} {:<24}{:>11}{:>12}{:>11}{:>12}{:>12}  {} {}x{}{}{}\n", on_the_front(t, trials) ? '*' : ' ',
                   t.problem, format_seconds(t.seconds), format_flops(t.flops), format_bytes(t.sent),
                   format_bytes(t.loaded), format_bytes(t.made), t.algorithm, t.grid_rows, t.grid_cols,
                   t.blocks.empty() ? "" : ", ", t.blocks);
    }
    fmt::print("\nbest        {}: {} predicted", best->problem, format_seconds(best->seconds));
    if (known) fmt::print(", {:.1f} % less than {}", 100 * (1 - best->seconds / known->seconds), known->problem);
    fmt::print("\n");
}

}  // namespace

Action add_tune(Command app) {
    auto o = std::make_shared<Options>();
    auto command = app.add_subcommand("tune", "find the tiles with which a problem is fastest on a described machine");
    add_planning(command, o->planning, true);
    command.option("problem").description("alkane:n[:min] | dense:M,N,K: without a tiling");
    command.add_option("--trials", o->trials, "how many tilings are planned and simulated at most")
        .show_default()
        .check(between(1, 10'000));
    add_common(command, o->common);
    command.footer(
        "Each tiling is planned with the algorithm, grid and blocks that the planner takes for it. Nothing is "
        "executed.\n"
        "Example: tessera tune alkane:65 --machine summit --ranks 36");
    return [o] { run(*o); };
}

}  // namespace tessera::app
