#include "tessera/shape/tile_views.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

std::string in_order(const std::string& labels, const Permutation& order) {
    std::string out;
    for (const int d : order.map()) out += labels[static_cast<std::size_t>(d)];
    return out;
}

WholeShape whole_shape(const Shape& shape) {
    const auto& symmetry = shape.symmetry();
    if (symmetry.none()) return {shape, {}};
    const auto& grid = shape.grid();
    struct Seen {
        TileOrdinal tile;
        int by;
        std::int64_t slot;
    };
    std::vector<Seen> seen;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        for (const auto& image : symmetry.images(grid, shape.tile(s))) seen.push_back({image.tile, image.by, s});
    std::ranges::sort(seen, {}, &Seen::tile);
    require(seen.size() <= static_cast<std::size_t>(INT32_MAX), "symmetry '{}': {} tiles in all; at most {}",
            symmetry.text(), seen.size(), INT32_MAX);

    WholeShape out;
    out.views.symmetry = symmetry;
    for (const auto& e : symmetry.elements())
        out.views.views.push_back({e.order, static_cast<double>(e.sign), e.conjugate});
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    std::vector<std::int32_t> place(static_cast<std::size_t>(shape.tile_count()));
    for (const auto& tile : seen) {
        if (tile.tile == shape.tile(tile.slot))  // before the others of its kind
            place[static_cast<std::size_t>(tile.slot)] = static_cast<std::int32_t>(ordinals.size());
        out.views.view.push_back(static_cast<std::uint16_t>(tile.by));
        out.views.stand_in.push_back(place[static_cast<std::size_t>(tile.slot)]);
        ordinals.push_back(tile.tile.value);
        norms.push_back(shape.norm_of(tile.slot));
    }
    out.shape = Shape::from_sorted(grid, std::move(ordinals), std::move(norms));
    return out;
}

}  // namespace tessera
