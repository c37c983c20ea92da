#pragma once
// The fused contraction of kernels/triples.hpp on a device: a tile of the output stays in registers while all terms are
// added to it; then it is stored, or reduced to an energy. All pointers in terms, output and epilogue are to the
// device's memory. Streams are the back end's (cudaStream_t), as void*.

#include <memory>
#include <span>
#include <string>

#include "tessera/base/api.hpp"
#include "tessera/kernels/triples.hpp"

namespace TESSERA_API tessera {
namespace device {

/// One shape's terms. UserError as the CPU form; BackendUnavailable where there is no such device. Keeps room for
/// packed operands: about as much as the operands of all terms together, padded to tiles.
class Triples {
  public:
    Triples(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
            const kernels::FusedOutput& output, int device = 0);
    Triples(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
            const kernels::EnergyEpilogue& epilogue, int device = 0);
    ~Triples();
    Triples(Triples&&) noexcept;
    Triples& operator=(Triples&&) noexcept;

    /// Asynchronous. Reads the operands anew; one run at a time.
    void run(void* stream = nullptr) const;
    /// Waits for the last run; the same bits every time. UserError before the first one.
    double energy(void* stream = nullptr) const;
    std::string description() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace device
}  // namespace tessera
