#pragma once
// Runs one rank's steps of a Plan on the threads of its process, messages to and from other ranks under way meanwhile.

#include <functional>
#include <span>
#include <vector>

#include "storage/buffer.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/storage/tile_source.hpp"

namespace tessera {

/// Where an operand's tiles are: stored, by slot; or made by a generator (thread-safe).
template <Scalar T>
struct TileSource {
    std::function<const T*(std::int64_t slot)> stored;
    TileGenerator<T> make;
    DeviceGenerator on_device = {};  // device_made: how
};

/// Where the result goes, and what it is added to.
template <Scalar T>
struct TileSink {
    std::function<T*(std::int64_t slot)> tile;            // room for the tile, uninitialised
    std::function<const T*(std::int64_t slot)> old_tile;  // of the C that beta scales; null where it has none
    std::function<void(std::int64_t slot, double norm)> finished;
    /// Instead of `tile` and `finished`: each finished tile is handed over whole, once, and its memory used again
    /// afterwards. Called from several threads at once.
    std::function<void(std::int64_t slot, std::span<const T> tile, double norm)> consume = {};
};

template <Scalar T>
struct ExecuteOptions {
    T alpha = 1, beta = 0;
    bool conjugate_a = false, conjugate_b = false;
    MemoryBudget* budget = nullptr;
    std::function<void(double done, double total)> progress;  // flops; from one thread at a time
};

struct ExecuteCounts {
    std::int64_t made_tiles = 0;
    std::int64_t arena_bytes = 0;
    std::int64_t sent_bytes = 0, received_bytes = 0;
    double transfer_seconds = 0;  // with a message under way
    double waited_seconds = 0;    // of the mean thread, for messages
};

/// The ranks are the communicator's.
template <Scalar T>
ExecuteCounts execute(const Plan& plan, Communicator& ranks, const TileSource<T>& a, const TileSource<T>& b,
                      const TileSink<T>& c, const ExecuteOptions<T>& options);

}  // namespace tessera
