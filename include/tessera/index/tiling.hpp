#pragma once
// One index range cut into tiles of any sizes.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/ids.hpp"

namespace TESSERA_API tessera {

/// Immutable and cheap to copy. Tiles are numbered from 0; every tile has at least one element.
class Tiling {
  public:
    /// No elements, no tiles.
    Tiling();
    /// Tiles of these sizes, each >= 1.
    Tiling(std::initializer_list<std::int64_t> sizes);
    static Tiling from_sizes(std::span<const std::int64_t> sizes);
    /// Tiles of `tile` elements; the last one may be smaller.
    static Tiling uniform(std::int64_t extent, std::int64_t tile);

    std::int64_t extent() const { return offsets_->back(); }
    std::int64_t tile_count() const { return static_cast<std::int64_t>(offsets_->size()) - 1; }
    std::int64_t size(TileIndex tile) const { return (*offsets_)[tile.value + 1] - (*offsets_)[tile.value]; }
    ElementIndex begin(TileIndex tile) const { return ElementIndex{(*offsets_)[tile.value]}; }
    /// The tile that holds this element.
    TileIndex tile_of(ElementIndex element) const;
    std::int64_t largest_tile() const;
    std::vector<std::int64_t> sizes() const;
    /// tile_count() + 1 numbers: where each tile begins, and the extent.
    std::span<const std::int64_t> offsets() const { return *offsets_; }
    bool operator==(const Tiling& other) const;

  private:
    std::shared_ptr<const std::vector<std::int64_t>> offsets_;
};

/// "1570 in 60 tiles of 14..38"
std::string to_string(const Tiling& tiling);
/// The first tile in which two tilings differ, as in "tile 3 has 5 elements in one, 6 in the other"; nothing where
/// equal.
std::string first_difference(const Tiling& one, const Tiling& other);

}  // namespace tessera
