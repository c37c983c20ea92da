#pragma once
// What follows from a plan's tensors alone, for those who check what the plan says of itself.

#include <cstdint>

#include "base/units.hpp"
#include "machine/device_layout.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

class PlanFacts {
  public:
    explicit PlanFacts(const Plan& plan) : plan_(plan) {}

    const Plan& plan() const { return plan_; }
    bool stored(Operand o) const { return (o == Operand::a ? plan_.source_a : plan_.source_b) == SourceKind::stored; }
    const Shape& shape(Operand o) const { return o == Operand::a ? plan_.a : o == Operand::b ? plan_.b : plan_.c; }
    int owner(Operand o, std::int32_t slot) const {
        if (plan_.ranks == 1) return 0;
        const auto& d = o == Operand::a   ? plan_.distribution_a
                        : o == Operand::b ? plan_.distribution_b
                                          : plan_.distribution_c;
        return d.owner(shape(o).grid(), shape(o).tile(slot));
    }
    /// Bytes of a tile, and of the place it takes in host memory. (Devices hold tiles as padded matrices.)
    std::int64_t payload(Operand o, std::int32_t slot) const {
        return shape(o).grid().tile_elements(shape(o).tile(slot)) * bytes_of(plan_.scalar);
    }
    std::int64_t host_bytes(Operand o, std::int32_t slot) const { return align_up(payload(o, slot)); }

    /// What a result tile takes on its way from a device.
    std::int64_t device_bytes(const ContractionSpec& spec, std::int32_t c) const {
        const auto at = plan_.c.grid().coordinates(plan_.c.tile(c));
        std::int64_t batch = 1, rows = 1, columns = 1;
        for (int d = 0; d < at.size(); ++d) {
            const auto role = spec.role(spec.c()[static_cast<std::size_t>(d)]);
            (role == LabelRole::batch    ? batch
             : role == LabelRole::free_b ? columns
                                         : rows) *= plan_.c.grid().tiling(d).size(TileIndex{at[d]});
        }
        return device_tile_bytes(batch, rows, columns, bytes_of(plan_.scalar));
    }

  private:
    const Plan& plan_;
};

/// Bytes that are moved and held are those that are counted, and within the budgets.
void check_counts(const PlanFacts& facts, const PlanBudget& budget);

}  // namespace tessera
