#pragma once
// In which turns what comes to the devices of a rank, and from where.

#include <cstdint>
#include <utility>
#include <vector>

#include "inspect/device_blocks.hpp"

namespace tessera {

/// Where a tile comes from: the device with this number, the host, made on the spot; below `homes`: the tile that
/// device homes - 1 - source stores, laid anew.
enum TileSourceOnDevice : int { from_host = -1, made = -2, homes = -2 };
using Sourced = std::pair<int, const ChunkTile*>;

/// The chunks of one device, one after another, through all of its blocks.
struct DeviceStages {
    struct StageRef {
        std::size_t block, chunk;
    };
    DeviceLayout layout;
    std::vector<StageRef> stages;
    std::vector<std::vector<Sourced>> from, from_held;  // per stage: tiles of its chunk; of B that stay for its block

    /// How many chunks come before the one that is worked on is done.
    std::size_t ahead() const { return static_cast<std::size_t>(layout.buffers) - 1; }
    const Block& block(std::size_t stage) const { return layout.blocks[stages[stage].block]; }
    const Chunk& chunk(std::size_t stage) const { return block(stage).chunks[stages[stage].chunk]; }
};

/// First what comes ahead of all work, then a stage of every device a turn.
class DeviceTurns {
  public:
    DeviceTurns() = default;
    /// Finds their stages, and where each tile comes from: a device takes one from another that has it. That is known
    /// before anything comes, because it tells what the host must have. The devices stay where they are.
    DeviceTurns(const Inspection& in, std::vector<DeviceStages*> devices);

    std::size_t count() const { return most_ahead_ + stages_; }
    std::size_t stages() const { return stages_; }
    /// Calls arrivals(device, stage) for chunks that come in a turn, then work(device, stage) for stages that are
    /// worked on, for which tiles of B come that stay for their block.
    template <class Arrivals, class Work>
    void for_turn(std::size_t turn, Arrivals&& arrivals, Work&& work) const {
        const int devices = static_cast<int>(devices_.size());
        const auto of = [&](int d) -> const DeviceStages& { return *devices_[static_cast<std::size_t>(d)]; };
        const bool works = turn >= most_ahead_;
        const auto stage = turn - most_ahead_;
        for (int d = 0; d < devices; ++d) {
            const auto coming = works ? stage + of(d).ahead() : turn;
            if ((works || turn < of(d).ahead()) && coming < of(d).stages.size()) arrivals(d, coming);
        }
        for (int d = 0; works && d < devices; ++d)
            if (stage < of(d).stages.size()) work(d, stage);
    }

  private:
    std::vector<DeviceStages*> devices_;
    std::size_t most_ahead_ = 0, stages_ = 0;
};

}  // namespace tessera
