#pragma once
// The layouts of an operand's tiles as matrices, one per distinct tile extents.

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/layout.hpp"
#include "tessera/index/contraction_spec.hpp"
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

/// Which labels walk the rows, columns and batch of A, B and C as matrices: in such an order that k is the same in A
/// and B, and the fastest index of an operand is the fastest of its group.
struct MatrixLabels {
    explicit MatrixLabels(const ContractionSpec& spec);
    std::string m, n, k, batch;
};

}  // namespace tessera
