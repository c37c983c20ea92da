#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/units.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

namespace {

/// What it means for the tiles.
const char* meaning(MemoryCase fits) {
    switch (fits) {
        case MemoryCase::all_fits:
            return "A, B and a block of C are on a device at once";
        case MemoryCase::c_fits:
            return "a device's C stays, A and B pass by once";
        case MemoryCase::b_fits:
            return "a device sees a tile of B once; A comes for each block, or stays";
        case MemoryCase::nothing_fits:
            return "C in blocks, A and B come for each of them";
    }
    return "";
}

/// Each parameter as it came to be, and what was asked for.
std::string parameter_lines(const Plan& plan) {
    const auto one = [](const char* what, const auto& given, const auto& used) {
        if (!given && !used) return std::string();
        const auto show = [](double x) { return fmt::format("{}", std::round(x * 1000) / 1000); };
        return fmt::format("{} {} ({})", what, show(used ? *used : *given),
                           given ? "given " + show(*given) : std::string("default"));
    };
    const auto line = [](const char* what, std::vector<std::string> parts) {
        std::erase(parts, "");
        return parts.empty() ? std::string() : fmt::format("  {:<10} {}\n", what, fmt::join(parts, ", "));
    };
    const auto &g = plan.given.parameters, &u = plan.used;
    return line("blocks", {one("share", g.block_share, u.block_share), one("rows", g.block_rows, u.block_rows),
                           one("columns", g.block_cols, u.block_cols)}) +
           line("chunks", {one("share", g.chunk_share, u.chunk_share), one("depth", g.depth, u.depth),
                           one("lookahead", g.lookahead, u.lookahead)});
}

/// The tiles of an operand, or of the result, that are there themselves.
struct StoredTiles {
    std::int64_t tiles = 0, elements = 0;
    double density = 0;
};
StoredTiles stored_tiles(const Plan& plan, Operand o) {
    const auto& shape = plan.shape(o);
    if (o == Operand::c || plan.views(o).empty()) return {shape.tile_count(), shape.elements(), shape.density()};
    StoredTiles out;
    for (std::int32_t s = 0; s < static_cast<std::int32_t>(shape.tile_count()); ++s)
        if (plan.views(o).is_stored(s)) ++out.tiles, out.elements += shape.grid().tile_elements(shape.tile(s));
    const auto all = shape.grid().element_total();
    out.density = all == 0 ? 0.0 : static_cast<double>(out.elements) / static_cast<double>(all);
    return out;
}

std::string operand_line(const char* name, const Plan& plan, Operand o, std::int64_t held, const char* how) {
    const auto stored = stored_tiles(plan, o);
    const auto tiles =
        fmt::format("{} of {} tiles", format_count(stored.tiles), format_count(plan.shape(o).grid().tile_total()));
    return fmt::format("  {:<2} {:<28} {:>6.2f} % dense  {:>10}  {}\n", name, tiles, 100 * stored.density,
                       format_bytes(held), how);
}

const Symmetry& symmetry_of(const Plan& plan, Operand o) {
    return o == Operand::c ? plan.c.symmetry() : plan.views(o).symmetry;
}

/// "A ij=ji, C ij=ji"; nothing where there is none.
std::string symmetries(const Plan& plan) {
    std::string out;
    for (const auto o : {Operand::a, Operand::b, Operand::c})
        if (!symmetry_of(plan, o).none())
            out += fmt::format("{}{} {}", out.empty() ? "" : "; ",
                               o == Operand::a   ? "A"
                               : o == Operand::b ? "B"
                                                 : "C",
                               symmetry_of(plan, o).text());
    if (plan.views_a.folded) out += "; sums folded";
    return out;
}

const char* how(SourceKind kind) {
    return kind == SourceKind::stored      ? "stored"
           : kind == SourceKind::host_made ? "made on demand"
                                           : "made on the device";
}

/// Largest over mean; 1 where all have the same.
template <class Counts, class Of>
double balance(const std::vector<Counts>& counts, Of of) {
    double most = 0, all = 0;
    for (const auto& c : counts) {
        most = std::max(most, static_cast<double>(of(c)));
        all += static_cast<double>(of(c));
    }
    return all > 0 ? most * static_cast<double>(counts.size()) / all : 1;
}

double flops_of(const RankCounts& c) { return c.flops; }
double flops_of_device(const DeviceCounts& c) { return c.flops; }

/// How many times an operand goes into devices, on average.
double loads(const Plan& plan, Operand o) {
    double bytes = 0, size = 0;
    for (const auto& d : plan.device_counts) bytes += static_cast<double>(d.loaded(o));
    size = static_cast<double>(plan.shape(o).elements() * bytes_of(plan.scalar));
    return size > 0 ? bytes / size : 0;
}

/// What goes over one kind of link: all of it, and of the ranks or devices that have one the largest and the mean.
struct LinkRow {
    const char *name, *key, *of;
    std::int64_t total = 0, largest = 0;
    double mean = 0;
};

std::vector<LinkRow> link_rows(const Plan& plan) {
    std::vector<LinkRow> out;
    const auto add = [&](const char* name, const char* key, const char* of, const auto& counts, auto bytes_of_one) {
        LinkRow row{name, key, of};
        for (const auto& c : counts) {
            row.total += bytes_of_one(c);
            row.largest = std::max(row.largest, bytes_of_one(c));
        }
        if (!counts.empty()) row.mean = static_cast<double>(row.total) / static_cast<double>(counts.size());
        out.push_back(row);
    };
    const auto& ranks = plan.rank_counts;
    const auto& devices = plan.device_counts;
    if (plan.ranks > 1) {
        add("network in", "network_in", "rank", ranks, [](const RankCounts& c) { return c.received_bytes; });
        add("network out", "network_out", "rank", ranks, [](const RankCounts& c) { return c.sent_bytes; });
    }
    if (plan.devices_per_rank > 0) {
        add("host to device", "host_to_device", "device", devices,
            [](const DeviceCounts& c) { return c.loaded_bytes; });
        add("device to host", "device_to_host", "device", devices,
            [](const DeviceCounts& c) { return c.stored_bytes; });
        add("device to device", "device_to_device", "device", devices,
            [](const DeviceCounts& c) { return c.copied_bytes; });
    }
    return out;
}

/// How many times a tile of A, and of B, passes by a rank's host, were none to stay from one block to the next.
struct Passes {
    double a = 1, b = 1;
};
Passes passes(const Plan& plan) {
    const auto& n = plan.streams;
    const auto ratio = [](std::int64_t x, std::int64_t y) {
        return y > 0 ? static_cast<double>(x) / static_cast<double>(y) : 1.0;
    };
    return {ratio(n.blocks_a, n.once_a), ratio(n.blocks_b, n.once_b)};
}

/// The published volume of split_k and replicate_b (Sivkov et al. 2019, equations 2 and 4) is what each of P ranks
/// handles, a P-th of it its own. So all of them send P - 1 times as much, less where tiles are in place or not needed.
/// That of outer_product is of a p x q grid whose ranks work block after block (Herault et al., ScalA 2019, III.B): to
/// each of p q ranks Y S_A (1 - 1/q) / p and X S_B (1 - 1/p) / q.
struct PublishedVolume {
    std::string formula = {};  // none
    double bytes = 0;
};
PublishedVolume published_volume(const Plan& plan, Algorithm algorithm) {
    const auto size = [&](const Shape& s) { return static_cast<double>(s.elements() * bytes_of(plan.scalar)); };
    const double a = plan.source_a == SourceKind::stored ? size(plan.a) : 0;
    const double b = plan.source_b == SourceKind::stored ? size(plan.b) : 0;
    const double c = size(plan.c), p = plan.ranks;
    if (plan.ranks > 1 && algorithm == Algorithm::split_k)
        return {"(P-1) [(S_A + S_B)/P + S_C]", (p - 1) * ((a + b) / p + c)};
    if (plan.ranks > 1 && algorithm == Algorithm::replicate_b)
        return {"(P-1) [(S_A + S_B + S_C)/P + S_B]", (p - 1) * ((a + b + c) / p + b)};
    if (plan.ranks > 1 && algorithm == Algorithm::outer_product && plan.algorithm == algorithm) {
        const auto [y, x] = passes(plan);
        return {fmt::format("{:.3g} (q-1) S_A + {:.3g} (p-1) S_B", y, x),
                y * (plan.grid_cols - 1) * a + x * (plan.grid_rows - 1) * b};
    }
    return {};
}

/// What lives on devices, what of it is used in place, and what of the result stays.
std::string resident_lines(const Plan& plan) {
    if (!plan.resident()) return {};
    std::string parts;
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        std::int64_t there = 0;
        for (const auto home : plan.homes(o)) there += home >= 0;
        if (plan.homes(o).empty()) continue;
        parts += fmt::format("{}{} of {} tiles of {}", parts.empty() ? "" : ", ", format_count(there),
                             format_count(plan.shape(o).tile_count()),
                             o == Operand::a   ? "A"
                             : o == Operand::b ? "B"
                                               : "C");
    }
    std::int64_t kept = 0, laid = 0, back = 0;
    for (const auto& d : plan.device_counts) kept = std::max(kept, d.kept_bytes);
    for (const auto& s : plan.steps) {
        if (s.kind == StepKind::copy)
            for (auto i = s.begin; i < s.end; ++i) laid += plan.arrivals[static_cast<std::size_t>(i)].from < 0;
        if (s.kind == StepKind::store && s.peer >= 0) back += s.end - s.begin;
    }
    return fmt::format("  resident   {} live on devices, {} at most on one; {} laid anew there\n", parts,
                       format_bytes(kept), format_count(laid + back));
}

