#pragma once
// What every algorithm of the inspector looks at: the surviving products, their sums, and the sizes of tiles.

#include <cstdint>
#include <string>
#include <vector>

#include "index/matrix_view.hpp"
#include "inspect/build_plan.hpp"

namespace tessera {

/// The products of one result tile within one segment of k: summed in order, by one worker.
struct SegmentSum {
    std::int32_t c = 0;      // result slot
    std::int32_t index = 0;  // among the sums of its tile
    std::int64_t first = 0, last = 0;
    double flops = 0;
};

struct Inspection {
    Inspection(const PlanRequest& request, const MachineModel& machine);

    const PlanRequest& request;
    const MachineModel& machine;
    MatrixView view;
    ProductShape product;
    KeptVector<SegmentSum> sums;          // by result tile
    std::vector<std::int32_t> first_sum;  // per result slot + 1
    std::vector<std::int32_t> row, col;   // per result slot: dense numbers of its row and column
    std::int32_t rows = 0, cols = 0;
    // With devices: tile coordinates of a row (free A), of a column (free B).
    std::vector<IndexVector> row_at, col_at;
    PerOperand<std::vector<std::int64_t>> host_bytes, device_bytes;  // per slot
    PerOperand<std::vector<std::int16_t>> homes;                     // per slot, as in Plan; with devices of one rank
    PerOperand<std::vector<std::uint8_t>> as_stored;                 // per slot: products can use the tile where it is
    double flop_factor = 1;                                          // complex arithmetic

    const Shape& shape(Operand o) const {
        return o == Operand::a ? *request.a : o == Operand::b ? *request.b : product.c;
    }
    SourceKind source(Operand o) const { return o == Operand::a ? request.source_a : request.source_b; }
    bool stored(Operand o) const { return source(o) == SourceKind::stored; }
    const std::vector<std::int64_t>& bytes(Operand o) const { return host_bytes[o]; }
    const std::vector<std::int64_t>& bytes_on_device(Operand o) const { return device_bytes[o]; }
    /// Whether a device multiplies with the tile, or sums it up, where it is stored.
    bool in_place(Operand o, std::int32_t slot, int device) const {
        return home(o, slot) == device && as_stored[o][static_cast<std::size_t>(slot)] != 0;
    }
    int home(Operand o, std::int32_t slot) const {
        return homes[o].empty() ? -1 : homes[o][static_cast<std::size_t>(slot)];
    }
    /// A result tile that stays: on which device, the blocks say.
    bool stays(std::int32_t slot) const { return home(Operand::c, slot) >= 0; }
    /// Bytes that tensors keep on a device (of several: of the result its share).
    std::int64_t kept_bytes(int device) const;
    /// What a tile is when it travels: its elements, without the padding between tiles.
    std::int64_t payload(Operand o, std::int32_t slot) const {
        return shape(o).grid().tile_elements(shape(o).tile(slot)) * bytes_of(request.scalar);
    }
    /// Where an operand lies: as it is asked for, else as the assignment likes it.
    const Distribution& distribution(Operand o, const PerOperand<Distribution>& liked) const {
        const auto& asked = o == Operand::a   ? request.distribution_a
                            : o == Operand::b ? request.distribution_b
                                              : request.distribution_c;
        return asked ? *asked : liked[o];
    }
    /// The slot of the tile that is stored for this one, which is itself where the operand has no symmetry.
    std::int32_t place(Operand o, std::int32_t slot) const {
        const auto* views = o == Operand::a ? request.views_a : o == Operand::b ? request.views_b : nullptr;
        return views ? views->place(slot) : slot;
    }
    std::int32_t tile_of(Operand o, std::int64_t p) const {
        return o == Operand::a ? product.products[p].a : product.products[p].b;
    }

  private:
    void find_coordinates();
    void find_homes();
    bool segments_fit() const;
};

/// Which rank works on which sum, and how the tensors lie.
struct Assignment {
    Algorithm algorithm = Algorithm::automatic;
    std::string reason;
    bool possible = true;
    bool by_column = false;  // work goes column by column of C
    int grid_rows = 1, grid_cols = 1;
    PerOperand<Distribution> lies;
    std::vector<std::int32_t> rank_of;  // per sum
};

/// Of this part of the operand's matrix, the label that has the most tiles; 0 where there is none.
char widest_label(const Inspection& in, Operand o, MatrixPart part);
/// Each named label of an operand dealt to so many ranks.
Distribution deal(const Inspection& in, Operand o, std::vector<std::pair<char, Distribution::Axis>> axes);
/// p x q as square as it gets, p * q == ranks, p <= q.
std::pair<int, int> near_square(int ranks);

/// Times this close are equal as far as a prediction can tell: then fewer bytes win, whose cost on a busy machine
/// (cores that copy them) it does not know.
inline constexpr double kSameTime = 0.05;
/// Times from counts of the same work are closer than that.
inline constexpr double kSameCount = 0.01;
/// The one with the fewest bytes of those whose time is as good as the shortest; one at least must be possible.
std::size_t cheapest(const std::vector<PlanCandidate>& candidates, double same = kSameTime);
/// Marks it, and says why it is the one.
std::string choose(std::vector<PlanCandidate>& candidates, std::size_t chosen, double same = kSameTime);

struct DeviceCut;
/// Everything from an assignment on: transfers, arenas, steps, counts. cut: the blocks of one rank's devices, in
/// chunks, which the plan takes over; without it each rank has the best by counting.
Plan write_plan(const Inspection& in, const Assignment& assignment, DeviceCut* cut = nullptr);
/// The same, where no other plan is written: it takes the list of products over.
Plan write_last_plan(Inspection& in, const Assignment& assignment, DeviceCut* cut = nullptr);

}  // namespace tessera
