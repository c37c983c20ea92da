#pragma once
// Which tiles of a tile grid are nonzero, with a norm for each: a sorted list, never a dense table.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/index/tile_grid.hpp"

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

/// Tiles stand in ascending ordinal; a tile's position in that order is its slot.
class Shape {
  public:
    /// No nonzero tile.
    explicit Shape(TileGrid grid = {});
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
    static Shape from_sorted(TileGrid grid, std::vector<std::int64_t> ordinals, std::vector<double> norms);

    const TileGrid& grid() const { return grid_; }
    std::int64_t tile_count() const { return static_cast<std::int64_t>(ordinals_.size()); }
    bool empty() const { return ordinals_.empty(); }
    TileOrdinal tile(std::int64_t slot) const { return TileOrdinal{ordinals_[slot]}; }
    double norm_of(std::int64_t slot) const { return norms_[slot]; }
    std::span<const std::int64_t> ordinals() const { return ordinals_; }
    std::span<const double> norms() const { return norms_; }
    /// The slot of a tile, if it is nonzero.
    std::optional<std::int64_t> find(TileOrdinal tile) const;

    /// Elements in nonzero tiles, and their share of all elements (0 for a tensor without elements).
    std::int64_t elements() const { return elements_; }
    double density() const;
    /// Frobenius norm of the whole: the root of the sum of squares.
    double norm() const;
    std::int64_t metadata_bytes() const;
    bool operator==(const Shape&) const = default;

  private:
    void check_and_count();
    TileGrid grid_;
    std::vector<std::int64_t> ordinals_;
    std::vector<double> norms_;
    std::int64_t elements_ = 0;
};

}  // namespace tessera
