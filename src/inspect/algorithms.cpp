#include "inspect/algorithms.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"

namespace tessera {

namespace {

/// Columns of what is made on demand, or else rows.
bool makes_mostly_b(const Inspection& in) {
    return !in.stored(Operand::b) && (in.stored(Operand::a) || in.request.b->elements() >= in.request.a->elements());
}
bool always(const Inspection&) { return true; }

constexpr AlgorithmRow kRows[] = {
    {Algorithm::stationary_b, stationary_b, Blocks::worst_fit, makes_mostly_b,
     "columns of B in turn, each tile made once"},
    {Algorithm::outer_product, outer_product, Blocks::patches, always,
     "rows of A in turn, used while they are in the caches"},
    {Algorithm::split_k, split_k},
    {Algorithm::replicate_b, replicate_b},
    {Algorithm::split_grid, split_grid},
};

constexpr bool in_order_of_the_enum() {
    for (std::size_t i = 0; i < std::size(kRows); ++i)
        if (static_cast<std::size_t>(kRows[i].algorithm) != i + 1) return false;
    return true;
}
static_assert(in_order_of_the_enum());

}  // namespace

std::span<const AlgorithmRow> algorithms() { return kRows; }

const AlgorithmRow& row_of(Algorithm algorithm) {
    const auto i = static_cast<std::size_t>(algorithm);
    ensure(i >= 1 && i <= std::size(kRows), "algorithm {} has no row", i);
    return kRows[i - 1];
}

const AlgorithmRow& row_for_one_rank(const Inspection& in) {
    const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&](const AlgorithmRow& x) { return x.leads_one_rank && x.leads_one_rank(in); });
    ensure(row != std::end(kRows), "no algorithm leads on one rank");
    return *row;
}

}  // namespace tessera
