#pragma once
// The fused contraction (kernels/triples.hpp) on a device: a tile of the output stays in registers while all terms
// are added to it by FP64 matrix instructions; then it is stored, or reduced to an energy.
// All pointers in terms, output and epilogue are device pointers.

#include <memory>
#include <span>
#include <string>

#include "device/memory.hpp"
#include "tessera/base/api.hpp"
#include "tessera/kernels/triples.hpp"

namespace TESSERA_API tessera {
namespace device {

/// One shape's terms, prepared on the device that was current when it was made. Throws UserError as the CPU form does.
/// Keeps room for the packed operands: about as much as the operands of all terms together, padded to tiles.
class DeviceFused {
  public:
    DeviceFused(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                const kernels::FusedOutput& output);
    DeviceFused(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                const kernels::EnergyEpilogue& epilogue);
    ~DeviceFused();
    DeviceFused(DeviceFused&&) noexcept;
    DeviceFused& operator=(DeviceFused&&) noexcept;

    /// Asynchronous. Reads the operands anew; one run at a time per object.
    void run(StreamHandle stream = nullptr) const;
    /// Waits for the last run; the same bits every time. UserError before the first one, and as check_denominators.
    double energy(StreamHandle stream = nullptr) const;
    /// Roles, groups, packed bytes and whether thread blocks walk over tiles, in words.
    std::string description() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace device
}  // namespace tessera
