#pragma once
// Whether the devices of a machine move and multiply right, each with the host and with every other, and how fast.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"

namespace tessera {

struct DeviceCheck {
    bool copies_right = false, products_right = false;
    double from_host = 0, to_host = 0;  // bytes per second, pinned memory
};
struct DevicePairCheck {
    int from = 0, to = 0;  // places in the list
    bool right = false;
    double bytes_per_second = 0;
};
struct DevicesCheck {
    std::vector<DeviceCheck> devices;
    std::vector<DevicePairCheck> pairs;
    double seconds = 0;
    bool right() const;
};

/// What the arena of each device must hold for blocks of so many bytes.
std::int64_t device_check_arena(std::int64_t block_bytes);

/// Copies a block of known bits between all pairs and compares them, and multiplies tiles as the cores do. Beyond
/// `limit` seconds each pair is copied once alone. on_pair: how many of how many pairs are done.
DevicesCheck check_devices(std::span<const std::unique_ptr<Device>> devices, std::int64_t block_bytes, double limit,
                           const std::function<void(int, int)>& on_pair);

}  // namespace tessera
