#pragma once
// The checksum of a tensor in pieces, for results whose tiles are never together.

#include <cstdint>
#include <span>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/index/tile_grid.hpp"

namespace TESSERA_API tessera {

std::uint64_t tile_checksum(TileOrdinal tile, const void* elements, std::int64_t bytes);
/// Of all nonzero tiles in canonical order, each as the bits of its tile_checksum.
std::uint64_t join_checksums(ScalarKind kind, const TileGrid& grid, std::span<const std::int64_t> tiles);

}  // namespace tessera
