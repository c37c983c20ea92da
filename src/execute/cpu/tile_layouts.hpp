#pragma once
// The layouts of tiles as matrices, one per distinct tile extents and view: what the interpreter works out from a plan
// alone.

#include <cstdint>
#include <string>
#include <vector>

#include "index/matrix_view.hpp"
#include "kernels/layout.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

/// A tile seen by the contraction: a matrix for each point of the batch indices.
struct TileLayout {
    kernels::MatrixLayout matrix;
    kernels::Axes batch;
};

/// Rows, columns and batch of an operand's tiles, given the labels that walk each of them.
class TileLayouts {
  public:
    TileLayouts(const Shape& shape, const TileViews& views, const std::string& labels, const std::string& rows,
                const std::string& cols, const std::string& batch);
    const TileLayout& operator[](std::int64_t slot) const { return layouts_[class_of_.empty() ? 0 : class_of_[slot]]; }
    std::int64_t bytes() const {
        return static_cast<std::int64_t>(layouts_.capacity() * sizeof(TileLayout) +
                                         class_of_.capacity() * sizeof(std::int32_t));
    }

  private:
    std::vector<TileLayout> layouts_;
    std::vector<std::int32_t> class_of_;  // none where all tiles have the same extents
};

/// Of a plan's tensors.
struct PlanLayouts {
    explicit PlanLayouts(const Plan& plan);
    std::int64_t bytes() const { return a.bytes() + b.bytes() + c.bytes(); }

    TileLayouts a, b, c;
    bool all_batch;  // every index stands in A, B and C

  private:
    PlanLayouts(const Plan& plan, const ContractionSpec& spec);
    PlanLayouts(const Plan& plan, const ContractionSpec& spec, const MatrixView& view);
};

}  // namespace tessera
