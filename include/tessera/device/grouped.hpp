#pragma once
// Many tile products of any sizes in one launch, on arrays in a device's memory. Streams are the back end's
// (cudaStream_t), as void*; tensors that live on devices have device_tile() and device_stream().

#include <cstdint>
#include <memory>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"

namespace TESSERA_API tessera {
namespace device {

/// A row-major matrix in the device's memory: `ld` elements from one row to the next.
struct Matrix {
    const void* data = nullptr;
    std::int64_t ld = 0;
    bool transposed = false;  // it is stored the other way round
    bool conjugated = false;
};

/// A list of C tiles, each the sum over a chain of products A (m x k) B (k x n). It is described once and may be run
/// often. Each element is one chain of fused multiply-adds, ascending in product and k: the bits of the CPU's kernels,
/// whatever the sizes, the place in the list and the device.
class GroupedProducts {
  public:
    /// BackendUnavailable where there is no such device.
    explicit GroupedProducts(ScalarKind kind, int device = 0);
    ~GroupedProducts();
    GroupedProducts(GroupedProducts&&) noexcept;
    GroupedProducts& operator=(GroupedProducts&&) noexcept;

    /// A tile of C (m x n), which starts from zero, or from what it holds. The products added next are its chain.
    void add_tile(void* c, std::int64_t m, std::int64_t n, std::int64_t ldc, bool resume = false);
    void add_product(const Matrix& a, const Matrix& b, std::int64_t k);
    double flops() const;

    /// Asynchronous; one run at a time. No two tiles may overlap. The first run behind a change brings the description
    /// to the device and waits for that.
    void run(void* stream = nullptr);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace device
}  // namespace tessera
