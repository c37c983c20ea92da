#pragma once
// One-operand einsum: permutation, diagonals and sums.

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "tessera/tensor/tensor.hpp"

namespace tessera {

/// How a tensor lies on the ranks to be reduced without moving a tile, and how the result does.
struct ReducePlacement {
    Distribution x, result;
};
ReducePlacement reduce_placement(const TileGrid& grid, const std::string& in, const std::string& out, int ranks);

/// The result's tiles, with upper bounds of their norms: no data is looked at.
Shape reduced_shape(const Shape& x, const std::string& in, const std::string& out);

/// Bytes of tiles on this rank that reducing takes beside x: a copy of x where it must lie (none where it does so
/// already; `where` null: it is nowhere yet), and the result.
struct ReduceBytes {
    std::int64_t copy = 0, result = 0;
};
ReduceBytes reduce_bytes(const Shape& x, const Distribution* where, std::int64_t element_bytes, const std::string& in,
                         const std::string& out, const Communicator& ranks);

/// Where the result's tiles are, of a tensor on devices: with the first tile of x that goes into each.
std::vector<std::int16_t> reduced_homes(const Shape& x, const std::vector<std::int16_t>& homes, const std::string& in,
                                        const std::string& out);

/// alpha times (the conjugate of) x, from labels `in` (repeats are diagonals) to `out` (each at most once); labels not
/// in `out` are summed. Sums run over the tiles in ascending ordinal and over elements in row-major order: the same
/// bits always. memory > 0: BudgetError before any work, on all ranks, where x and its reduce_bytes() are more on one
/// of them; with `added` bytes of a tensor that the result will be added to also that tensor and the sum. `held` bytes
/// are taken besides.
template <Scalar T>
Tensor<T> reduce(const Tensor<T>& x, const std::string& in, const std::string& out, int threads,
                 std::int64_t memory = 0, std::optional<std::int64_t> added = std::nullopt,
                 std::type_identity_t<T> alpha = T(1), bool conjugated = false, std::int64_t held = 0);

}  // namespace tessera
