#pragma once
// Where an operand's tiles come from, and where result tiles go, as those see it who run a plan.

#include <cstdint>
#include <functional>
#include <span>

#include "tessera/storage/tile_source.hpp"

namespace tessera {

/// Tiles in one block of memory, by slot; or each where it is.
template <Scalar T>
struct StoredTiles {
    const T* data = nullptr;
    const std::int64_t* offsets = nullptr;  // in elements
    const T* const* each = nullptr;
    const T* operator()(std::int64_t slot) const { return each ? each[slot] : data + offsets[slot]; }
};

/// Where an operand's tiles are: stored; or made by a generator (thread-safe).
template <Scalar T>
struct TileSource {
    StoredTiles<T> stored;
    TileGenerator<T> make;
    DeviceGenerator on_device = {};  // device_made: how
    /// Of a tile that a device stores: where, in its memory.
    std::function<const T*(std::int64_t slot)> device_tile = {};
};

/// Where the result goes, and what it is added to.
template <Scalar T>
struct TileSink {
    std::function<T*(std::int64_t slot)> tile;            // room for the tile, uninitialised
    std::function<const T*(std::int64_t slot)> old_tile;  // of the C that beta scales; null where it has none
    std::function<void(std::int64_t slot, double norm)> finished;
    /// Of a tile that a device stores: where, in its memory; what it is added to there, or null. Norms are the
    /// caller's.
    std::function<T*(std::int64_t slot)> device_tile = {};
    std::function<const T*(std::int64_t slot)> old_device_tile = {};
    /// Instead of `tile` and `finished`: each finished tile is handed over whole, once, and its memory used again
    /// afterwards. Called from several threads at once.
    std::function<void(std::int64_t slot, std::span<const T> tile, double norm)> consume = {};
};

}  // namespace tessera
