#pragma once
// What a CUDA device reaches with this library's kernels. Without CUDA at build time, measuring throws
// BackendUnavailable (cuda_stub/).

#include "tessera/machine/machine_model.hpp"

namespace tessera {

struct DeviceRates {
    DeviceModel device;
    LinkModel host_to_device, device_to_host, device_to_device;
};

/// Takes about a second and up to 3 GiB of the device.
DeviceRates measure_device_rates(int device);

}  // namespace tessera
