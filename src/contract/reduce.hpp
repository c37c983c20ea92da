#pragma once
// One-operand einsum: permutation, diagonals and sums.

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "tessera/tensor/tensor.hpp"

namespace tessera {

/// The tiles of such a result, without norms.
Shape reduced_shape(const Shape& x, const std::string& in, const std::string& out);

/// How x lies on the ranks for it, so that nothing has to be moved, and how the result does.
struct ReducePlacement {
    Distribution x, result;
};
ReducePlacement reduce_placement(const TileGrid& grid, const std::string& in, const std::string& out, int ranks);

/// Bytes of tiles on this rank while x is reduced: x, a copy where it lies elsewhere, and the result. With `added`
/// bytes of a tensor that the result will be added to also that tensor and the sum.
template <Scalar T>
std::int64_t reduce_bytes(const Tensor<T>& x, const std::string& in, const std::string& out,
                          std::optional<std::int64_t> added = std::nullopt);

/// alpha times (the conjugate of) x, from labels `in` (repeats are diagonals) to `out` (each at most once); labels not
/// in `out` are summed. Sums run over the tiles in ascending ordinal and over elements in row-major order: the same
/// bits always. memory > 0: BudgetError before any work, on all ranks, where reduce_bytes() of one of them is more.
template <Scalar T>
Tensor<T> reduce(const Tensor<T>& x, const std::string& in, const std::string& out, int threads,
                 std::int64_t memory = 0, std::optional<std::int64_t> added = std::nullopt,
                 std::type_identity_t<T> alpha = T(1), bool conjugated = false);

}  // namespace tessera
