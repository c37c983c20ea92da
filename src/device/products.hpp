#pragma once
// Matrix products in the memory of the device that is current, by the kernels of grouped products (ADR 2).

#include <cstdint>
#include <span>

#include "device/memory.hpp"

namespace TESSERA_API tessera {
namespace device {

/// c = a b, row-major, m x n over k; a_transposed: a is stored k x m. Leading dimensions are those of what is stored.
struct MatrixProduct {
    double* c = nullptr;
    const double *a = nullptr, *b = nullptr;
    std::int64_t m = 0, n = 0, k = 0;
    std::int64_t ldc = 0, lda = 0, ldb = 0;
    bool a_transposed = false;
};

/// Runs lists of products, one at a time; their description stays on the device until the next.
class MatrixProducts {
  public:
    /// Asynchronous but for the description's way to the device.
    void run(std::span<const MatrixProduct> list, StreamHandle stream);

  private:
    DeviceBuffer image_;
};

}  // namespace device
}  // namespace tessera
