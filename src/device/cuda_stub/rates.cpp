// Stands in for device/cuda/ when CUDA was not there at build time.

#include "device/rates.hpp"

#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

DeviceRates measure_device_rates(int, int) { throw BackendUnavailable(device::why_none()); }

}  // namespace tessera
