#pragma once
// The fused contraction (kernels/triples.hpp) on a device: a tile of the output stays in registers while all terms
// are added to it by FP64 matrix instructions; then it is stored, or reduced to an energy.
// All pointers in terms, output and epilogue are device pointers.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/memory.hpp"
#include "device/orbit_row.hpp"
#include "tessera/base/api.hpp"
#include "tessera/kernels/triples.hpp"

namespace TESSERA_API tessera {
namespace device {

/// What a plan for rows of a table wants to know.
struct OrbitTable {
    std::int64_t most_rows = 0;  // of one run
    // Terms whose operand a is packed piece by piece: in tiles of 4 of the one of the last three indices that it
    // carries. Its data is where the piece is when it is packed, and its stride that within the piece.
    std::vector<int> in_pieces;
};

/// One shape's terms, prepared on the device that was current when it was made. Throws UserError as the CPU form does.
/// Keeps room for the packed operands: about as much as the operands of all terms together, padded to tiles.
class DeviceFused {
  public:
    DeviceFused(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                const kernels::FusedOutput& output);
    DeviceFused(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                const kernels::EnergyEpilogue& epilogue);
    /// Closed-shell weights, over rows of tiles of the first three indices that run_rows names.
    DeviceFused(const kernels::BlockExtents& extents, std::span<const kernels::FusedTerm> terms,
                const kernels::EnergyEpilogue& epilogue, const OrbitTable& table);
    ~DeviceFused();
    DeviceFused(DeviceFused&&) noexcept;
    DeviceFused& operator=(DeviceFused&&) noexcept;

    /// Asynchronous. Reads the operands anew; one run at a time per object.
    void run(StreamHandle stream = nullptr) const;
    /// Waits for the last run; the same bits every time. UserError before the first one, and as check_denominators.
    double energy(StreamHandle stream = nullptr) const;
    /// Of a table, all asynchronous. What does not come in pieces; a piece of a term; and the energy of rows (in device
    /// memory, as is *energy). The bits depend on the rows and their number.
    void pack(StreamHandle stream) const;
    void pack_piece(int term, int tile, StreamHandle stream) const;
    void run_rows(const OrbitRow* rows, std::int64_t count, double* energy, StreamHandle stream) const;
    /// Roles, groups, packed bytes and whether thread blocks walk over tiles, in words.
    std::string description() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace device
}  // namespace tessera
