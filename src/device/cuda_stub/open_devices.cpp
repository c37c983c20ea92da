// Stands in for device/cuda/ when CUDA was not there at build time.

#include "device/open_devices.hpp"

#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

std::vector<std::unique_ptr<Device>> open_devices(std::span<const int>, std::span<const std::int64_t>, std::int64_t,
                                                  ScalarKind) {
    throw BackendUnavailable(device::why_none());
}

}  // namespace tessera
