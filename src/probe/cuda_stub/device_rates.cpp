// Stands in for probe/cuda/ when CUDA was not there at build time.

#include "probe/cuda/device_rates.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

DeviceRates measure_device_rates(int, int) { throw BackendUnavailable("CUDA: this build has no CUDA back end"); }

}  // namespace tessera
