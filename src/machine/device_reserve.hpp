#pragma once
// What the executor keeps in device memory besides tiles: the planner leaves it free, the executor allocates it.

#include <algorithm>
#include <cstdint>

namespace tessera {

/// Of a device's budget, what is not for tiles: a ring of product descriptors and the allocator's rounding
/// (DeviceModel::reserved). The arena (DeviceCounts::peak_bytes) may take budget - device_reserve_bytes(budget).
constexpr std::int64_t device_reserve_bytes(std::int64_t budget) {
    return std::clamp<std::int64_t>(budget / 32, std::int64_t{128} << 10, std::int64_t{64} << 20);
}

/// The smallest budget whose arena is this large.
constexpr std::int64_t device_budget_for(std::int64_t arena_bytes) {
    std::int64_t budget = arena_bytes + device_reserve_bytes(arena_bytes);
    // The reserve grows by at most a 32nd of what is added, so a few rounds settle it.
    while (budget - device_reserve_bytes(budget) < arena_bytes)
        budget += arena_bytes - (budget - device_reserve_bytes(budget));
    return budget;
}

}  // namespace tessera
