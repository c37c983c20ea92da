#pragma once
// The block shapes of the grouped products: what the host needs of them.

namespace tessera::kernels::cuda {

/// side x side elements of C at most; rows are dealt to thread blocks in units of 16 row_unit, columns of 8
/// column_unit, so that every warp of a block gets the same share.
struct GroupedShapeNumbers {
    int side, row_unit, column_unit;
};
inline constexpr GroupedShapeNumbers kGroupedShapes[] = {
    {128, 1, 4},  // eight warps and four that copy, one block per multiprocessor
    {64, 2, 2},   // four warps
    {32, 1, 1},   // one warp
    {16, 1, 1},   // one warp
    {64, 1, 1},   // float and complex
};
inline constexpr int kPlainShape = 4;

/// The kernels of the large blocks: they differ in how much is copied ahead, hence in the shared memory that a thread
/// block takes. Chips from sm_80 on have room for at least the last.
struct LargeVariant {
    int depth, stages;
};
inline constexpr LargeVariant kLargeVariants[] = {{32, 3}, {32, 2}, {16, 2}};

/// Of kernels that take so many bytes each, larger ones first: the first that a block may have; -1: none.
constexpr int fitting_variant(const int* shared_bytes, int count, int limit) {
    for (int i = 0; i < count; ++i)
        if (shared_bytes[i] <= limit) return i;
    return -1;
}

}  // namespace tessera::kernels::cuda
