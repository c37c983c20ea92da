#include "figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.hpp"
#include "paper_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera::app {

namespace {

/// Outcomes of cases, each simulated once. Figures are drawn twice: first to learn what they need, then with it.
class Cases {
  public:
    const PaperOutcome* at(Figure& figure, const PaperCase& c) {
        const auto command = c.command();
        if (std::ranges::find(figure.commands, command) == figure.commands.end()) figure.commands.push_back(command);
        const auto [it, fresh] = places_.try_emplace(command, entries_.size());
        if (fresh) entries_.push_back({c, {}, {}, false});
        const auto& entry = entries_[it->second];
        if (!entry.refused.empty()) {
            const auto line = command + ": " + entry.refused;
            if (std::ranges::find(figure.refused, line) == figure.refused.end()) figure.refused.push_back(line);
        }
        return entry.done ? &entry.outcome : nullptr;
    }

    void simulate_all(const std::function<void(int, int, const std::string&)>& on_case) {
        std::map<std::string, MachineModel> machines;
        int number = 0;
        for (auto& entry : entries_) {
            on_case(++number, static_cast<int>(entries_.size()), entry.c.command());
            const auto& name = entry.c.machine;
            if (!machines.contains(name)) machines[name] = read_machine(name).machine;
            try {
                entry.outcome = simulate_case(entry.c, machines.at(name));
                entry.done = true;
            } catch (const MachineError& e) {
                entry.refused = e.what();
            }
        }
    }

