#include "tessera/index/tile_grid.hpp"

#include "base/check.hpp"

namespace tessera {

TileGrid::TileGrid(std::initializer_list<Tiling> tilings) : TileGrid(std::vector<Tiling>(tilings)) {}

TileGrid::TileGrid(std::vector<Tiling> tilings) : tilings_(std::move(tilings)) {
    require(tilings_.size() <= kMaxRank, "tile grid: rank {} is above the highest supported, {}", tilings_.size(),
            kMaxRank);
    strides_ = IndexVector::filled(rank(), 1);
    for (int d = rank() - 1; d >= 0; --d) {
        strides_[d] = tile_total_;
        // An empty index makes the whole grid empty, whatever the others are: strides stay meaningful with max(1, .).
        tile_total_ =
            checked_multiply(tile_total_, std::max<std::int64_t>(1, tilings_[d].tile_count()), "tile grid: tiles");
        element_total_ =
            checked_multiply(element_total_, std::max<std::int64_t>(1, tilings_[d].extent()), "tile grid: elements");
    }
    // With n and stride below 2^32 the error, n * (2^64 mod stride) / 2^64, is less than what would reach the next
    // whole number.
    if (tile_total_ <= INT64_C(1) << 32)
        for (int d = 0; d < rank(); ++d)
            if (strides_[d] > 1) reciprocals_[d] = UINT64_MAX / static_cast<std::uint64_t>(strides_[d]) + 1;
    for (const auto& t : tilings_)
        if (t.tile_count() == 0) tile_total_ = element_total_ = 0;
}

/// n / strides_[d], which stands in loops over all tiles: by a multiplication where the numbers have 32 bits.
inline std::int64_t TileGrid::divide(std::int64_t n, int d) const {
    __extension__ using Wide = unsigned __int128;
    if (strides_[d] == 1) return n;
    if (reciprocals_[d] == 0) return n / strides_[d];
    return static_cast<std::int64_t>(static_cast<Wide>(reciprocals_[d]) * static_cast<std::uint64_t>(n) >> 64);
}

IndexVector TileGrid::extents() const {
    IndexVector v;
    for (const auto& t : tilings_) v.push_back(t.extent());
    return v;
}

IndexVector TileGrid::tile_counts() const {
    IndexVector v;
    for (const auto& t : tilings_) v.push_back(t.tile_count());
    return v;
}

TileOrdinal TileGrid::ordinal(const IndexVector& coordinates) const {
    if (coordinates.size() != rank())
        user_error("tile {}: {} coordinates for a tensor of rank {}", to_string(coordinates), coordinates.size(),
                   rank());
    std::int64_t n = 0;
    for (int d = 0; d < rank(); ++d) {
        // Called for every tile of every operation: the text of the message is made only where it is needed.
        if (coordinates[d] < 0 || coordinates[d] >= tilings_[d].tile_count())
            user_error("tile {}: coordinate {} of index {} is outside 0..{}", to_string(coordinates), coordinates[d], d,
                       tilings_[d].tile_count() - 1);
        n += coordinates[d] * strides_[d];
    }
    return TileOrdinal{n};
}

IndexVector TileGrid::coordinates(TileOrdinal tile) const {
    IndexVector c = strides_;
    std::int64_t rest = tile.value;
    for (int d = 0; d < rank(); ++d) {
        c[d] = divide(rest, d);
        rest -= c[d] * strides_[d];
    }
    return c;
}

IndexVector TileGrid::tile_extents(TileOrdinal tile) const {
    IndexVector v = coordinates(tile);
    for (int d = 0; d < rank(); ++d) v[d] = tilings_[d].size(TileIndex{v[d]});
    return v;
}

IndexVector TileGrid::tile_begin(TileOrdinal tile) const {
    IndexVector v = coordinates(tile);
    for (int d = 0; d < rank(); ++d) v[d] = tilings_[d].begin(TileIndex{v[d]}).value;
    return v;
}

std::int64_t TileGrid::tile_elements(TileOrdinal tile) const {
    std::int64_t n = 1, rest = tile.value;
    for (int d = 0; d < rank(); ++d) {
        const std::int64_t c = divide(rest, d);
        rest -= c * strides_[d];
        n *= tilings_[d].size(TileIndex{c});
    }
    return n;
}

std::string to_string(const TileGrid& grid) {
    if (grid.rank() == 0) return "a scalar";
    const auto e = grid.extents(), t = grid.tile_counts();
    return fmt::format("{} elements, {} tiles", fmt::join(e.begin(), e.end(), " x "),
                       fmt::join(t.begin(), t.end(), " x "));
}

}  // namespace tessera
