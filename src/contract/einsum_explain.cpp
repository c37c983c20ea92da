// The order of an einsum for a person, and as JSON.

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "contract/einsum_impl.hpp"

namespace tessera {

std::string PlannedEinsum::spec() const { return impl_->spec.text(); }
std::string PlannedEinsum::tree() const { return impl_->order.tree(); }
const std::vector<PlannedContraction>& PlannedEinsum::steps() const { return impl_->steps; }
double PlannedEinsum::flops() const { return impl_->order.cost.flops; }
double PlannedEinsum::dense_flops() const { return impl_->order.dense.flops; }
bool PlannedEinsum::dense_flops_whole() const { return impl_->order.dense_whole; }
std::int64_t PlannedEinsum::peak_host_bytes() const { return impl_->peak_bytes; }
double PlannedEinsum::seconds() const { return impl_->seconds; }
std::vector<std::string> PlannedEinsum::step_specs() const {
    std::vector<std::string> out;
    for (const auto& s : impl_->order.steps) out.push_back(s.spec);
    return out;
}

namespace {

/// The result of a step: by its plan where there is one.
const Shape& result_of(const PlannedEinsum::Impl& e, std::size_t step) {
    return e.steps.empty() ? e.order.steps[step].result : e.steps[step].plan().c;
}

double scaled(const PlannedEinsum::Impl& e, double flops) { return flops / 2 * flops_per_multiply_add(e.scalar); }

}  // namespace

std::string explain(const PlannedEinsum& planned) {
    const auto& e = planned.impl();
    const auto bytes = bytes_of(e.scalar);
    const bool filtered = e.options.filter > 0;
    const char* bound = filtered ? "at most " : "";
    auto out = fmt::format("einsum {} ({})\n", e.spec.text(), name(e.scalar));
    for (std::size_t o = 0; o < e.shapes.size(); ++o) {
        const auto& s = e.shapes[o];
        out += fmt::format("  {:<10} {:<12} {} of {} tiles, {:.2f} % dense, {}\n", fmt::format("operand {}", o + 1),
                           e.spec.operands[o], format_count(s.tile_count()), format_count(s.grid().tile_total()),
                           100 * s.density(), format_bytes(s.elements() * bytes));
    }
    for (std::size_t i = 0; i < e.order.steps.size(); ++i) {
        const auto& s = e.order.steps[i];
        const auto& c = result_of(e, i);
        const auto part = [&](int p) {
            return p < e.operands() ? fmt::format("{}", p + 1) : fmt::format("step {}", p - e.operands() + 1);
        };
        out += fmt::format("  {:<10} {}: {} and {}, {}{} in {} tile products\n", fmt::format("step {}", i + 1), s.spec,
                           part(s.left), part(s.right), bound, format_flops(scaled(e, s.cost.flops)),
                           format_count(s.products));
        out += fmt::format("  {:<10} gives {}{}, {:.2f} % dense", "", bound, format_bytes(c.elements() * bytes),
                           100 * c.density());
        if (s.filter > 0) out += fmt::format("; tiles below {:.3g} are dropped", s.filter);
        out += "\n";
    }
    out += fmt::format("  tree       {}: {}\n", e.order.tree(),
                       !e.order.exact ? "found greedily and refined"
                       : filtered     ? "the cheapest of all orders, by the bounds of the norms"
                                      : "the cheapest of all orders");
    out += fmt::format("  work       {}{}\n", bound, format_flops(scaled(e, e.order.cost.flops)));
    const double times = e.order.cost.flops > 0 ? e.order.dense.flops / e.order.cost.flops : 1;
    out += fmt::format("  dense      counting dense operands would take {}: {}{}, {:.2f} times as many\n",
                       e.order.dense_tree(), e.order.dense_whole ? "" : "more than ",
                       format_flops(scaled(e, e.order.dense.flops)), times);
    out += fmt::format("  memory     {}{} of tiles{}\n", bound, format_bytes(e.peak_bytes),
                       filtered ? ", by the bounds of the norms" : " at most");
    if (e.here.memory > 0) out += fmt::format("  budget     {}\n", format_bytes(e.here.memory));
    if (filtered) out += fmt::format("  filter     {:g}\n", e.options.filter);
    return out;
}

std::string explain_json(const PlannedEinsum& planned) {
    const auto& e = planned.impl();
    nlohmann::json steps = nlohmann::json::array();
    for (std::size_t i = 0; i < e.order.steps.size(); ++i) {
        const auto& s = e.order.steps[i];
        const auto& c = result_of(e, i);
        steps.push_back({{"spec", s.spec},
                         {"left", s.left},
                         {"right", s.right},
                         {"flops", scaled(e, s.cost.flops)},
                         {"products", s.products},
                         {"filter", s.filter},
                         {"density", c.density()},
                         {"bytes", c.elements() * bytes_of(e.scalar)}});
    }
    const nlohmann::json j = {{"spec", e.spec.text()},
                              {"scalar", name(e.scalar)},
                              {"operands", e.operands()},
                              {"tree", e.order.tree()},
                              {"exact", e.order.exact},
                              {"flops", scaled(e, e.order.cost.flops)},
                              {"dense_tree", e.order.dense_tree()},
                              {"dense_flops", scaled(e, e.order.dense.flops)},
                              {"dense_whole", e.order.dense_whole},
                              {"peak_bytes", e.peak_bytes},
                              {"filter", e.options.filter},
                              {"steps", steps}};
    return j.dump();
}

}  // namespace tessera