  private:
    struct Entry {
        PaperCase c;
        PaperOutcome outcome;
        std::string refused;
        bool done = false;
    };
    std::vector<Entry> entries_;
    std::map<std::string, std::size_t> places_;  // by command
};

constexpr double kAll = 16 * 6 * 7.0;  // "Peak performance of GEMM for the 16 nodes", TF/s

const char* const kScalaNote =
    "b, c and lookahead by the published rule; chunks are as deep as the memory allows, not a divisor of K.";
const char* const kAlkaneNote =
    "The sparsity is the recipe of docs/ALKANE.md. The paper does not say how fast cores make B (1 GB/s a core here) "
    "nor "
    "p of the grid (the planner's choice here). Blocks and deal are the published ones.";

/// A line through simulated points: `y` of each case.
template <class Y>
void add_line(Cases& cases, Figure& figure, const std::string& name,
              const std::vector<std::pair<double, PaperCase>>& at, const Y& y) {
    PlotLine line{name, {}, false};
    for (const auto& [x, c] : at)
        if (const auto* o = cases.at(figure, c)) line.points.push_back({x, y(*o)});
    figure.plot.lines.push_back(std::move(line));
}

/// A printed figure beside ours.
template <class Y>
void add_printed(Cases& cases, Figure& figure, const std::string& what, const std::string& unit, double published,
                 const std::string& where, const PaperCase& c, const Y& y) {
    if (const auto* o = cases.at(figure, c)) figure.printed.push_back({what, unit, published, y(*o), where});
}

void scala_2(Cases& cases, Figure& f, const MachineModel& summit) {
    f.plot = {"Dense GEMM, M = N = K = 70,000, one node of Summit", "tile size t", "TFLOP/s per GPU", false, false, {}};
    const std::vector<int> tiles = {512, 768, 1024, 1536, 2048, 3072};
    const auto rate = [](const PaperOutcome& o) { return o.tflops_per_device; };
    for (int gpus = 1; gpus <= 6; ++gpus) {
        std::vector<std::pair<double, PaperCase>> at;
        for (const int t : tiles) at.emplace_back(t, dense_on_one_node(summit, gpus, t));
        add_line(cases, f, fmt::format("{} GPU{}", gpus, gpus == 1 ? "" : "s"), at, rate);
    }
    PlotLine printed{"published", {}, true};
    for (int gpus = 1; gpus <= 6; ++gpus) {
        const double published = (gpus <= 3 ? 0.95 : 0.85) * kPublishedPeak;
        printed.points.push_back({1024, published});
        add_printed(cases, f, fmt::format("{} GPU{}, t = 1,024", gpus, gpus == 1 ? "" : "s"), "TF/GPU", published,
                    gpus <= 3 ? "V-A: 95 % of 7.2 for 1 to 3 GPUs" : "V-A: 85 % of 7.2 for 4 to 6 GPUs",
                    dense_on_one_node(summit, gpus), rate);
    }
    f.plot.lines.push_back(std::move(printed));
    f.notes = {kScalaNote, "Tiles below 512 have tens of millions of products and are left out."};
}

const std::vector<std::pair<int, std::vector<int>>> kGrids = {
    {2, {24, 48, 80, 112, 160}}, {4, {48, 80, 112, 160, 192}}, {6, {72, 96, 120, 144, 192}}};

void scala_3(Cases& cases, Figure& f, const MachineModel& summit, bool per_gpu) {
    f.plot = {fmt::format("Dense GEMM on grids of Summit's sockets, 3 GPUs each{}", per_gpu ? ", per GPU" : ""),
              "M = N = K, thousands",
              per_gpu ? "TFLOP/s per GPU" : "TFLOP/s",
              false,
              false,
              {}};
    const auto rate = [&](const PaperOutcome& o) { return per_gpu ? o.tflops_per_device : o.tflops; };
    for (const auto& [grid, sizes] : kGrids)
        for (const int lookahead : {1, 2}) {
            std::vector<std::pair<double, PaperCase>> at;
            for (const int tiles : sizes)
                at.emplace_back(tiles * 1.024, dense_distributed(summit, tiles, grid, lookahead));
            add_line(cases, f, fmt::format("{0}x{0}, {1} GPUs, lookahead {2}", grid, 3 * grid * grid, lookahead), at,
                     rate);
        }
    if (per_gpu)
        add_printed(cases, f, "4x4, N = 164,000", "TF/GPU", 0.85 * kPublishedPeak,
                    "VII: 85 % of the peak, for instances beyond the GPUs' memory too",
                    dense_distributed(summit, 160, 4), rate);
    f.notes = {
        kScalaNote,
        "The paper goes on to 12x12 sockets and larger matrices; those have hundreds of millions of products.",
        "The paper's drop where C no longer fits, with lookahead 1, is congestion inside the network, which is not "
        "in the model."};
}

void scala_4(Cases& cases, Figure& f, const MachineModel& summit, bool ratio) {
    f.plot = {ratio ? "Tiles moved, over the model's" : "Tiles moved into and out of a GPU",
              "run (by size within each grid)",
              ratio ? "ratio" : "tiles of 1,024 x 1,024",
              false,
              false,
              {}};
    PlotLine all{"all transfers", {}, false}, host{"from host memory", {}, false}, model{"formula (1)", {}, false};
    double run = 0, moved = 0, expected = 0, from_device = 0;
    for (const auto& [grid, sizes] : kGrids)
        for (const int tiles : sizes) {
            const auto c = dense_distributed(summit, tiles, grid);
            const auto* o = cases.at(f, c);
            if (!o) continue;
            ++run;
            const double formula = published_tiles_moved(tiles, grid, summit.devices_per_rank, c.parameters);
            all.points.push_back({run, ratio ? o->tiles_moved / formula : o->tiles_moved});
            host.points.push_back({run, ratio ? o->tiles_loaded_from_host / formula : o->tiles_loaded_from_host});
            model.points.push_back({run, ratio ? 1 : formula});
            moved += o->tiles_moved / formula;
            from_device += o->from_device;
            ++expected;
        }
    if (expected > 0) {
        if (ratio)
            f.printed.push_back({"tiles moved over the formula's, mean", "ratio", 0.95, moved / expected,
                                 "V-B: approximately 95 % of the number predicted"});
        else
            f.printed.push_back({"loads that come from another GPU, mean", "share", 0.5, from_device / expected,
                                 "V-B: about 50 % of all loads are device to device"});
    }
    f.plot.lines = {all, host, model};
    f.notes = {kScalaNote};
}

const std::vector<int> kWide = {48000, 96000, 192000, 384000};
const std::vector<double> kDensities = {1, 0.5, 0.25, 0.1};

template <class Y>
void over_density(Cases& cases, Figure& f, const Y& y) {
    for (const double density : kDensities) {
        std::vector<std::pair<double, PaperCase>> at;
        for (const int k : kWide) at.emplace_back(k / 1000, synthetic_on_16_nodes(k, density));
        add_line(cases, f, fmt::format("density {:g}", density), at, y);
    }
    f.notes = {
        "M = 48,000. The paper does not say p of the grid (the planner's choice here), nor how fast cores make B.",
        "Which densities and sizes the paper's curves have is not in its text."};
}

void ipdps_2(Cases& cases, Figure& f) {
    f.plot = {"Synthetic, M = 48,000, 16 nodes of Summit", "N = K, thousands", "TFLOP/s", false, false, {}};
    const auto rate = [](const PaperOutcome& o) { return o.tflops; };
    over_density(cases, f, rate);
    add_printed(cases, f, "N = K = 48,000, dense", "TF", 203, "V-A", synthetic_on_16_nodes(), rate);
    double best = 0;
    for (const int k : kWide)
        if (const auto* o = cases.at(f, synthetic_on_16_nodes(k))) best = std::max(best, o->tflops);
    if (best > 0)
        f.printed.push_back(
            {"dense, best", "TF", 0.5 * kAll, best, "V-A: only half the GEMM peak, even in the dense case"});
    f.plot.lines.push_back({"published", {{48, 203}}, true});
    f.plot.lines.push_back({"libDBCSR, published", {{48, 109}}, true});
}

void ipdps_3(Cases& cases, Figure& f, bool time) {
    f.plot = {time ? "Synthetic, M = 48,000: time" : "Synthetic, M = 48,000: flops over bytes of A, B and C",
              "N = K, thousands",
              time ? "s" : "flops per byte",
              false,
              true,
              {}};
    over_density(cases, f, [&](const PaperOutcome& o) { return time ? o.seconds : o.intensity; });
}

const std::vector<int> kGpus = {3, 6, 12, 24, 48, 96, 108};

template <class Y>
void over_gpus(Cases& cases, Figure& f, const Y& y) {
    f.plot.log_x = f.plot.log_y = true;
    for (const char* v : {"v1", "v2", "v3"}) {
        std::vector<std::pair<double, PaperCase>> at;
        for (const int gpus : kGpus) at.emplace_back(gpus, alkane_on_summit(v, gpus));
        add_line(cases, f, v, at, y);
    }
    f.notes = {kAlkaneNote, "The two fitted figures of machines/summit.json were fitted on points of this paper."};
}

void ipdps_6(Cases& cases, Figure& f) {
    f.plot = {"C65H132: time", "GPUs", "s", true, true, {}};
    const auto seconds = [](const PaperOutcome& o) { return o.seconds; };
    over_gpus(cases, f, seconds);
    add_printed(cases, f, "v1, 3 GPUs", "s", 272, "V-B", alkane_on_summit("v1", 3), seconds);
    add_printed(cases, f, "v1, 108 GPUs", "s", 34.9, "V-B", alkane_on_summit("v1", 108), seconds);
    for (const auto& [v, published] : {std::pair{"v1", 21.0}, {"v2", 36.5}, {"v3", 35.2}}) {
        const auto *few = cases.at(f, alkane_on_summit(v, 3)), *many = cases.at(f, alkane_on_summit(v, 108));
        if (few && many)
            f.printed.push_back({fmt::format("{}, efficiency of 108 GPUs over 3", v), "%", published,
                                 100 * few->seconds / many->seconds / 36, "V-B"});
    }
    add_printed(cases, f, "v3, 48 GPUs: MPQC's 308 s on 8 nodes' cores over a factor of about 10", "s", 30.8, "V-B",
                alkane_on_summit("v3", 48), seconds);
    add_printed(cases, f, "v3, 96 GPUs: MPQC's 158 s on 16 nodes' cores over a factor of about 10", "s", 15.8, "V-B",
                alkane_on_summit("v3", 96), seconds);
    f.plot.lines.push_back({"v1, published", {{3, 272}, {108, 34.9}}, true});
    f.plot.lines.push_back({"MPQC on the cores", {{48, 308}, {96, 158}}, true});
}

void ipdps_7(Cases& cases, Figure& f) {
    f.plot = {"C65H132: rate per GPU", "GPUs", "TFLOP/s per GPU", true, true, {}};
    const auto rate = [](const PaperOutcome& o) { return o.tflops_per_device; };
    over_gpus(cases, f, rate);
    add_printed(cases, f, "v3, 3 GPUs", "TF/GPU", 2.5, "V-B: up to 2.5", alkane_on_summit("v3", 3), rate);
    add_printed(cases, f, "v3, 108 GPUs", "TF/GPU", 0.77, "V-B: 11 % of 7", alkane_on_summit("v3", 108), rate);
    f.plot.lines.push_back({"v3, published", {{3, 2.5}, {108, 0.77}}, true});
}

void ipdps_8(Cases& cases, Figure& f) {
    f.plot = {"C65H132: rate", "GPUs", "TFLOP/s", true, true, {}};
    over_gpus(cases, f, [](const PaperOutcome& o) { return o.tflops; });
    // The text prints times; with the flops of Table I they are rates.
    const auto rate = [](const PaperOutcome& o) { return o.tflops; };
    add_printed(cases, f, "v1, 3 GPUs (850 Tflop in 272 s)", "TF", 850 / 272.0, "Table I, V-B",
                alkane_on_summit("v1", 3), rate);
    add_printed(cases, f, "v1, 108 GPUs (850 Tflop in 34.9 s)", "TF", 850 / 34.9, "Table I, V-B",
                alkane_on_summit("v1", 108), rate);
    f.plot.lines.push_back({"v1, published", {{3, 850 / 272.0}, {108, 850 / 34.9}}, true});
}

/// Elements of tiles along the index pairs that are fused into rows (or columns), over their number.
double mean_edge(const TileGrid& grid, int first, int last) {
    double elements = 1, tiles = 1;
    for (int i = first; i <= last; ++i) {
        elements *= static_cast<double>(grid.tiling(i).extent());
        tiles *= static_cast<double>(grid.tiling(i).tile_count());
    }
    return elements / tiles;
}

void ipdps_5(Cases&, Figure& f) {
    f.plot = {"C65H132: edges of the tiles of V, as matrices",
              "edge (root of the elements)",
              "share of the tiles",
              true,
              false,
              {}};
    for (const char* v : {"v1", "v2", "v3"}) {
        const auto problem = make_problem(fmt::format("alkane:65:{}", v));
        std::map<int, double> bins;  // of half an octave
        const auto& shape = problem.b;
        for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
            const double edge = std::sqrt(static_cast<double>(shape.grid().tile_elements(shape.tile(s))));
            bins[static_cast<int>(std::floor(2 * std::log2(edge)))] += 1 / static_cast<double>(shape.tile_count());
        }
        PlotLine line{v, {}, false};
        for (const auto& [bin, share] : bins) line.points.push_back({std::exp2((bin + 0.5) / 2), share});
        f.plot.lines.push_back(std::move(line));
        if (std::string(v) == "v1") {
            f.printed.push_back({"v1, mean rows of a block", "", 700, mean_edge(problem.a.grid(), 0, 0), "Table I"});
            f.printed.push_back({"v1, mean columns of a block", "", 700, mean_edge(problem.b.grid(), 2, 3), "Table I"});
        }
    }
    f.notes = {"Bins are half octaves. Table I gives ranges for v2 (500 to 2,500) and v3 (1,000 to 5,000)."};
}

