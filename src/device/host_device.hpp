#pragma once
// Host threads that play a device: streams run in order and beside each other, memory starts as NaN, copies and kernels
// do what a device's would, slowly. Plans for devices are tested with it on machines without any.

#include <memory>

#include "device/device.hpp"

namespace tessera {

struct HostDeviceOptions {
    std::int64_t arena_bytes = 0, reserve_bytes = 0;
    ScalarKind kind = ScalarKind::f64;
    /// At most this many microseconds before each operation, at random from the seed: so that orders differ.
    int jitter = 0;
    std::uint64_t seed = 0;
};
std::unique_ptr<Device> make_host_device(const HostDeviceOptions& options);

/// A list whose offsets are addresses, with the bits of the cores.
void multiply_on_host(ScalarKind kind, const DeviceProducts& list);

}  // namespace tessera
