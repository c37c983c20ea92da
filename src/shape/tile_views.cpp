#include "tessera/shape/tile_views.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace tessera {

std::string in_order(const std::string& labels, const Permutation& order) {
    std::string out;
    for (const int d : order.map()) out += labels[static_cast<std::size_t>(d)];
    return out;
}

namespace {

struct Seen {
    TileOrdinal tile;
    int by;
    std::int64_t slot;
};

/// By tile. Of a matrix, where iterations want it again and again, without sorting: a row begins with the mirror images
/// of tiles in the rows before.
std::vector<Seen> all_seen(const Shape& shape) {
    const auto& grid = shape.grid();
    const auto& symmetry = shape.symmetry();
    std::vector<Seen> seen;
    const auto elements = symmetry.elements();
    if (grid.rank() != 2 || elements.size() != 2 || !(elements[1].order == Permutation({1, 0}))) {
        for (std::int64_t s = 0; s < shape.tile_count(); ++s)
            for (const auto& image : symmetry.images(grid, shape.tile(s))) seen.push_back({image.tile, image.by, s});
        std::ranges::sort(seen, {}, &Seen::tile);
        return seen;
    }
    const auto rows = grid.tiling(0).tile_count();
    std::vector<std::size_t> next(static_cast<std::size_t>(rows) + 1);
    std::vector<std::int64_t> row, column;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        row.push_back(shape.tile(s).value / rows);
        column.push_back(shape.tile(s).value % rows);
        ++next[static_cast<std::size_t>(row.back()) + 1];
        if (row.back() != column.back()) ++next[static_cast<std::size_t>(column.back()) + 1];
    }
    for (std::size_t r = 1; r < next.size(); ++r) next[r] += next[r - 1];
    seen.resize(next.back());
    const auto put = [&](std::int64_t i, std::int64_t j, int by, std::size_t s) {
        seen[next[static_cast<std::size_t>(i)]++] = {TileOrdinal{i * rows + j}, by, static_cast<std::int64_t>(s)};
    };
    for (std::size_t s = 0; s < row.size(); ++s)
        if (row[s] != column[s]) put(column[s], row[s], 1, s);
    for (std::size_t s = 0; s < row.size(); ++s) put(row[s], column[s], 0, s);
    return seen;
}

}  // namespace

WholeShape whole_shape(const Shape& shape) {
    const auto& symmetry = shape.symmetry();
    if (symmetry.none()) return {shape, {}};
    const auto& grid = shape.grid();
    const auto seen = all_seen(shape);
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