void ipdps_table(Cases& cases, Figure& f) {
    struct Row {
        const char* v;
        double tflop, products, t, density_v, r;
    };
    for (const auto& row : {Row{"v1", 850, 1843309, 9.8, 2.4, 14.9}, Row{"v2", 899, 455159, 10.2, 2.6, 16.1},
                            Row{"v3", 1209, 66315, 13.2, 3.1, 21.7}}) {
        const auto c = alkane_on_summit(row.v, 3);
        const auto add = [&](const char* what, const char* unit, double published, auto y) {
            add_printed(cases, f, fmt::format("{}: {}", row.v, what), unit, published, "Table I", c, y);
        };
        add("flops (opt.)", "Tflop", row.tflop, [](const PaperOutcome& o) { return o.flops / 1e12; });
        add("GEMM tasks (opt.)", "", row.products, [](const PaperOutcome& o) { return o.products; });
        add("density of T", "%", row.t, [](const PaperOutcome& o) { return 100 * o.density[0]; });
        add("density of V", "%", row.density_v, [](const PaperOutcome& o) { return 100 * o.density[1]; });
        add("density of R (opt.)", "%", row.r, [](const PaperOutcome& o) { return 100 * o.density[2]; });
    }
    f.notes = {"docs/ALKANE.md says how the tiles are made."};
}

