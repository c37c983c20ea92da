#include "papers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "paper_cases.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera::app {

PapersTable simulate_papers(const std::function<void(int, int, const std::string&)>& on_case) {
    const auto summit = read_machine("summit");
    int done = 0;
    constexpr int kCases = 12;
    const auto run = [&](const PaperCase& c) {
        on_case(++done, kCases, c.command());
        return simulate_case(c, summit.machine);
    };
    PapersTable table;
    const auto add = [&](const std::string& what, const std::string& unit, double published, double simulated,
                         double tolerance, const PaperCase& c, bool fitted = false, const std::string& reason = {}) {
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
            (devices <= 3 ? 0.95 : 0.85) * kPublishedPeak, run(c).tflops_per_device, 0.10, c, false, dense_note);
    }
    const auto d = dense_distributed(summit.machine, 160, 4);
    const auto distributed = run(d);
    add("dense N=164,000, 16 ranks, 48 GPUs", "TF/GPU", 0.85 * kPublishedPeak, distributed.tflops_per_device, 0.15, d,
        false, dense_note);
    add("  tile loads that come from another GPU", "share", 0.5, distributed.from_device, 0.15, d, false, dense_note);
    add("  tile loads over the formula's", "ratio", 0.95,
        distributed.tiles_moved / published_tiles_moved(160, 4, 3, d.parameters), 0.15, d, false, dense_note);

    const auto s = synthetic_on_16_nodes();
    add("synthetic 48k, dense, 16 nodes", "TF", 203, run(s).tflops, 0.30, s, true, synthetic_note);

    std::map<std::string, std::pair<PaperOutcome, PaperOutcome>> of;
    for (const char* v : {"v1", "v2", "v3"}) of[v] = {run(alkane_on_summit(v, 3)), run(alkane_on_summit(v, 108))};
    add("C65H132 v1, 3 GPUs", "s", 272, of["v1"].first.seconds, 0.30, alkane_on_summit("v1", 3), true, alkane_note);
    add("C65H132 v1, 108 GPUs", "s", 34.9, of["v1"].second.seconds, 0.30, alkane_on_summit("v1", 108), true,
        alkane_note);
    const auto efficiency = [&](const char* v, double published) {
        add(fmt::format("C65H132 {}, efficiency of 108 GPUs over 3", v), "%", published,
            100 * of[v].first.seconds / of[v].second.seconds / 36, 0.30, alkane_on_summit(v, 108), true, alkane_note);
    };
    efficiency("v1", 21);
    efficiency("v2", 36.5);
    efficiency("v3", 35.2);
    add("C65H132 v3, 3 GPUs", "TF/GPU", 2.5, of["v3"].first.tflops_per_device, 0.30, alkane_on_summit("v3", 3), true,
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
