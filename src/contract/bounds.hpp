#pragma once
// Contractions of element ranges: an operand seen as if all elements outside were zero. Tiles outside are left out
// where they lie, tiles that a range cuts are copied.

#include <vector>

#include "contract/planned_impl.hpp"
#include "storage/tile_source.hpp"
#include "tensor/boxes.hpp"

namespace tessera {

/// The elements of an operand (0 or 1) that bounds leave. Bounds of labels it does not have are others'.
Box window_of(const ContractionSpec& spec, int operand, const TileGrid& grid, const std::vector<IndexBounds>& bounds);
/// UserError where a label is not in the spec, is named twice, or its range is not within its index.
void require_bounds(const std::vector<std::string>& labels, const std::string& spec,
                    std::span<const TileGrid* const> operands, const std::vector<IndexBounds>& bounds);
void require_bounds(const ContractionSpec& spec, std::span<const TileGrid* const> operands,
                    const std::vector<IndexBounds>& bounds);

/// The tiles that meet the window. Their norms are those of the whole tiles: upper bounds.
Shape bounded_shape(const Shape& x, const Box& window);
/// Those of them that it cuts.
Shape cut_shape(const Shape& x, const Box& window);

/// Zeros where a tile's elements are outside.
template <Scalar T>
void zero_outside(const TileInfo& info, const Box& window, std::span<T> tile);
/// A copy: the tiles that meet the window, or (`cut`) those that it cuts.
template <Scalar T>
Tensor<T> bounded(const Tensor<T>& x, const Box& window, bool cut, int threads);
/// The same for tiles that are made.
template <Scalar T>
GeneratedTensor<T> bounded(const GeneratedTensor<T>& x, const Box& window);

}  // namespace tessera