/// Two distributions of one product, DBCSR's section 3: the linear grid with the way there of what moves, and the
/// square one. Time of the second over that of the first.
void dbcsr_3(Cases& cases, Figure& f, bool small_c) {
    f.plot = {fmt::format("Rectangular products, {}: time on a square grid over that on a linear one",
                          small_c ? "C small" : "B small"),
              "nodes",
              "ratio",
              true,
              false,
              {}};
    const auto daint = read_machine("pizdaint").machine;
    for (const double density : {0.5, 0.1}) {
        const auto problem =
            fmt::format("synthetic:{},1000,{},{:g},20,60", small_c ? 1000 : 1000000, small_c ? 1000000 : 1000, density);
        PlotLine line{fmt::format("{:g} % occupied", 100 * density), {}, false};
        double best = 0;
        for (const int side : {2, 4, 6, 8, 10}) {
            const PaperCase linear{
                problem, small_c ? "split_k" : "replicate_b", "auto", "stored", "", side * side, -1, {}, "pizdaint"};
            const PaperCase square{
                problem, "outer_product", "auto", "stored", fmt::format("{0}x{0}", side), side * side, -1,
                {},      "pizdaint"};
            const auto *one = cases.at(f, linear), *two = cases.at(f, square);
            if (!one || !two) continue;
            // A, B and C come from and go to the square grid (equations 2 and 5).
            const double moved = one->stored_bytes / (side * side) / daint.network.bytes_per_second;
            line.points.push_back({static_cast<double>(side * side), two->seconds / (one->seconds + moved)});
            best = std::max(best, line.points.back().y);
        }
        if (best > 0 && (small_c ? density == 0.5 : true))
            f.printed.push_back({fmt::format("largest ratio, {:g} % occupied", 100 * density), "ratio",
                                 small_c          ? 3
                                 : density == 0.5 ? 2.0
                                                  : 1.2,
                                 best,
                                 small_c          ? "3.1: up to 3x"
                                 : density == 0.5 ? "3.2: up to 100 % at about 50 %"
                                                  : "3.2: up to 20 % above 10 %"});
        f.plot.lines.push_back(std::move(line));
    }
    f.notes = {
        "M, N, K of the order 1e3, 1e3, 1e6; blocks of 20 to 60. The paper names neither its blocks nor its numbers of "
        "nodes in the text; the ratios are read as the largest of each curve.",
        "machines/pizdaint.json has figures of data sheets alone; nothing is fitted to DBCSR.",
        "The linear grid pays the way of A, B and C from and to the square one: their bytes over all nodes' networks."};
}

