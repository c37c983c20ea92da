#pragma once
// Which rank owns a tile: computed from its coordinates, never stored per tile.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/permutation.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

/// An n-dimensional grid of ranks laid over a tile grid: each tensor index is dealt to the ranks of one dimension, tile
/// by tile in turn (cyclic), in contiguous blocks of tiles, or as a list says (mapped). Indices may also be dealt
/// together, by a table (patches).
class Distribution {
  public:
    enum class Deal : std::uint8_t { cyclic, blocked, mapped };
    struct Axis {
        std::int32_t ranks = 1;
        Deal deal = Deal::cyclic;
        std::vector<std::int32_t> map = {};  // mapped: which of the axis's ranks has each tile
        bool operator==(const Axis&) const = default;
    };

    /// Several tensor indices dealt together by a table: what each of their tiles, the last index fastest, adds to the
    /// rank.
    struct Patches {
        std::vector<std::int32_t> indices = {};  // ascending
        std::vector<std::int64_t> tiles = {};    // of each of these indices
        std::vector<std::int32_t> map = {};
        bool operator==(const Patches&) const = default;
    };

    /// All tiles on rank 0 of 1.
    Distribution() = default;
    /// One axis per tensor index; the product of their ranks is at most `ranks` (ranks beyond it own nothing).
    Distribution(int ranks, std::vector<Axis> axes);
    /// Ranks as square as they factor over the two indices with the most tiles.
    static Distribution even(const TileGrid& grid, int ranks);
    /// One list per tensor index: tile t of index d is on coordinate maps[d][t] of the grid of ranks, whose last
    /// dimension counts fastest. `sides` are the ranks along each index; not given, one more than the index's largest
    /// coordinate.
    static Distribution from_maps(int ranks, std::vector<std::vector<std::int32_t>> maps,
                                  std::vector<std::int32_t> sides = {});

    /// Groups of indices, each dealt by its table: a tile is on the rank that the entries of all groups add up to. An
    /// index is in one group at most; one that is in none does not matter.
    static Distribution from_patches(int ranks, int tensor_rank, std::vector<Patches> patches);

    /// For the tensor whose index d is index p[d] of this one's: each tile stays with its rank.
    Distribution permuted(const Permutation& p) const;
    /// For the part of a tensor with this grid that has tiles first[d], first[d] + 1, ... count[d] of them: likewise.
    Distribution sliced(const TileGrid& grid, const IndexVector& first, const IndexVector& count) const;
    /// UserError where the grid has another number of indices, or of tiles along an index with a list.
    void require_fits(const TileGrid& grid) const;

    int ranks() const { return ranks_; }
    const std::vector<Axis>& axes() const { return axes_; }
    const std::vector<Patches>& patches() const { return patches_; }
    /// By how much the rank grows with each coordinate; 0 along an index on a single rank.
    const std::vector<std::int64_t>& steps() const { return steps_; }
    int owner(const TileGrid& grid, TileOrdinal tile) const;
    bool operator==(const Distribution&) const = default;

  private:
    int ranks_ = 1;
    std::vector<Axis> axes_;
    std::vector<std::int64_t> steps_;
    std::vector<Patches> patches_;
};

/// "4 ranks as 2 x 2 x 1"; different for any two that differ.
std::string to_string(const Distribution& d);

}  // namespace tessera