struct Evictions {
    std::int64_t steps = 0, tiles = 0, bytes = 0;
};
Evictions evictions(const Plan& plan) {
    Evictions out;
    for (const auto& s : plan.steps) {
        if (s.kind != StepKind::evict) continue;
        ++out.steps;
        out.tiles += s.end - s.begin;
        for (auto i = s.begin; i < s.end; ++i) out.bytes += plan.arrivals[i].bytes;
    }
    return out;
}

double intensity(const Plan& plan) {
    const auto& n = plan.counts;
    const double bytes = static_cast<double>(n.bytes_a + n.bytes_b + n.bytes_c + n.made_bytes);
    return bytes > 0 ? n.flops / bytes : 0;
}

}  // namespace

std::string explain(const Plan& plan) {
    const auto& n = plan.counts;
    std::int64_t computes = 0;
    for (const auto& s : plan.steps) computes += s.kind == StepKind::compute;
    const std::int64_t element = bytes_of(plan.scalar);
    std::string out = fmt::format("plan for {} ({})\n", plan.spec, name(plan.scalar));
    const auto held = [&](const Shape& s, SourceKind k, std::int64_t bytes) {
        return k == SourceKind::stored ? bytes : s.elements() * element;
    };
    out += operand_line("A", plan, Operand::a, held(plan.a, plan.source_a, n.bytes_a), how(plan.source_a));
    out += operand_line("B", plan, Operand::b, held(plan.b, plan.source_b, n.bytes_b), how(plan.source_b));
    out += operand_line("C", plan, Operand::c, n.bytes_c, "result");
    out += fmt::format("  work       {} in {} tile products, {:.0f} flops per byte of tiles\n", format_flops(n.flops),
                       format_count(n.products), intensity(plan));
    if (const auto all = symmetries(plan); !all.empty()) {
        const auto stored = n.bytes_a + n.bytes_b + n.bytes_c;
        out += fmt::format("  symmetry   {}: {} stored instead of {}, {} instead of {}\n", all, format_bytes(stored),
                           format_bytes(n.whole_bytes), format_flops(n.flops), format_flops(n.whole_flops));
    }
    out += fmt::format("  algorithm  {}: {}\n", name(plan.algorithm), plan.reason);
    out += fmt::format("  steps      {} of work for {} thread{}", format_count(computes), plan.threads,
                       plan.threads == 1 ? "" : "s");
    if (plan.segments > 1) out += fmt::format(", k in {} segments joined by a fixed tree", plan.segments);
    out += "\n";
    if (n.made_tiles > 0) {
        out += fmt::format("  made       {} tiles ({})", format_count(n.made_tiles), format_bytes(n.made_bytes));
        if (plan.buffers > 0)
            out += fmt::format(" in {} stage{}, {} held at a time", format_count(plan.stages),
                               plan.stages == 1 ? "" : "s", plan.buffers);
        out += "\n";
    }
    if (plan.ranks > 1) {
        out += fmt::format("  ranks      {} as {} x {} ({})\n", plan.ranks, plan.grid_rows, plan.grid_cols,
                           plan.given.grid_rows > 0 ? "given" : "default");
        out += fmt::format("  balance    {:.3f} (flops of the busiest rank over the mean)\n",
                           balance(plan.rank_counts, flops_of));
    }
    for (const auto& l : link_rows(plan))
        out += fmt::format("  transfers  {:<17} {:>8} in all; a {} {:>8} on average, {:>8} at most\n", l.name,
                           format_bytes(l.total), l.of, format_bytes(static_cast<std::int64_t>(l.mean)),
                           format_bytes(l.largest));
    if (const auto& t = plan.streams; t.ranks > 0) {
        const auto times = [](std::int64_t sent, std::int64_t once) {
            return once > 0 ? static_cast<double>(sent) / static_cast<double>(once) : 0.0;
        };
        out += fmt::format("  streams    {} rank{} get{} tiles of others through {} in at most {} turns, {} ahead\n",
                           t.ranks, t.ranks == 1 ? "" : "s", t.ranks == 1 ? "s" : "", format_bytes(t.ring_bytes),
                           format_count(t.turns), t.lookahead);
        out += fmt::format("             A sent {:.2f} times, B {:.2f}: {}; each once {}, anew by block {}\n",
                           times(t.sent_a, t.once_a), times(t.sent_b, t.once_b), format_bytes(t.sent_a + t.sent_b),
                           format_bytes(t.once_a + t.once_b), format_bytes(t.blocks_a + t.blocks_b));
    }
    if (plan.devices_per_rank > 0) {
        std::int64_t blocks = 0, chunks = 0;
        for (const auto& d : plan.device_counts) {
            blocks += d.blocks;
            chunks += d.chunks;
        }
        out += resident_lines(plan);
        out += fmt::format("  devices    {} per rank; {} blocks ({}) in {} chunks; balance {:.3f}\n",
                           plan.devices_per_rank, format_count(blocks), names(plan.blocks), format_count(chunks),
                           balance(plan.device_counts, flops_of_device));
        out += fmt::format("  loads      A {:.2f} times, B {:.2f} times\n", loads(plan, Operand::a),
                           loads(plan, Operand::b));
        const auto gone = evictions(plan);
        out += fmt::format("  evicts     {} tiles ({}) in {} steps, each behind their last use\n",
                           format_count(gone.tiles), format_bytes(gone.bytes), format_count(gone.steps));
        out += fmt::format("  on device  {} at most, of {}\n", format_bytes(n.peak_device_bytes),
                           format_bytes(plan.budget.device_bytes));
        out += fmt::format("  case       {}: {}\n", name(plan.memory_case), meaning(plan.memory_case));
        out += parameter_lines(plan);
    }
    if (!plan.decided.empty())
        for (const auto& c : plan.candidates) {
            const bool one_with_devices = plan.ranks == 1 && plan.devices_per_rank > 0;
            auto what = std::string(name(c.algorithm));
            if (one_with_devices && !c.blocks.empty()) what += ", " + names(c.blocks);
            std::string figures = c.reason;
            if (c.possible && !c.same_plan) {
                figures = plan.ranks > 1 ? format_bytes(c.bytes_sent) + " sent, " : "";
                if (plan.devices_per_rank > 0)
                    figures += (c.simulated ? "" : "about ") + format_bytes(c.bytes_loaded) + " to devices, ";
                const auto seconds = format_seconds(c.seconds_predicted);
                figures += (c.simulated || !one_with_devices ? "" : "about ") + format_seconds(c.seconds_predicted) +
                           (c.simulated ? " predicted" : " by counting");
            }
            out += fmt::format("  {} {:<24} {}\n", c.chosen ? "chosen  " : "weighed ", what, figures);
            if (const auto published = published_volume(plan, c.algorithm); c.possible && !published.formula.empty())
                out += fmt::format("           {:<24} published: {} = {}\n", "", published.formula,
                                   format_bytes(static_cast<std::int64_t>(published.bytes)));
        }
    for (std::size_t at = 0; at < plan.decided.size();) {  // a line for each reason
        const auto end = std::min(plan.decided.find("; ", at), plan.decided.size());
        out += fmt::format("  {:<10} {}\n", at == 0 ? "because" : "", plan.decided.substr(at, end - at));
        at = end + 2;
    }
    out += plan.ranks > 1 ? fmt::format("  memory     {} at most on a rank; {} of it received, made or partial\n",
                                        format_bytes(n.peak_host_bytes), format_bytes(n.arena_bytes))
                          : fmt::format("  memory     {} at most: {} A + {} B + {} C + {} made or partial\n",
                                        format_bytes(n.peak_host_bytes), format_bytes(n.bytes_a),
                                        format_bytes(n.bytes_b), format_bytes(n.bytes_c), format_bytes(n.arena_bytes));
    if (plan.budget.host_bytes > 0)
        out += fmt::format("  budget     {} of a rank's host memory\n", format_bytes(plan.budget.host_bytes));
    if (plan.filter > 0)
        out += fmt::format("  filter     {:g}: what is skipped has a norm of at most {:.3g}\n", plan.filter,
                           n.left_out_bound);
    return out;
}

