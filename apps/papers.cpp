#include "papers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planning.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::app {

namespace {

/// A case of the papers as the command line would simulate it.
struct Case {
    std::string problem, algorithm, blocks, b, grid;
    int ranks = 1, devices_per_rank = -1;
    PlanParameters parameters = {};

    PlanningOptions options() const {
        PlanningOptions o;
        o.problem = problem;
        o.machine = "summit";
        o.how.algorithm = algorithm;
        o.how.blocks = blocks;
        if (algorithm == "stationary_b") o.how.deal = "mirrored";
        o.b = b;
        o.how.grid = grid;
        o.ranks = ranks;
        o.devices_per_rank = devices_per_rank;
        o.how.parameters = parameters;
        return o;
    }
    std::string command() const {
        auto text =
            fmt::format("tessera simulate {} --machine summit --ranks {} --algorithm {}", problem, ranks, algorithm);
        if (algorithm == "stationary_b") text += " --deal mirrored";
        if (devices_per_rank >= 0) text += fmt::format(" --devices-per-rank {}", devices_per_rank);
        if (blocks != "auto") text += " --blocks " + blocks;
        if (b != "auto") text += " --source-b " + b;
        if (!grid.empty()) text += " --grid " + grid;
        const auto& p = parameters;
        if (p.block_share) text += fmt::format(" --block-share {}", *p.block_share);
        if (p.block_rows && p.block_cols) text += fmt::format(" --block {}x{}", *p.block_rows, *p.block_cols);
        if (p.lookahead) text += fmt::format(" --lookahead {}", *p.lookahead);
        return text;
    }
};

struct Outcome {
    double seconds = 0, tflops = 0, tflops_per_device = 0;
    double from_device = 0;  // share of the bytes that come into devices from another device
    double tiles_moved = 0;  // into and out of a device, of 1024 x 1024
};

/// The published choice of b and c (ScalA 2019, section III-B3): b = c as large as it gets with b x c/G tiles of C in
/// three quarters of a device, C in even blocks; lookahead 1 where C is one block, 2 where it is several.
PlanParameters published_blocks(int tiles, int devices, double device_memory) {
    constexpr double kShare = 0.75, kTile = 8.0 * 1024 * 1024;
    for (int blocks = 1;; ++blocks) {
        const int b = (tiles + blocks - 1) / blocks, of_device = (b + devices - 1) / devices;
        if (b > 1 && b * of_device * kTile > kShare * device_memory) continue;
        return {.block_share = kShare, .block_rows = b, .block_cols = of_device, .lookahead = blocks == 1 ? 1 : 2};
    }
}

// The dense runs (ScalA 2019, section V) have stored operands and square blocks of C that stay on the devices; the
// others (IPDPS 2021, section V) make B on the cores and form blocks by worst fit.
Case dense_on_one_node(const MachineModel& m, int devices) {
    const auto memory = static_cast<double>(m.device.memory);
    return {"dense:70656,70656,70656,1024",       "outer_product", "auto", "auto", "", 1, devices,
            published_blocks(69, devices, memory)};
}
Case dense_distributed(const MachineModel& m) {
    const auto memory = static_cast<double>(m.device.memory);
    return {"dense:163840,163840,163840,1024",
            "outer_product",
            "auto",
            "auto",
            "4x4",
            16,
            -1,
            published_blocks(160 / 4, m.devices_per_rank, memory)};
}
Case synthetic() { return {"synthetic:48000,48000,48000,1", "stationary_b", "worst_fit", "host", "", 32, -1}; }
Case alkane(const char* tiling, int gpus) {
    return {fmt::format("alkane:65:{}", tiling), "stationary_b", "worst_fit", "host", "", gpus / 3, -1};
}

/// Loads of a device by formula (1) of ScalA 2019, in tiles: C stays, A and B pass by once.
double formula(double tiles, double p, double q, double devices) {
    return tiles * tiles / p + tiles * tiles / (q * devices) + tiles * tiles / (p * q * devices);
}

}  // namespace

