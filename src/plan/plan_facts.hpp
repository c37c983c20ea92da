#pragma once
// What follows from a plan's tensors alone, for those who check what the plan says of itself.

#include <cstdint>
#include <vector>

#include "base/units.hpp"
#include "index/matrix_view.hpp"
#include "machine/device_layout.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

class PlanFacts {
  public:
    explicit PlanFacts(const Plan& plan) : plan_(plan), view_(ContractionSpec(plan.spec)) {}

    const Plan& plan() const { return plan_; }
    const MatrixView& view() const { return view_; }
    bool stored(Operand o) const { return plan_.source(o) == SourceKind::stored; }
    const Shape& shape(Operand o) const { return plan_.shape(o); }
    int owner(Operand o, std::int32_t slot) const {
        if (plan_.ranks == 1) return 0;
        return plan_.distribution(o).owner(shape(o).grid(), shape(o).tile(plan_.place(o, slot)));
    }
    /// Whether a device can multiply with the tile, or sum it up, where it is stored.
    bool fits_in_place(Operand o, std::int32_t slot) const {
        const auto order = view_.order(o, shape(o).grid().tile_extents(shape(o).tile(slot)));
        return order == MatrixView::TileOrder::plain || (o != Operand::c && order == MatrixView::TileOrder::transposed);
    }
    /// Bytes of a tile, and of the place it takes in host memory. (Devices hold tiles as padded matrices.)
    std::int64_t payload(Operand o, std::int32_t slot) const {
        return shape(o).grid().tile_elements(shape(o).tile(slot)) * bytes_of(plan_.scalar);
    }
    std::int64_t host_bytes(Operand o, std::int32_t slot) const { return align_up(payload(o, slot)); }

    /// What a tile takes on a device: a padded matrix, m x k of A, k x n of B, m x n of C.
    std::int64_t device_bytes(Operand o, std::int32_t slot) const {
        const auto [rows, cols] = view_.sides(o, shape(o).grid().tile_extents(shape(o).tile(slot)));
        return device_tile_bytes(1, rows, cols, bytes_of(plan_.scalar));
    }

    /// Flops of each product, as a factor for its tile of A and one for its tile of B.
    std::vector<double> flops_a() const {
        std::vector<double> out(static_cast<std::size_t>(plan_.a.tile_count()));
        const double each = flops_per_multiply_add(plan_.scalar);
        for (std::size_t t = 0; t < out.size(); ++t)
            out[t] =
                each * static_cast<double>(plan_.a.grid().tile_elements(plan_.a.tile(static_cast<std::int64_t>(t))));
        return out;
    }
    std::vector<double> flops_b() const {
        std::vector<double> out(static_cast<std::size_t>(plan_.b.tile_count()));
        for (std::size_t t = 0; t < out.size(); ++t) {
            const auto extents = plan_.b.grid().tile_extents(plan_.b.tile(static_cast<std::int64_t>(t)));
            out[t] = static_cast<double>(view_.sides(Operand::b, extents).cols);
        }
        return out;
    }

  private:
    const Plan& plan_;
    MatrixView view_;
};

/// Work, bytes that are moved and bytes that are held are those that are counted, and within the budgets.
void check_counts(const PlanFacts& facts, const PlanBudget& budget);

}  // namespace tessera
