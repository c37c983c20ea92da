#pragma once
// What a tile takes in device memory, and what the executor keeps there besides tiles: the planner counts with these,
// the executor allocates by them.

#include <algorithm>
#include <cstdint>

namespace tessera {

/// Tiles start at multiples of this in a device's arena, and their bytes are rounded up to it: a step's tiles that lie
/// one after another travel as one copy.
inline constexpr std::int64_t kDeviceAlignment = 128;

/// Elements from one row of a device tile to the next: rows start at multiples of 16 bytes.
constexpr std::int64_t device_row_elements(std::int64_t columns, std::int64_t element_bytes) {
    const std::int64_t unit = std::max<std::int64_t>(1, 16 / element_bytes);
    return (columns + unit - 1) / unit * unit;
}

/// A tile on a device is [batch][rows][padded columns], rows x columns being m x k in A, k x n in B, m x n in C.
constexpr std::int64_t device_tile_bytes(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                                         std::int64_t element_bytes) {
    const std::int64_t bytes = batch * rows * device_row_elements(columns, element_bytes) * element_bytes;
    return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

/// Of a device's budget, what is not for tiles: descriptors of products, all of which the executor uses (a quarter of
/// the most describes 100,000 products). The arena (DeviceCounts::peak_bytes) may take budget -
/// device_reserve_bytes(budget).
constexpr std::int64_t device_reserve_bytes(std::int64_t budget) {
    return std::clamp<std::int64_t>(budget / 32, std::int64_t{128} << 10, std::int64_t{16} << 20);
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
