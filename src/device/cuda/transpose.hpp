#pragma once
// The transpose on a CUDA device: tiles go through shared memory, coalesced on both sides, by precomputed offsets.

#include <memory>
#include <span>
#include <string>

#include "device/cuda/names.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels::cuda {

/// Shape of the tiles; zeros leave the choice to the planner. The first three are set together, to a shape that was
/// compiled, and count where elements are only moved.
struct DeviceTransposeTuning {
    int threads = 0;             // of a thread block
    int elements = 0;            // each thread moves per tile
    int stages = 0;              // 1: one tile at a time; 2: the next one is loaded meanwhile
    std::int64_t run_bytes = 0;  // wanted contiguous run on both sides
    std::int64_t row_bytes = 0;  // runs shared by both sides from here on skip shared memory
    int waves = 0;               // thread blocks per resident one; -1: 1, with ragged tiles left unevenly spread
    bool words = true;           // accesses of 16 bytes where shape and addresses allow it, not of elements
};

/// One shape's plan and its offset tables, on the device that was current when it was made.
class DeviceTranspose {
  public:
    DeviceTranspose(std::span<const std::int64_t> extents, std::span<const int> permutation, int element_bytes,
                    std::span<const std::int64_t> in_strides = {}, std::span<const std::int64_t> out_strides = {},
                    const DeviceTransposeTuning& tuning = {});
    ~DeviceTranspose();
    DeviceTranspose(DeviceTranspose&&) noexcept;
    DeviceTranspose& operator=(DeviceTranspose&&) noexcept;

    const TransposePlan& plan() const;
    std::string description() const;

    /// out = alpha * permute(in) + beta * out on device memory, asynchronously. beta zero: out is not read.
    template <Scalar T>
    void run(const T* in, T* out, T alpha = T(1), T beta = T(0), bool conjugate = false,
             StreamHandle stream = nullptr) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// For benches and tests: a known value in every element; the scatter loop (one thread per element, read in order,
/// written where it belongs); how many elements of out are not where they belong.
void fill_pattern(double* to, std::int64_t count, StreamHandle stream = nullptr);
void scatter(std::span<const std::int64_t> extents, std::span<const int> permutation, const double* in, double* out,
             StreamHandle stream = nullptr);
std::int64_t count_mismatches(std::span<const std::int64_t> extents, std::span<const int> permutation, const double* in,
                              const double* out);

}  // namespace tessera::kernels::cuda
