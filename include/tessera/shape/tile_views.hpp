#pragma once
// How each tile of a tensor with symmetry is seen in the one that is stored for it.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/shape/shape.hpp"

namespace TESSERA_API tessera {

/// The tile at x is factor times the stored tile, conjugated or not, at y with y[d] = x[order[d]].
struct TileView {
    Permutation order;
    double factor = 1;  // -1 where a sign changes; more where a tile of a folded sum counts for several
    bool conjugate = false;
    bool operator==(const TileView&) const = default;
};

/// By slot of the whole shape. Nothing where each tile is stored itself.
struct TileViews {
    Symmetry symmetry = {};  // that they come from
    bool folded = false;     // a tile may count for others that are left out
    std::vector<TileView> views;
    std::vector<std::int32_t> stand_in;  // the slot of the tile that is stored for it
    std::vector<std::uint16_t> view;     // into views

    bool empty() const { return views.empty(); }
    std::int32_t place(std::int32_t slot) const { return empty() ? slot : stand_in[static_cast<std::size_t>(slot)]; }
    bool is_stored(std::int32_t slot) const { return place(slot) == slot; }
    const TileView& operator[](std::int64_t slot) const { return views[view[static_cast<std::size_t>(slot)]]; }
    std::int64_t bytes() const {
        return static_cast<std::int64_t>(stand_in.capacity() * sizeof(std::int32_t) +
                                         view.capacity() * sizeof(std::uint16_t));
    }
    bool operator==(const TileViews&) const = default;
};

/// The labels of a stored tile, where it is seen with these.
std::string in_order(const std::string& labels, const Permutation& order);

/// All tiles of a shape with symmetry, as a shape without, and how each is seen.
struct WholeShape {
    Shape shape;
    TileViews views;
};
WholeShape whole_shape(const Shape& shape);

}  // namespace tessera
