#pragma once
// Device code of a user's own tile source, as docs/gpu.md shows it.

#include <span>

#include "tessera/storage/tile_source.hpp"

namespace tessera::testing {

/// Fills tiles of doubles with own_value (support/own_values.hpp).
void make_own_tiles(std::span<const DeviceTile> tiles, void* stream);
/// Each double becomes changed_value of it.
void change_tiles(std::span<const DeviceTile> tiles, void* stream);
/// Two mistakes of a user's: a kernel that cannot be started, and one that writes where nothing is.
void make_impossible_launch(std::span<const DeviceTile> tiles, void* stream);
void make_bad_access(std::span<const DeviceTile> tiles, void* stream);

}  // namespace tessera::testing
