#pragma once
// Runs one rank's steps of a Plan on the threads of its process, messages to and from other ranks under way meanwhile.

#include <functional>

#include "storage/buffer.hpp"
#include "storage/tile_source.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

struct PlanLayouts;

template <Scalar T>
struct ExecuteOptions {
    T alpha = 1, beta = 0;
    bool conjugate_a = false, conjugate_b = false;
    bool resume = false;  // sums go on from what the result's tiles hold; all of them are those tiles
    MemoryBudget* budget = nullptr;
    bool budget_results = false;           // also result tiles that wait for a sink which consumes them
    const PlanLayouts* layouts = nullptr;  // of the plan, where they are kept; cores only
    std::function<void(double done, double total)>
        progress;  // flops of this rank; from one thread at a time, at last all of them
};

struct ExecuteCounts {
    int threads = 1;  // that were asked for by the work there is
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
