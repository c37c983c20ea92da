#pragma once
// What a PlannedEinsum holds.

#include <optional>

#include "contract/einsum_order.hpp"
#include "tessera/contract/einsum.hpp"

namespace tessera {

struct PlannedEinsum::Impl {
    EinsumSpec spec{"->"};
    EinsumOrder order;
    std::vector<PlannedContraction> steps;
    std::vector<Shape> shapes;  // of the operands
    Resources here;
    Communicator* ranks = nullptr;
    ContractOptions options;
    std::optional<Shape> given;  // what its result_shape points to
    PlanOptions how;
    ScalarKind scalar = ScalarKind::f64;
    bool into = false;
    std::int64_t peak_bytes = 0;
    double seconds = 0;

    int operands() const { return spec.count(); }
    /// Whether a part is held while a step runs, besides the two that it contracts.
    bool held(int part, int step) const {
        const auto& s = order.steps[static_cast<std::size_t>(step)];
        if (part == s.left || part == s.right || part >= operands() + step) return false;
        if (part < operands()) return true;
        for (auto i = static_cast<std::size_t>(step) + 1; i < order.steps.size(); ++i)
            if (order.steps[i].left == part || order.steps[i].right == part) return true;
        return false;
    }
    /// What a step is asked for.
    ContractOptions step_options(int step) const {
        const auto& s = order.steps[static_cast<std::size_t>(step)];
        ContractOptions out;
        if (step + 1 == static_cast<int>(order.steps.size())) {
            out = options;
            out.conjugate.clear();
            out.result_shape = given ? &*given : nullptr;
        } else {
            out.filter = s.filter;
        }
        // Of labels that operands of this step have; intermediates are zero outside already.
        out.bounds.clear();
        for (const auto& b : options.bounds)
            for (const int part : {s.left, s.right})
                if (part < operands() && (out.bounds.empty() || out.bounds.back().label != b.label) &&
                    spec.operands[static_cast<std::size_t>(part)].find(b.label) != std::string::npos)
                    out.bounds.push_back(b);
        out.conjugate_a = s.left < operands() && options.conjugates(s.left);
        out.conjugate_b = s.right < operands() && options.conjugates(s.right);
        return out;
    }
};

}  // namespace tessera
