#pragma once
// Which tiles of a tile grid are nonzero, with a norm for each: a sorted list, never a dense table.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/tile_grid.hpp"
#include "tessera/shape/symmetry.hpp"

namespace TESSERA_API tessera {

struct ShapeEntry {
    TileOrdinal tile;
    double norm = 0;  // Frobenius norm of the tile, or an upper bound on it
};

/// A product of two nonzero tiles, by their slots in A and B.
struct TileProduct {
    std::int32_t a = 0, b = 0;
    bool operator==(const TileProduct&) const = default;
};

/// Tiles stand in ascending ordinal; a tile's position in that order is its slot. Copies, and shapes of the same tiles
/// with other norms, share the list of tiles.
class Shape {
  public:
    /// No nonzero tile.
    Shape();
    explicit Shape(TileGrid grid);
    /// Entries in any order; each tile at most once, norms finite and not negative.
    Shape(TileGrid grid, std::vector<ShapeEntry> entries);
    /// Every tile, all with the same norm.
    static Shape dense(TileGrid grid, double norm = 1.0);
    /// Tiles by their coordinates, in any order, each at most once; all with the same norm, or each with its own.
    static Shape from_coordinates(TileGrid grid, std::span<const IndexVector> tiles, double norm = 1.0);
    static Shape from_coordinates(TileGrid grid, std::initializer_list<IndexVector> tiles, double norm = 1.0) {
        return from_coordinates(std::move(grid), std::span<const IndexVector>(tiles.begin(), tiles.size()), norm);
    }
    static Shape from_coordinates(TileGrid grid, std::span<const IndexVector> tiles, std::span<const double> norms);
    /// From ordinals already sorted, as files and planners have them (checked).
    static Shape from_sorted(TileGrid grid, std::vector<std::int64_t> ordinals, std::vector<double> norms,
                             const Symmetry& symmetry = {});
    /// Of a shape without symmetry the tiles that are stored with this one: one for all that follow from each other,
    /// where any of them is nonzero, with its own norm, or the largest of theirs where it is zero.
    Shape with_symmetry(const Symmetry& symmetry) const;
    /// The same tiles with these norms.
    Shape with_norms(std::vector<double> norms) const;

    const TileGrid& grid() const { return tiles_->grid; }
    std::int64_t tile_count() const { return static_cast<std::int64_t>(tiles_->ordinals.size()); }
    bool empty() const { return tiles_->ordinals.empty(); }
    TileOrdinal tile(std::int64_t slot) const { return TileOrdinal{tiles_->ordinals[slot]}; }
    double norm_of(std::int64_t slot) const { return norms_[slot]; }
    std::span<const std::int64_t> ordinals() const { return tiles_->ordinals; }
    std::span<const double> norms() const { return norms_; }
    /// The slot of a tile, if it is nonzero.
    std::optional<std::int64_t> find(TileOrdinal tile) const;

    /// Where there is one, each tile stands for all that follow from it, and the tiles here are those that are stored.
    const Symmetry& symmetry() const { return tiles_->symmetry; }

    /// Whether both have the same tilings, symmetry and nonzero tiles; norms do not matter. Quick where they share the
    /// list, or differ.
    bool same_tiles(const Shape& other) const;
    /// A hash of tilings and nonzero tiles: equal where same_tiles() is true.
    std::uint64_t tiles_hash() const { return tiles_->hash; }

    /// Elements in the tiles here, and their share of all elements (0 for a tensor without elements).
    std::int64_t elements() const { return tiles_->elements; }
    double density() const;
    /// Frobenius norm of the whole: the root of the sum of squares, each tile as often as it stands for one.
    double norm() const;
    std::int64_t metadata_bytes() const;
    bool operator==(const Shape& other) const { return norms_ == other.norms_ && same_tiles(other); }

  private:
    struct Tiles {
        TileGrid grid;
        std::vector<std::int64_t> ordinals;
        std::int64_t elements = 0;
        std::uint64_t hash = 0;
        Symmetry symmetry = {};
    };
    Shape(TileGrid grid, std::vector<std::int64_t> ordinals, std::vector<double> norms, const Symmetry& symmetry = {});
    void check_norms() const;
    std::shared_ptr<const Tiles> tiles_;
    std::vector<double> norms_;
};

}  // namespace tessera
