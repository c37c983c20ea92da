#pragma once
// Boxes of elements on their way from the tiles of one tensor to those of another.

#include "tensor/tensor_impl.hpp"

namespace tessera {

/// Elements [lo, hi) along each index.
struct Box {
    IndexVector lo, hi;
    IndexVector extents() const;
    bool empty() const;
};
Box box_of(const TileGrid& grid, TileOrdinal tile);
Box meet(const Box& x, const Box& y);
Box shifted(const Box& x, const IndexVector& by);

/// Calls visit(tile) for each tile of the grid that meets the box, in ascending order.
void for_each_tile_in(const TileGrid& grid, const Box& box, const std::function<void(TileOrdinal)>& visit);

/// From one row-major box to another: the elements of `part`, which lies in both.
template <Scalar T>
void copy_box(const T* from, const Box& from_box, T* to, const Box& to_box, const Box& part);

/// Collective. Element e of x, within the window, becomes element e + shift of `to`, wherever x and `to` have tiles;
/// the others of `to` are left. Norms too.
template <Scalar T>
void copy_elements(const Tensor<T>& x, const Box& window, const IndexVector& shift, Tensor<T>& to);

}  // namespace tessera
