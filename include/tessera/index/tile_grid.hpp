#pragma once
// The tiles of a tensor: one Tiling per index; tiles are numbered row-major (last index fastest).

#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/index_vector.hpp"
#include "tessera/index/tiling.hpp"

namespace TESSERA_API tessera {

class TileGrid {
  public:
    /// Rank 0: one tile of one element.
    TileGrid() = default;
    TileGrid(std::initializer_list<Tiling> tilings);
    explicit TileGrid(std::vector<Tiling> tilings);

    int rank() const { return static_cast<int>(tilings_.size()); }
    const Tiling& tiling(int index) const { return tilings_[index]; }
    const std::vector<Tiling>& tilings() const { return tilings_; }
    /// Elements along each index.
    IndexVector extents() const;
    /// Tiles along each index.
    IndexVector tile_counts() const;
    std::int64_t tile_total() const { return tile_total_; }
    std::int64_t element_total() const { return element_total_; }

    TileOrdinal ordinal(const IndexVector& coordinates) const;
    IndexVector coordinates(TileOrdinal tile) const;
    IndexVector tile_extents(TileOrdinal tile) const;
    /// First element of the tile along each index.
    IndexVector tile_begin(TileOrdinal tile) const;
    std::int64_t tile_elements(TileOrdinal tile) const;
    bool contains(TileOrdinal tile) const { return tile.value >= 0 && tile.value < tile_total_; }
    /// By how much the ordinal grows with each coordinate.
    const IndexVector& ordinal_strides() const { return strides_; }
    bool operator==(const TileGrid& other) const { return tilings_ == other.tilings_; }

  private:
    std::int64_t divide(std::int64_t n, int d) const;
    std::vector<Tiling> tilings_;
    IndexVector strides_;
    std::array<std::uint64_t, kMaxRank> reciprocals_{};  // ceil(2^64 / stride); 0: not for this one
    std::int64_t tile_total_ = 1, element_total_ = 1;
};

/// "1570 x 1570 elements, 60 x 60 tiles"
std::string to_string(const TileGrid& grid);

}  // namespace tessera
