#pragma once
// The inspector: spec, shapes, source kinds and a described machine become one Plan. Pure and deterministic.

#include <cstdint>
#include <optional>
#include <string>

#include "shape/product_shape.hpp"
#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

struct PlanRequest {
    const ContractionSpec* spec = nullptr;
    const Shape *a = nullptr, *b = nullptr;
    const TileViews *views_a = nullptr, *views_b = nullptr;  // of operands with symmetry, whose shapes are whole
    SourceKind source_a = SourceKind::stored, source_b = SourceKind::stored;
    ScalarKind scalar = ScalarKind::f64;
    ScreeningOptions screening;
    const Shape* accumulate = nullptr;  // shape of the C that is added to, where beta is not zero
    /// Where stored operands are and the result shall be; where not given, the algorithm's own choice.
    std::optional<Distribution> distribution_a, distribution_b, distribution_c;
    /// The device that stores each tile of an operand, by slot, -1: the host; null: all are on the host. One rank only.
    const std::vector<std::int16_t>*homes_a = nullptr, *homes_b = nullptr;
    /// Of the result, as many bytes of tiles stay on the devices; 0: it goes to the host.
    std::int64_t result_stays = 0;
    std::int64_t device_other_bytes = 0;  // tensors on a device besides
    std::int64_t host_memory = 0;         // bytes for tiles on a rank's host; 0: no limit
    std::int64_t device_memory = 0;       // bytes on each device; 0: the machine's
    std::int64_t other_bytes = 0;         // tiles a rank holds besides: reduced operands' originals, the old C
    PlanOptions how = {};
    std::int64_t planning_memory = 0;  // bytes on the machine that plans, for the plan itself; 0: no limit
    int planning_threads = 1;          // of the machine that plans; no plan depends on it
};

/// Throws BudgetError with the smallest budget that works where memory is too small.
Plan build_plan(const PlanRequest& request, const MachineModel& machine);

}  // namespace tessera
