#pragma once
// The fused contraction (kernels/triples.hpp) on a CUDA device: a tile of the output stays in registers while all terms
// are added to it by FP64 matrix instructions; then it is stored, or reduced to an energy.
// All pointers in terms, output and epilogue are device pointers.

#include <memory>
#include <span>
#include <string>

#include "kernels/cuda/device.hpp"
#include "kernels/triples.hpp"

namespace tessera::kernels::cuda {

/// Which instantiation to run; 0 leaves the choice to the library. For benchmarks and tests.
struct DeviceFusedTuning {
    int variant = 0;  // 1 .. fused_variant_count()
};
int fused_variant_count();

/// One shape's terms, prepared on the device that was current when it was made. Throws UserError as the CPU form does.
class DeviceFused {
  public:
    DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output,
                const DeviceFusedTuning& tuning = {});
    DeviceFused(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue,
                const DeviceFusedTuning& tuning = {});
    ~DeviceFused();
    DeviceFused(DeviceFused&&) noexcept;
    DeviceFused& operator=(DeviceFused&&) noexcept;

    /// Asynchronous. One run at a time per object when it makes an energy.
    void run(StreamHandle stream = nullptr) const;
    /// Waits for the last run; the same bits every time.
    double energy(StreamHandle stream = nullptr) const;
    /// Variant, tile and layout in words.
    std::string description() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::kernels::cuda
