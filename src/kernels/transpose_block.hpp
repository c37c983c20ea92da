#pragma once
// How blocks of a transpose are shaped; shared by the CPU and the CUDA planner.

#include <array>
#include <cstdint>

#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels {

/// Axes of the plan, fastest first by the given stride.
void sort_by_stride(const TransposePlan& plan, std::int64_t TransposeAxis::*stride,
                    std::array<int, kMaxTransposeRank>& order);

/// The contiguous run of a block on one side: the first `axes` of the order, `length` elements.
struct Run {
    int axes = 0;
    std::int64_t length = 1;
};
Run contiguous_run(const TransposePlan& plan, std::int64_t TransposeAxis::*stride,
                   const std::array<int, kMaxTransposeRank>& order);

/// Enlarges the blocks of the axes that are fastest in input or output, in turn, until both sides have the wanted run
/// or the block is full. At most one axis per side stays cut, and it is that side's slowest in the block; where it can
/// be, it is cut after whole lines of so many elements.
void grow_block(TransposePlan& plan, std::int64_t wanted_run, std::int64_t largest_volume, std::int64_t line = 1);

}  // namespace tessera::kernels