PapersTable simulate_papers(const std::function<void(int, int, const std::string&)>& on_case) {
    const auto summit = read_machine("summit");
    int done = 0;
    constexpr int kCases = 12;
    const auto run = [&](const Case& c) {
        on_case(++done, kCases, c.command());
        const auto planned = make_plan(c.options(), summit.machine).planned;
        const auto s = simulate(planned, planned.machine());
        const auto& n = planned.counts();
        const double in = static_cast<double>(n.loaded_bytes + n.copied_bytes);
        Outcome o{s.seconds, s.tflops, s.tflops_per_device, 0, 0};
        if (in > 0) o.from_device = static_cast<double>(n.copied_bytes) / in;
        const double devices = static_cast<double>(planned.plan().ranks * planned.plan().devices_per_rank);
        o.tiles_moved = (in + static_cast<double>(n.stored_bytes)) / (8.0 * 1024 * 1024) / devices;
        return o;
    };
    constexpr double kPeak = 7.2;  // TF/s of one GPU, as measured in both papers
    PapersTable table;
    const auto add = [&](const std::string& what, const std::string& unit, double published, double simulated,
                         double tolerance, const Case& c, bool fitted = false, const std::string& reason = {}) {
        table.rows.push_back({what, unit, published, simulated, tolerance, fitted, c.command(), reason});
    };

    // In what a case is not the published run, as far as the papers say how that was.
    const std::string dense_note =
        "b, c and lookahead by the published rule; chunks are as deep as the memory allows, not a divisor of K; whole "
        "tiles: N = 70,656 and 163,840";
    const std::string synthetic_note =
        "published block rule; the paper does not say p of the grid (the planner's choice), nor how fast cores make B";
    const std::string alkane_note =
        "published block rule; the sparsity is the recipe of docs/ALKANE.md, and the paper does not say how fast cores "
        "make B";

    for (int devices : {1, 2, 3, 6}) {
        const auto c = dense_on_one_node(summit.machine, devices);
        add(fmt::format("dense N=70,000, one node, {} GPU{}", devices, devices == 1 ? "" : "s"), "TF/GPU",
            (devices <= 3 ? 0.95 : 0.85) * kPeak, run(c).tflops_per_device, 0.10, c, false, dense_note);
    }
    const auto d = dense_distributed(summit.machine);
    const auto distributed = run(d);
    add("dense N=164,000, 16 ranks, 48 GPUs", "TF/GPU", 0.85 * kPeak, distributed.tflops_per_device, 0.15, d, false,
        dense_note);
    add("  tile loads that come from another GPU", "share", 0.5, distributed.from_device, 0.15, d, false, dense_note);
    add("  tile loads over the formula's", "ratio", 0.95, distributed.tiles_moved / formula(160, 4, 4, 3), 0.15, d,
        false, dense_note);

    const auto s = synthetic();
    add("synthetic 48k, dense, 16 nodes", "TF", 203, run(s).tflops, 0.30, s, true, synthetic_note);

    std::map<std::string, std::pair<Outcome, Outcome>> of;
    for (const char* v : {"v1", "v2", "v3"}) of[v] = {run(alkane(v, 3)), run(alkane(v, 108))};
    add("C65H132 v1, 3 GPUs", "s", 272, of["v1"].first.seconds, 0.30, alkane("v1", 3), true, alkane_note);
    add("C65H132 v1, 108 GPUs", "s", 34.9, of["v1"].second.seconds, 0.30, alkane("v1", 108), true, alkane_note);
    const auto efficiency = [&](const char* v, double published) {
        add(fmt::format("C65H132 {}, efficiency of 108 GPUs over 3", v), "%", published,
            100 * of[v].first.seconds / of[v].second.seconds / 36, 0.30, alkane(v, 108), true, alkane_note);
    };
    efficiency("v1", 21);
    efficiency("v2", 36.5);
    efficiency("v3", 35.2);
    add("C65H132 v3, 3 GPUs", "TF/GPU", 2.5, of["v3"].first.tflops_per_device, 0.30, alkane("v3", 3), true,
        alkane_note);

    const auto machine = nlohmann::json::parse(to_json(summit));
    for (const auto& [field, source] : summit.sources) {
        if (!source.starts_with("fitted")) continue;
        auto pointer = "/" + field;
        std::replace(pointer.begin(), pointer.end(), '.', '/');
        table.fitted[field] = fmt::format("{:g}: {}", machine.at(nlohmann::json::json_pointer(pointer)).get<double>(),
                                          source.substr(source.find(' ') + 1));
    }
    return table;
}

namespace {

/// Words over lines of at most 100 columns.
std::string wrapped(std::string line, const std::string& words) {
    std::string out;
    for (std::size_t at = 0; at < words.size();) {
        auto end = words.find(' ', at);
        if (end == std::string::npos) end = words.size();
        if (line.size() + end - at > 98) {
            line.pop_back();
            out += line + "\n";
            line = "    ";
        }
        line += words.substr(at, end - at) + " ";
        at = end + 1;
    }
    line.pop_back();
    return out + line + "\n";
}

}  // namespace

std::string to_text(const PapersTable& table) {
    auto out = fmt::format("{:<46} {:<6} {:>9} {:>9} {:>6}\n", "Summit", "", "published", "simulated", "ratio");
    const auto figure = [](double x) { return x < 10 ? fmt::format("{:.3g}", x) : fmt::format("{:.1f}", x); };
    std::vector<std::string> reasons;  // each once, by letter
    for (const auto& r : table.rows) {
        auto it = std::find(reasons.begin(), reasons.end(), r.reason);
        if (it == reasons.end() && !r.reason.empty()) it = reasons.insert(reasons.end(), r.reason);
        const auto letter =
            r.reason.empty() ? std::string() : fmt::format(" {:c}", static_cast<char>('a' + (it - reasons.begin())));
        out += fmt::format("{:<46} {:<6} {:>9} {:>9} {:>6.2f}  {} {:.0f} %{}{}\n", r.what, r.unit, figure(r.published),
                           figure(r.simulated), r.ratio(), r.within() ? "within" : "NOT within", 100 * r.tolerance,
                           letter, r.fitted_on ? " *" : "");
    }
    for (std::size_t i = 0; i < reasons.size(); ++i)
        out += wrapped(fmt::format("{:c}: ", static_cast<char>('a' + i)), reasons[i]);
    out += "One machine file for all rows (machines/summit.json). Fitted, on the rows marked *:\n";
    for (const auto& [field, value] : table.fitted) out += wrapped("  " + field + " = ", value);
    return out;
}

}  // namespace tessera::app
