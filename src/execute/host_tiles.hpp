#pragma once
// A rank's tiles in host memory while a plan runs, and what is done to them there, the same on cores and beside
// devices: tiles are made and sent, sums added and finished.

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "execute/cpu/execute.hpp"

namespace tessera {

/// Calls on different tiles may come from several threads at once.
template <Scalar T>
class HostTiles {
  public:
    HostTiles(const Plan& plan, int rank, const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
              const ExecuteOptions<T>& options);

    const TileSource<T>& source(Operand o) const { return o == Operand::a ? a_ : b_; }
    const Shape& shape(Operand o) const { return o == Operand::a ? plan_.a : o == Operand::b ? plan_.b : plan_.c; }
    std::int64_t elements(Operand o, std::int64_t slot) const {
        return shape(o).grid().tile_elements(shape(o).tile(slot));
    }

    T* in_arena(std::int64_t offset) { return reinterpret_cast<T*>(arena_.data() + offset); }
    const T* in_arena(std::int64_t offset) const { return reinterpret_cast<const T*>(arena_.data() + offset); }
    /// The tile of an arrival, or for -1 the stored one.
    const T* tile(Operand o, std::int64_t slot, std::int32_t arrival) const {
        return arrival < 0 ? source(o).stored(slot)
                           : in_arena(plan_.arrivals[static_cast<std::size_t>(arrival)].offset);
    }
    /// A running sum, and where a result tile is put together: the stored tile, or memory that is kept until a sink
    /// that consumes tiles has it.
    T* sum(std::int32_t id);
    T* result(std::int32_t slot);

    void make(const PlanArrival& arrival);
    /// Adds one sum to another.
    void merge(const PlanMove& move);
    void zero(std::int32_t slot, T* tile) const;
    /// After the last product: C = alpha C + beta old, its norm; the sink is told, or handed the tile. A tile that is
    /// not finite is the operands' fault: UserError.
    void finish(std::int32_t slot, T* tile);
    /// The same for a tile that was put together in result(), which is then given up.
    void finish(std::int32_t slot);
    /// The memory of a message's tiles on this rank.
    std::vector<MessagePiece> message_pieces(const PlanStep& step);

    std::int64_t arena_bytes() const { return arena_.bytes(); }
    std::int64_t made_tiles() const { return made_tiles_; }

  private:
    const Plan& plan_;
    const TileSource<T>&a_, &b_;
    const TileSink<T>& c_;
    const ExecuteOptions<T>& options_;
    Buffer arena_;
    std::atomic<std::int64_t> made_tiles_{0};
    std::mutex kept_mutex_;
    std::map<std::int32_t, Buffer> kept_;  // result tiles of a consuming sink that are not yet whole
};

}  // namespace tessera