std::string explain_json(const Plan& plan) {
    const auto& n = plan.counts;
    nlohmann::json candidates = nlohmann::json::array(), rank_bytes = nlohmann::json::array(),
                   device_bytes = nlohmann::json::array();
    for (const auto& c : plan.candidates) {
        const auto published = published_volume(plan, c.algorithm);
        candidates.push_back(
            {{"algorithm", name(c.algorithm)},
             {"bytes_published", published.formula.empty() ? nlohmann::json() : nlohmann::json(published.bytes)},
             {"blocks", names(c.blocks)},
             {"bytes_sent", c.bytes_sent},
             {"bytes_loaded", c.bytes_loaded},
             {"seconds_predicted", c.seconds_predicted},
             {"simulated", c.simulated},
             {"same_plan", c.same_plan},
             {"possible", c.possible},
             {"chosen", c.chosen},
             {"reason", c.reason}});
    }
    nlohmann::json parameters = nlohmann::json::object();
    const auto parameter = [&](const char* what, const auto& given, const auto& used) {
        if (given || used) parameters[what] = {{"value", given ? *given : *used}, {"given", given.has_value()}};
        if (used) parameters[what]["used"] = *used;
    };
    parameters["grid"] = {{"value", {plan.grid_rows, plan.grid_cols}}, {"given", plan.given.grid_rows > 0}};
    parameter("block_share", plan.given.parameters.block_share, plan.used.block_share);
    parameter("block_rows", plan.given.parameters.block_rows, plan.used.block_rows);
    parameter("block_cols", plan.given.parameters.block_cols, plan.used.block_cols);
    parameter("chunk_share", plan.given.parameters.chunk_share, plan.used.chunk_share);
    parameter("depth", plan.given.parameters.depth, plan.used.depth);
    parameter("lookahead", plan.given.parameters.lookahead, plan.used.lookahead);
    for (const auto& r : plan.rank_counts) rank_bytes.push_back(r.peak_bytes);
    nlohmann::json resident_bytes = nlohmann::json::array();
    for (const auto& d : plan.device_counts) device_bytes.push_back(d.peak_bytes);
    for (const auto& d : plan.device_counts) resident_bytes.push_back(d.kept_bytes);
    nlohmann::json links = nlohmann::json::object();
    for (const auto& l : link_rows(plan))
        links[l.key] = {{"total", l.total}, {"largest", l.largest}, {"mean", l.mean}, {"of", l.of}};
    const auto gone = evictions(plan);
    const nlohmann::json j = {
        {"spec", plan.spec},
        {"scalar", name(plan.scalar)},
        {"algorithm", name(plan.algorithm)},
        {"reason", plan.reason},
        {"blocks", names(plan.blocks)},
        {"memory_case", plan.devices_per_rank > 0 ? name(plan.memory_case) : ""},
        {"parameters", parameters},
        {"ranks", plan.ranks},
        {"devices_per_rank", plan.devices_per_rank},
        {"grid", {plan.grid_rows, plan.grid_cols}},
        {"flops", n.flops},
        {"products", n.products},
        {"flops_per_byte", intensity(plan)},
        {"density",
         {{"a", stored_tiles(plan, Operand::a).density},
          {"b", stored_tiles(plan, Operand::b).density},
          {"c", stored_tiles(plan, Operand::c).density}}},
        {"tiles",
         {{"a", stored_tiles(plan, Operand::a).tiles},
          {"b", stored_tiles(plan, Operand::b).tiles},
          {"c", stored_tiles(plan, Operand::c).tiles}}},
        {"symmetry",
         {{"a", symmetry_of(plan, Operand::a).text()},
          {"b", symmetry_of(plan, Operand::b).text()},
          {"c", symmetry_of(plan, Operand::c).text()}}},
        {"without_symmetry", {{"bytes", n.whole_bytes}, {"flops", n.whole_flops}}},
        {"bytes",
         {{"a", n.bytes_a},
          {"b", n.bytes_b},
          {"c", n.bytes_c},
          {"arena", n.arena_bytes},
          {"moved_host_to_device", n.loaded_bytes},
          {"moved_device_to_host", n.stored_bytes},
          {"moved_device_to_device", n.copied_bytes},
          {"sent", n.sent_bytes}}},
        {"resident_bytes", resident_bytes},
        {"peak_bytes",
         {{"host", n.peak_host_bytes},
          {"device", n.peak_device_bytes},
          {"ranks", rank_bytes},
          {"devices", device_bytes}}},
        {"streams",
         {{"ranks", plan.streams.ranks},
          {"ring_bytes", plan.streams.ring_bytes},
          {"turns", plan.streams.turns},
          {"lookahead", plan.streams.lookahead},
          {"once", {{"a", plan.streams.once_a}, {"b", plan.streams.once_b}}},
          {"sent", {{"a", plan.streams.sent_a}, {"b", plan.streams.sent_b}}},
          {"for_blocks", {{"a", plan.streams.blocks_a}, {"b", plan.streams.blocks_b}}}}},
        {"budget_bytes", {{"host", plan.budget.host_bytes}, {"device", plan.budget.device_bytes}}},
        {"links", links},
        {"balance", plan.devices_per_rank > 0 ? balance(plan.device_counts, flops_of_device)
                                              : balance(plan.rank_counts, flops_of)},
        {"balance_of_ranks", balance(plan.rank_counts, flops_of)},
        {"loads", {{"a", loads(plan, Operand::a)}, {"b", loads(plan, Operand::b)}}},
        {"evicted", {{"steps", gone.steps}, {"tiles", gone.tiles}, {"bytes", gone.bytes}}},
        {"candidates", candidates},
        {"decided", plan.decided},
        {"made_tiles", n.made_tiles},
        {"made_bytes", n.made_bytes},
        {"stages", plan.stages},
        {"segments", plan.segments},
        {"steps", plan.steps.size()},
        {"threads", plan.threads},
        {"filter", plan.filter},
        {"left_out_bound", n.left_out_bound},
    };
    return j.dump();
}

}  // namespace tessera
