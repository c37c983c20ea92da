#include "tessera/shape/shape.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/hash.hpp"

namespace tessera {

namespace {

std::uint64_t hashed(std::uint64_t hash, std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * kMixFirst;
    return hash ^ (hash >> 32);
}

}  // namespace

Shape::Shape() {
    static const Shape none{TileGrid()};
    tiles_ = none.tiles_;
}

Shape::Shape(TileGrid grid) : Shape(std::move(grid), std::vector<std::int64_t>(), std::vector<double>()) {}

Shape::Shape(TileGrid grid, std::vector<ShapeEntry> entries) {
    const auto by_tile = [](const ShapeEntry& x, const ShapeEntry& y) { return x.tile < y.tile; };
    if (!std::is_sorted(entries.begin(), entries.end(), by_tile)) std::sort(entries.begin(), entries.end(), by_tile);
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    ordinals.reserve(entries.size());
    norms.reserve(entries.size());
    for (const auto& e : entries) {
        ordinals.push_back(e.tile.value);
        norms.push_back(e.norm);
    }
    *this = Shape(std::move(grid), std::move(ordinals), std::move(norms));
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
    std::vector<std::int64_t> ordinals(static_cast<std::size_t>(tiles));
    std::iota(ordinals.begin(), ordinals.end(), 0);
    return Shape(std::move(grid), std::move(ordinals), std::vector<double>(static_cast<std::size_t>(tiles), norm));
}

Shape Shape::from_sorted(TileGrid grid, std::vector<std::int64_t> ordinals, std::vector<double> norms,
                         const Symmetry& symmetry) {
    require(ordinals.size() == norms.size(), "shape: {} tiles but {} norms", ordinals.size(), norms.size());
    return Shape(std::move(grid), std::move(ordinals), std::move(norms), symmetry);
}

Shape Shape::with_symmetry(const Symmetry& wanted) const {
    if (wanted == symmetry()) return *this;
    require(symmetry().none(), "shape: has the symmetry '{}', and shall have '{}'", symmetry().text(), wanted.text());
    wanted.require_fits(grid());
    std::vector<ShapeEntry> entries;
    entries.reserve(static_cast<std::size_t>(tile_count()));
    for (std::int64_t s = 0; s < tile_count(); ++s) entries.push_back({wanted.stand_in(grid(), tile(s)), norm_of(s)});
    std::ranges::stable_sort(entries, {}, &ShapeEntry::tile);
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (i == 0 || entries[i].tile != entries[i - 1].tile) {
            ordinals.push_back(entries[i].tile.value);
            const auto own = find(entries[i].tile);
            norms.push_back(own ? norm_of(*own) : entries[i].norm);
        } else if (!find(entries[i].tile)) {
            norms.back() = std::max(norms.back(), entries[i].norm);
        }
    }
    return Shape(grid(), std::move(ordinals), std::move(norms), wanted);
}

Shape Shape::with_norms(std::vector<double> norms) const {
    require(norms_.size() == norms.size(), "shape: {} tiles but {} norms", norms_.size(), norms.size());
    Shape out;
    out.tiles_ = tiles_;
    out.norms_ = std::move(norms);
    out.check_norms();
    return out;
}

Shape::Shape(TileGrid grid, std::vector<std::int64_t> ordinals, std::vector<double> norms, const Symmetry& symmetry)
    : norms_(std::move(norms)) {
    symmetry.require_fits(grid);
    const auto tiles = std::make_shared<Tiles>();
    tiles->symmetry = symmetry;
    tiles->grid = std::move(grid);
    tiles->ordinals = std::move(ordinals);
    tiles_ = tiles;
    std::int64_t previous = -1;
    std::uint64_t hash = kGamma + static_cast<std::uint64_t>(tiles->grid.rank());
    for (const auto& tiling : tiles->grid.tilings())
        for (const auto at : tiling.offsets()) hash = hashed(hash, at);
    // Messages are made only when needed: to_string for each of 300,000 tiles would be most of the work here.
    for (const auto ordinal : tiles->ordinals) {
        const TileOrdinal tile{ordinal};
        require(tiles->grid.contains(tile), "shape: tile number {} is outside 0..{}", tile.value,
                tiles->grid.tile_total() - 1);
        if (tile.value == previous) user_error("shape: tile {} stands twice", to_string(tiles->grid.coordinates(tile)));
        require(tile.value > previous, "shape: tile numbers are not sorted: {} after {}", tile.value, previous);
        if (!symmetry.none())
            if (const auto first = symmetry.stand_in(tiles->grid, tile); first != tile)
                user_error("shape: with the symmetry '{}' tile {} is stored for tile {}", symmetry.text(),
                           to_string(tiles->grid.coordinates(first)), to_string(tiles->grid.coordinates(tile)));
        tiles->elements += tiles->grid.tile_elements(tile);
        hash = hashed(hash, ordinal);
        previous = tile.value;
    }
    for (const auto& e : symmetry.elements())
        for (const int d : e.order.map()) hash = hashed(hash, e.sign * (2 * d + e.conjugate + 1));
    tiles->hash = hash;
    check_norms();
}

void Shape::check_norms() const {
    for (std::size_t i = 0; i < norms_.size(); ++i)
        if (!(std::isfinite(norms_[i]) && norms_[i] >= 0))
            user_error("shape: tile {} has norm {}; a finite number >= 0 is needed",
                       to_string(grid().coordinates(tile(static_cast<std::int64_t>(i)))), norms_[i]);
}

bool Shape::same_tiles(const Shape& other) const {
    if (tiles_ == other.tiles_) return true;
    return tiles_->hash == other.tiles_->hash && tiles_->grid == other.tiles_->grid &&
           tiles_->symmetry == other.tiles_->symmetry && tiles_->ordinals == other.tiles_->ordinals;
}

std::optional<std::int64_t> Shape::find(TileOrdinal tile) const {
    const auto& ordinals = tiles_->ordinals;
    const auto it = std::lower_bound(ordinals.begin(), ordinals.end(), tile.value);
    if (it == ordinals.end() || *it != tile.value) return std::nullopt;
    return it - ordinals.begin();
}

double Shape::density() const {
    const auto all = grid().element_total();
    return all == 0 ? 0.0 : static_cast<double>(elements()) / static_cast<double>(all);
}

double Shape::norm() const {
    // Scaled, so that tiles of norm 1e200 do not overflow the sum of squares.
    const double top = norms_.empty() ? 0.0 : *std::max_element(norms_.begin(), norms_.end());
    if (top == 0) return 0;
    double sum = 0;
    for (std::int64_t s = 0; s < tile_count(); ++s)
        sum += static_cast<double>(symmetry().orbit(grid(), tile(s))) * (norms_[s] / top) * (norms_[s] / top);
    return top * std::sqrt(sum);
}

std::int64_t Shape::metadata_bytes() const {
    std::int64_t bytes = static_cast<std::int64_t>(tiles_->ordinals.capacity() * sizeof(std::int64_t) +
                                                   norms_.capacity() * sizeof(double));
    for (const auto& t : grid().tilings()) bytes += static_cast<std::int64_t>(t.offsets().size_bytes());
    return bytes;
}

}  // namespace tessera
