// Stands in for device/cuda/ when CUDA was not there at build time.

#include "device/store.hpp"

#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

std::unique_ptr<DeviceStore> open_store(int) { throw BackendUnavailable(device::why_none()); }

}  // namespace tessera
