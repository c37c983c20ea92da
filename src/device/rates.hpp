#pragma once
// What a device reaches with this library's kernels. A back end defines it.

#include "tessera/machine/machine_model.hpp"

namespace tessera {

struct DeviceRates {
    DeviceModel device;
    LinkModel host_to_device, device_to_host, device_to_device;
};

/// Takes a few seconds and up to 4 GB of the device. The links' rates are those of contractions: the cores copy between
/// pageable and pinned memory, both ways at once.
DeviceRates measure_device_rates(int device, int threads);

}  // namespace tessera
