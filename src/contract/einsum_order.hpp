#pragma once
// In which order an einsum of many operands is contracted, two at a time. Found from the spec and the shapes alone: the
// same on any machine, with any budget, on any number of threads and ranks.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "index/einsum_spec.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {

/// Flops of real arithmetic, with 2 per multiply-add; elements of nonzero tiles that steps read and write (not those of
/// the result, which all orders write).
struct OrderCost {
    double flops = 0, elements = 0;
    /// What orders are compared by: nanoseconds of a machine with 100 GFLOP/s and 10 GB/s, which no machine is asked
    /// for.
    double nanoseconds() const { return 0.01 * flops + 0.8 * elements; }
};

/// One contraction of two parts: operands have the numbers 0 to n - 1, the results of steps follow.
struct EinsumStep {
    int left = 0, right = 0;
    std::string spec;  // labels of operands as they are given
    double filter = 0;
    OrderCost cost;
    std::int64_t products = 0;
    double result_elements = 0;  // of dense arrays
    Shape result;                // with upper bounds of its norms; of the last step only where there is a filter
};

struct EinsumOrder {
    std::vector<EinsumStep> steps;
    OrderCost cost;
    /// All ways were compared; else a greedy order, refined.
    bool exact = false;
    /// What the order costs that dense operands of the same extents would take; only a part of it was counted where it
    /// is far above this order.
    std::vector<EinsumStep> dense_steps;  // left, right and spec alone
    OrderCost dense;
    bool dense_whole = true;
    std::string tree() const;  // "((1 2) 3)"
    std::string dense_tree() const;
};

/// Operands up to this many are ordered by looking at every subset.
inline constexpr int kMostExact = 8;

/// Two or more operands; labels and tilings are checked already. With a filter intermediate tiles are dropped whose
/// norm, times the norms of the operands still to come, stays below a share of it.
EinsumOrder order_of(const EinsumSpec& spec, std::span<const Shape* const> shapes, double filter = 0,
                     double alpha_magnitude = 1);

/// The same of dense arrays.
EinsumOrder dense_order_of(const EinsumSpec& spec, std::span<const IndexVector> extents);

/// Labels that an operand keeps when diagonals and sums of its own are taken.
std::string own_labels(const EinsumSpec& spec, int operand);

}  // namespace tessera
