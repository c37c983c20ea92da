// Stands in for execute/cuda/ when CUDA was not there at build time.

#include "execute/cuda/cuda_devices.hpp"

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<std::unique_ptr<Device>> open_cuda_devices(std::span<const int>, std::span<const std::int64_t>,
                                                       std::int64_t, ScalarKind) {
    throw BackendUnavailable("CUDA: this build has no CUDA back end");
}

}  // namespace tessera
