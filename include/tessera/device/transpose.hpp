#pragma once
// out = alpha * permute(in) + beta * out on arrays in a device's memory, at the rate of the memory. Streams are the
// back end's (cudaStream_t), as void*.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"

namespace TESSERA_API tessera {
namespace device {

/// One shape's plan, with its tables in the device's memory. Index d of the output is index permutation[d] of the
/// input. Strides are in elements; none: row-major without gaps.
class Transpose {
  public:
    /// UserError as kernels::plan_transpose (kernels/transpose.hpp); BackendUnavailable where there is no such device.
    Transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, int element_bytes,
              std::span<const std::int64_t> in_strides = {}, std::span<const std::int64_t> out_strides = {},
              int device = 0);
    ~Transpose();
    Transpose(Transpose&&) noexcept;
    Transpose& operator=(Transpose&&) noexcept;

    /// Asynchronous. beta zero: out is not read. T has the size that was planned for.
    template <Scalar T>
    TESSERA_API void run(const T* in, T* out, T alpha = T(1), T beta = T(0), bool conjugate = false,
                         void* stream = nullptr) const;
    /// How elements go, in words.
    std::string description() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace device
}  // namespace tessera
