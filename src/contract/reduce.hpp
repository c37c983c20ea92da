#pragma once
// One-operand einsum: permutation, diagonals and sums.

#include <string>

#include "tessera/tensor/tensor.hpp"

namespace tessera {

/// From labels `in` (repeats are diagonals) to `out` (each at most once); labels not in `out` are summed.
/// Sums run over the tiles in ascending ordinal and over elements in row-major order: the same bits always.
/// memory > 0: BudgetError before any work where x and the result take more.
template <Scalar T>
Tensor<T> reduce(const Tensor<T>& x, const std::string& in, const std::string& out, int threads,
                 std::int64_t memory = 0);

}  // namespace tessera