struct Known {
    const char *id, *source;
    std::function<void(Cases&, Figure&, const MachineModel&)> draw;
};

const std::vector<Known>& known() {
    using F = Figure&;
    using C = Cases&;
    using M = const MachineModel&;
    static const std::vector<Known> all = {
        {"scala-2", "Herault et al., ScalA 2019, Fig. 2", [](C c, F f, M m) { scala_2(c, f, m); }},
        {"scala-3a", "Herault et al., ScalA 2019, Fig. 3a", [](C c, F f, M m) { scala_3(c, f, m, false); }},
        {"scala-3b", "Herault et al., ScalA 2019, Fig. 3b", [](C c, F f, M m) { scala_3(c, f, m, true); }},
        {"scala-4", "Herault et al., ScalA 2019, Fig. 4", [](C c, F f, M m) { scala_4(c, f, m, false); }},
        {"scala-5", "Herault et al., ScalA 2019, Fig. 5", [](C c, F f, M m) { scala_4(c, f, m, true); }},
        {"ipdps-2", "Herault et al., IPDPS 2021, Fig. 2", [](C c, F f, M) { ipdps_2(c, f); }},
        {"ipdps-3a", "Herault et al., IPDPS 2021, Fig. 3, left", [](C c, F f, M) { ipdps_3(c, f, false); }},
        {"ipdps-3b", "Herault et al., IPDPS 2021, Fig. 3, right", [](C c, F f, M) { ipdps_3(c, f, true); }},
        {"ipdps-table1", "Herault et al., IPDPS 2021, Table I", [](C c, F f, M) { ipdps_table(c, f); }},
        {"ipdps-5", "Herault et al., IPDPS 2021, Fig. 5", [](C c, F f, M) { ipdps_5(c, f); }},
        {"ipdps-6", "Herault et al., IPDPS 2021, Fig. 6", [](C c, F f, M) { ipdps_6(c, f); }},
        {"ipdps-7", "Herault et al., IPDPS 2021, Fig. 7", [](C c, F f, M) { ipdps_7(c, f); }},
        {"ipdps-8", "Herault et al., IPDPS 2021, Fig. 8", [](C c, F f, M) { ipdps_8(c, f); }},
        {"dbcsr-3a", "Sivkov et al. 2019, Fig. 3a", [](C c, F f, M) { dbcsr_3(c, f, true); }},
        {"dbcsr-3b", "Sivkov et al. 2019, Fig. 3b", [](C c, F f, M) { dbcsr_3(c, f, false); }},
    };
    return all;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> known_figures() {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& k : known()) out.emplace_back(k.id, k.source);
    return out;
}

std::vector<Figure> draw_figures(const std::vector<std::string>& only,
                                 const std::function<void(int, int, const std::string&)>& on_case) {
    for (const auto& id : only) {
        const auto& all = known();
        if (std::ranges::none_of(all, [&](const Known& k) { return k.id == id; })) {
            std::vector<std::string> ids;
            for (const auto& k : all) ids.emplace_back(k.id);
            user_error("--only {}: no such figure; there are {}", id, fmt::join(ids, ", "));
        }
    }
    const auto summit = read_machine("summit").machine;
    Cases cases;
    const auto draw = [&] {
        std::vector<Figure> out;
        for (const auto& k : known()) {
            if (!only.empty() && std::ranges::find(only, k.id) == only.end()) continue;
            auto& figure = out.emplace_back();
            figure.id = k.id;
            figure.source = k.source;
            k.draw(cases, figure, summit);
        }
        return out;
    };
    draw();
    cases.simulate_all(on_case);
    return draw();
}

}  // namespace tessera::app
