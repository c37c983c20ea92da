// Stands in for the products of device/cuda/ when CUDA was not there at build time.
#include "device/products.hpp"

#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera::device {

void MatrixProducts::run(std::span<const MatrixProduct>, StreamHandle) { throw BackendUnavailable(why_none()); }

}  // namespace tessera::device
