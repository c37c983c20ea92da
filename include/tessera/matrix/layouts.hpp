#pragma once
// Matrices as other libraries hold them on ranks: ScaLAPACK's block-cyclic arrays, and compressed rows (CSR).
// Collective; nothing passes one rank, and nobody holds the whole matrix.

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// A matrix dealt in blocks to a grid of ranks that are numbered along its rows (BLACS's order "R"): what an array
/// descriptor of ScaLAPACK says, with the grid. Rank p * grid_columns + q is at (p, q).
struct BlockCyclic {
    std::int64_t rows = 0, columns = 0;
    std::int64_t row_block = 64, column_block = 64;
    int grid_rows = 1, grid_columns = 1;
    int first_row = 0, first_column = 0;  // RSRC, CSRC: where the first block is
    std::int64_t leading = 0;             // LLD, of this rank's array, which stands by columns; 0: as few as needed

    /// Of this rank's array.
    std::int64_t local_rows(int rank) const;
    std::int64_t local_columns(int rank) const;
};

/// From each rank's array, in tiles of any sizes, dealt evenly. Tiles that are zero
/// altogether are not stored.
template <Scalar T>
TESSERA_API Tensor<T> from_block_cyclic(const BlockCyclic& layout, std::span<const T> local, const TileGrid& grid,
                                        Communicator& ranks);
/// Into this rank's array, which has leading * local_columns elements.
template <Scalar T>
TESSERA_API void to_block_cyclic(const Tensor<T>& a, const BlockCyclic& layout, std::span<T> local);

/// Rows first_row, first_row + 1, ... of a sparse matrix: entries of row r are starts[r] ... starts[r + 1] - 1.
template <Scalar T>
struct CsrRows {
    std::int64_t first_row = 0;
    std::vector<std::int64_t> starts = {0}, columns;
    std::vector<T> values;
    std::int64_t rows() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

/// From the rows of all ranks, which may come in any order and sum where they meet.
template <Scalar T>
TESSERA_API Tensor<T> from_csr(const CsrRows<T>& mine, const TileGrid& grid, const Placement& where = {});
/// Each rank gets whole tile rows, ascending with the rank: elements that are not zero, by column.
template <Scalar T>
TESSERA_API CsrRows<T> to_csr(const Tensor<T>& a);

}  // namespace tessera
