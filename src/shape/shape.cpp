#include "tessera/shape/shape.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace tessera {

Shape::Shape(TileGrid grid) : grid_(std::move(grid)) {}

Shape::Shape(TileGrid grid, std::vector<ShapeEntry> entries) : grid_(std::move(grid)) {
    const auto by_tile = [](const ShapeEntry& x, const ShapeEntry& y) { return x.tile < y.tile; };
    if (!std::is_sorted(entries.begin(), entries.end(), by_tile)) std::sort(entries.begin(), entries.end(), by_tile);
    ordinals_.reserve(entries.size());
    norms_.reserve(entries.size());
    for (const auto& e : entries) {
        ordinals_.push_back(e.tile.value);
        norms_.push_back(e.norm);
    }
    check_and_count();
}

Shape Shape::from_coordinates(TileGrid grid, std::span<const IndexVector> tiles, double norm) {
    std::vector<ShapeEntry> entries;
    entries.reserve(tiles.size());
    for (const auto& at : tiles) entries.push_back({grid.ordinal(at), norm});
    return Shape(std::move(grid), std::move(entries));
}

Shape Shape::from_coordinates(TileGrid grid, std::span<const IndexVector> tiles, std::span<const double> norms) {
    require(tiles.size() == norms.size(), "shape: {} tiles but {} norms", tiles.size(), norms.size());
    std::vector<ShapeEntry> entries;
    entries.reserve(tiles.size());
    for (std::size_t i = 0; i < tiles.size(); ++i) entries.push_back({grid.ordinal(tiles[i]), norms[i]});
    return Shape(std::move(grid), std::move(entries));
}

Shape Shape::dense(TileGrid grid, double norm) {
    // Plans number tiles with 32 bits, and a list of tiles is held whole.
    const auto tiles = grid.tile_total();
    require(tiles <= INT32_MAX, "shape: {} tiles, at most {} are possible; larger tiles make fewer", tiles, INT32_MAX);
    Shape s(std::move(grid));
    s.ordinals_.resize(static_cast<std::size_t>(tiles));
    for (std::int64_t i = 0; i < tiles; ++i) s.ordinals_[i] = i;
    s.norms_.assign(static_cast<std::size_t>(tiles), norm);
    s.check_and_count();
    return s;
}

Shape Shape::from_sorted(TileGrid grid, std::vector<std::int64_t> ordinals, std::vector<double> norms) {
    require(ordinals.size() == norms.size(), "shape: {} tiles but {} norms", ordinals.size(), norms.size());
    Shape s(std::move(grid));
    s.ordinals_ = std::move(ordinals);
    s.norms_ = std::move(norms);
    s.check_and_count();
    return s;
}

void Shape::check_and_count() {
    std::int64_t previous = -1;
    // Messages are made only when needed: to_string for each of 300,000 tiles would be most of the work here.
    for (std::size_t i = 0; i < ordinals_.size(); ++i) {
        const TileOrdinal tile{ordinals_[i]};
        require(grid_.contains(tile), "shape: tile number {} is outside 0..{}", tile.value, grid_.tile_total() - 1);
        if (tile.value == previous) user_error("shape: tile {} stands twice", to_string(grid_.coordinates(tile)));
        require(tile.value > previous, "shape: tile numbers are not sorted: {} after {}", tile.value, previous);
        if (!(std::isfinite(norms_[i]) && norms_[i] >= 0))
            user_error("shape: tile {} has norm {}; a finite number >= 0 is needed", to_string(grid_.coordinates(tile)),
                       norms_[i]);
        elements_ += grid_.tile_elements(tile);
        previous = tile.value;
    }
}

std::optional<std::int64_t> Shape::find(TileOrdinal tile) const {
    const auto it = std::lower_bound(ordinals_.begin(), ordinals_.end(), tile.value);
    if (it == ordinals_.end() || *it != tile.value) return std::nullopt;
    return it - ordinals_.begin();
}

double Shape::density() const {
    return grid_.element_total() == 0 ? 0.0
                                      : static_cast<double>(elements_) / static_cast<double>(grid_.element_total());
}

double Shape::norm() const {
    // Scaled, so that tiles of norm 1e200 do not overflow the sum of squares.
    const double top = norms_.empty() ? 0.0 : *std::max_element(norms_.begin(), norms_.end());
    if (top == 0) return 0;
    double sum = 0;
    for (double n : norms_) sum += (n / top) * (n / top);
    return top * std::sqrt(sum);
}

std::int64_t Shape::metadata_bytes() const {
    std::int64_t bytes =
        static_cast<std::int64_t>(ordinals_.capacity() * sizeof(std::int64_t) + norms_.capacity() * sizeof(double));
    for (const auto& t : grid_.tilings()) bytes += static_cast<std::int64_t>(t.offsets().size_bytes());
    return bytes;
}

}  // namespace tessera
