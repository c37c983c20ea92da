#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/units.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

std::int64_t Plan::metadata_bytes() const {
    const auto bytes = [](const auto& v) { return static_cast<std::int64_t>(v.capacity() * sizeof(v[0])); };
    return bytes(products) + bytes(chains) + bytes(partials) + bytes(finish_tiles) + bytes(made_tiles) + bytes(steps) +
           bytes(dependencies) + bytes(skipped) + a.metadata_bytes() + b.metadata_bytes() + c.metadata_bytes();
}

namespace {

std::string operand_line(const char* name, const Shape& shape, std::int64_t held, const char* how) {
    const auto tiles =
        fmt::format("{} of {} tiles", format_count(shape.tile_count()), format_count(shape.grid().tile_total()));
    return fmt::format("  {:<2} {:<28} {:>6.2f} % dense  {:>10}  {}\n", name, tiles, 100 * shape.density(),
                       format_bytes(held), how);
}

const char* how(SourceKind kind) { return kind == SourceKind::stored ? "stored" : "made on demand"; }

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
    out += operand_line("A", plan.a, held(plan.a, plan.source_a, n.bytes_a), how(plan.source_a));
    out += operand_line("B", plan.b, held(plan.b, plan.source_b, n.bytes_b), how(plan.source_b));
    out += operand_line("C", plan.c, n.bytes_c, "result");
    out += fmt::format("  work       {} in {} tile products, {:.0f} flops per byte of tiles\n", format_flops(n.flops),
                       format_count(n.products), intensity(plan));
    out += fmt::format("  algorithm  {}: {}\n", plan.algorithm, plan.reason);
    out += fmt::format("  steps      {} of work for {} thread{}", format_count(computes), plan.threads,
                       plan.threads == 1 ? "" : "s");
    if (plan.segments > 1) out += fmt::format(", k in {} segments joined by a fixed tree", plan.segments);
    out += "\n";
    if (n.made_tiles > 0)
        out += fmt::format("  made       {} tiles ({}) in {} stage{}, {} held at a time\n", format_count(n.made_tiles),
                           format_bytes(n.made_bytes), format_count(plan.stages), plan.stages == 1 ? "" : "s",
                           plan.buffers);
    out += fmt::format("  memory     {} at most: {} A + {} B + {} C + {} made or partial\n",
                       format_bytes(n.peak_host_bytes), format_bytes(n.bytes_a), format_bytes(n.bytes_b),
                       format_bytes(n.bytes_c), format_bytes(n.arena_bytes));
    if (plan.filter > 0)
        out += fmt::format("  filter     {:g}: what is skipped has a norm of at most {:.3g}\n", plan.filter,
                           n.left_out_bound);
    return out;
}

std::string explain_json(const Plan& plan) {
    const auto& n = plan.counts;
    const nlohmann::json j = {
        {"spec", plan.spec},
        {"scalar", name(plan.scalar)},
        {"algorithm", plan.algorithm},
        {"reason", plan.reason},
        {"flops", n.flops},
        {"products", n.products},
        {"flops_per_byte", intensity(plan)},
        {"density", {{"a", plan.a.density()}, {"b", plan.b.density()}, {"c", plan.c.density()}}},
        {"tiles", {{"a", plan.a.tile_count()}, {"b", plan.b.tile_count()}, {"c", plan.c.tile_count()}}},
        {"bytes", {{"a", n.bytes_a}, {"b", n.bytes_b}, {"c", n.bytes_c}, {"arena", n.arena_bytes}}},
        {"peak_bytes", {{"host", n.peak_host_bytes}}},
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
