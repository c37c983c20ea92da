#pragma once
// Which rank owns a tile: computed from its coordinates, never stored per tile.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

/// An n-dimensional grid of ranks laid over a tile grid: each tensor index is dealt to the ranks of one dimension, tile
/// by tile in turn (cyclic) or in contiguous blocks of tiles.
class Distribution {
  public:
    enum class Deal : std::uint8_t { cyclic, blocked };
    struct Axis {
        std::int32_t ranks = 1;
        Deal deal = Deal::cyclic;
        bool operator==(const Axis&) const = default;
    };

    /// All tiles on rank 0 of 1.
    Distribution() = default;
    /// One axis per tensor index; the product of their ranks is at most `ranks` (ranks beyond it own nothing).
    Distribution(int ranks, std::vector<Axis> axes);
    /// Ranks as square as they factor over the two indices with the most tiles.
    static Distribution even(const TileGrid& grid, int ranks);

    int ranks() const { return ranks_; }
    const std::vector<Axis>& axes() const { return axes_; }
    int owner(const TileGrid& grid, TileOrdinal tile) const;
    bool operator==(const Distribution&) const = default;

  private:
    int ranks_ = 1;
    std::vector<Axis> axes_;
};

/// "4 ranks as 2 x 2 x 1"
std::string to_string(const Distribution& d);

}  // namespace tessera
