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

}  // namespace tessera::kernels::cuda
