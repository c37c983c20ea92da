#pragma once
// The inspector: spec, shapes, source kinds and a described machine become one Plan. Pure and deterministic.

#include <cstdint>
#include <string>

#include "shape/product_shape.hpp"
#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

struct PlanRequest {
    const ContractionSpec* spec = nullptr;
    const Shape *a = nullptr, *b = nullptr;
    SourceKind source_a = SourceKind::stored, source_b = SourceKind::stored;
    ScalarKind scalar = ScalarKind::f64;
    ScreeningOptions screening;
    const Shape* accumulate = nullptr;  // shape of the C that is added to, where beta is not zero
    std::int64_t memory = 0;            // bytes for tiles on the host; 0: no limit
    std::int64_t other_bytes = 0;       // tiles held besides: reduced operands' originals, the old C
    std::string algorithm = "auto";
};

/// Throws BudgetError with the smallest budget that works where `memory` is too small.
Plan build_plan(const PlanRequest& request, const MachineModel& machine);

}  // namespace tessera
