#pragma once
// Tiles under a symmetry.

#include <span>

#include "tessera/base/scalar.hpp"
#include "tessera/shape/tile_views.hpp"
#include "tessera/storage/tile_source.hpp"

namespace tessera {

/// A tile of these extents as it is seen in the stored one.
template <Scalar T>
void see(const TileView& view, const T* stored, const IndexVector& extents, T* tile);

/// Makes a tile that is exchanged with itself the mean of itself and of what follows from it, which has the symmetry:
/// bit by bit, where that is one exchange of two indices or pairs.
template <Scalar T>
void make_symmetric(const Symmetry& symmetry, const TileInfo& info, std::span<T> tile);

}  // namespace tessera
