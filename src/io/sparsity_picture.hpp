#pragma once
// The block sparsity of a tensor as a picture: a matrix of its tiles, darker where elements are larger.

#include <optional>
#include <string>

#include "io/png.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

struct PictureOptions {
    /// How many leading indices are rows, the others being columns. Without it: half of them, at least one.
    std::optional<int> row_indices;
    /// The picture is at most this wide and high.
    int limit = 1200;
};

/// Tiles stand in the proportion of their sizes where every one of them is seen so; else they are equally large; else
/// many share a pixel, which is the paler the fewer of them are nonzero. The shade is log10(norm / sqrt(elements)).
Image draw_sparsity(const Shape& shape, const PictureOptions& options = {});
void write_sparsity_png(const std::string& path, const Shape& shape, const PictureOptions& options = {});

}  // namespace tessera
