#include "inspect/device_turns.hpp"

#include <algorithm>

namespace tessera {

DeviceTurns::DeviceTurns(const Inspection& in, std::vector<DeviceStages*> devices) : devices_(std::move(devices)) {
    for (auto* device : devices_) {
        for (std::size_t b = 0; b < device->layout.blocks.size(); ++b)
            for (std::size_t c = 0; c < device->layout.blocks[b].chunks.size(); ++c) device->stages.push_back({b, c});
        device->from.resize(device->stages.size());
        device->from_held.resize(device->stages.size());
        most_ahead_ = std::max(most_ahead_, device->ahead());
        stages_ = std::max(stages_, device->stages.size());
    }
    // Per device and slot: the stage it came for; INT32_MAX: stays; -1: not there, or not to be counted on.
    PerOperand<std::vector<std::vector<std::int32_t>>> in_use;
    for (const auto o : {Operand::a, Operand::b})
        in_use[o].assign(devices_.size(), std::vector<std::int32_t>(in.bytes(o).size(), -1));
    const auto use = [&](const ChunkTile& tile, int d) -> std::int32_t& {
        return in_use[tile.operand][static_cast<std::size_t>(d)][static_cast<std::size_t>(tile.slot)];
    };
    const auto source_of = [&](int d, std::size_t t, const ChunkTile& tile) -> int {
        if (tile.operand == Operand::b && in.source(Operand::b) == SourceKind::device_made) return made;
        if (const int home = in.home(tile.operand, tile.slot); home >= 0) return homes - 1 - home;
        for (int e = 0; e < static_cast<int>(devices_.size()); ++e) {
            // Still there: it stays, or came for the stage that is worked on when this one comes, or a later one.
            const auto came = use(tile, e);
            const bool alive = came == INT32_MAX ||
                               (came >= 0 && devices_[static_cast<std::size_t>(e)]->layout.buffers > 1 &&
                                static_cast<std::size_t>(came) + devices_[static_cast<std::size_t>(d)]->ahead() >= t);
            if (e != d && alive) return e;
        }
        return from_host;
    };
    // Those that stay come first, so that what goes is one range.
    const auto sourced = [&](int d, std::size_t t, const std::vector<ChunkTile>& tiles) {
        std::vector<Sourced> out;
        for (const bool resident : {true, false}) {
            const auto first = out.size();
            for (const auto& tile : tiles)
                if (tile.resident == resident) out.emplace_back(source_of(d, t, tile), &tile);
            for (auto i = first; i < out.size(); ++i)
                use(*out[i].second, d) = resident ? INT32_MAX : static_cast<std::int32_t>(t);
        }
        return out;
    };
    for (std::size_t turn = 0; turn < count(); ++turn)
        for_turn(
            turn,
            [&](int d, std::size_t t) {
                auto& device = *devices_[static_cast<std::size_t>(d)];
                device.from[t] = sourced(d, t, device.chunk(t).tiles);
            },
            [&](int d, std::size_t t) {
                auto& device = *devices_[static_cast<std::size_t>(d)];
                if (device.stages[t].chunk != 0) return;
                device.from_held[t] = sourced(d, t, device.block(t).held);
                // Others may not count on them: they go with the block, not with a chunk.
                for (const auto& [source, tile] : device.from_held[t]) use(*tile, d) = -1;
            });
}

}  // namespace tessera
