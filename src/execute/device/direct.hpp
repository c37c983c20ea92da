#pragma once
// A plan whose tiles all live on one device: nothing comes from the host or goes there, so its steps follow one another
// on the device's own stream. What they do is described once, kept, and started again with a few launches.

#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "device/store.hpp"
#include "execute/cpu/execute.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

/// Whether the plan is one, and its description is no more than the planner leaves room for.
bool is_direct(const Plan& plan);

/// What one plan does, for the operands and results it was run with last. Thread-safe.
class DirectRuns {
  public:
    /// On the store's stream: returns before it is done. Bases are the memory of A, B and C, whose tiles keep their
    /// places.
    template <Scalar T>
    void run(const Plan& plan, DeviceStore& store, const std::array<const void*, 3>& bases, const TileSource<T>& a,
             const TileSource<T>& b, const TileSink<T>& c, const ExecuteOptions<T>& options);

  private:
    /// One of these lists is there.
    struct Work {
        std::shared_ptr<DeviceStore::Products> products = {};
        std::vector<StridedJob> laid = {};
        std::vector<ElementJob> added = {};
        std::vector<ElementJob> zeroed = {};  // bytes
    };
    struct Kept {
        std::array<const void*, 4> bases;  // the last one is of the arena
        std::vector<Work> work;
    };
    template <Scalar T>
    std::vector<Work> work_of(const Plan& plan, DeviceStore& store, std::byte* arena, const TileSource<T>& a,
                              const TileSource<T>& b, const TileSink<T>& c, const ExecuteOptions<T>& options);

    static constexpr std::size_t kMost = 8;
    std::mutex mutex_;
    std::list<Kept> kept_;  // the last used first
};

}  // namespace tessera
