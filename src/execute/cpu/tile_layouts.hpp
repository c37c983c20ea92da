#pragma once
// The layouts of an operand's tiles as matrices, one per distinct tile extents.

#include <cstdint>
#include <string>
#include <vector>

#include "index/matrix_view.hpp"
#include "kernels/layout.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// A tile seen by the contraction: a matrix for each point of the batch indices.
struct TileLayout {
    kernels::MatrixLayout matrix;
    kernels::Axes batch;
};

/// Rows, columns and batch of an operand's tiles, given the labels that walk each of them.
class TileLayouts {
  public:
    TileLayouts(const Shape& shape, const std::string& labels, const std::string& rows, const std::string& cols,
                const std::string& batch);
    const TileLayout& operator[](std::int64_t slot) const { return layouts_[class_of_[slot]]; }

  private:
    std::vector<TileLayout> layouts_;
    std::vector<std::int32_t> class_of_;
};

}  // namespace tessera
