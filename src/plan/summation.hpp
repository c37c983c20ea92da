#pragma once
// What each result tile is the sum of, and in which order its partial sums are joined, derived from a plan's shapes
// alone: what the plan does is compared with it.

#include <cstdint>
#include <vector>

#include "tessera/plan/plan.hpp"

namespace tessera {

class Summation {
  public:
    /// Throws InternalError where the plan's products, its result tiles, its segments or what its filter leaves out are
    /// not those that follow from the shapes.
    explicit Summation(const Plan& plan);

    /// A partial sum, told by its products and by how it was joined. Equal where it is the same sum, bit by bit.
    using Value = std::uint64_t;
    /// Products [first, last) of a result tile, summed in order; they must be one of its segments.
    Value segment(std::int32_t c, std::int64_t first, std::int64_t last) const;
    static Value joined(Value to, Value from);
    /// The result tile: its segments joined by the fixed tree.
    Value result(std::int32_t c) const;

  private:
    std::int64_t products_of(std::int32_t c) const { return first_[c + 1] - first_[c]; }
    std::vector<std::int64_t> first_;    // per result tile of the plan + 1, into the products
    std::vector<std::int32_t> segment_;  // per product, where there is more than one segment
};

}  // namespace tessera
