#pragma once
// Runs a planned contraction on operands that were found to be those it was planned for.

#include "contract/planned_impl.hpp"
#include "contract/prepared.hpp"

namespace tessera {

/// UserError where the operands, or the C that is added to, are not those that were planned for.
template <Scalar T>
void require_operands(const PlannedContraction::Impl& planned, const ContractOperand<T>& a, const ContractOperand<T>& b,
                      const Tensor<T>* old);

/// On operands without diagonals and sums of their own; `old` is what beta scales, `consume` takes the result. Where
/// the plan works in place, the tensor is `old`, moved.
template <Scalar T>
struct Executed {
    Tensor<T> tensor;
    Shape handed_over;
    ContractReport report;
};
template <Scalar T>
Executed<T> execute_prepared(const PlannedContraction::Impl& planned, const PreparedOperands<T>& operands,
                             Tensor<T>* old, const TileConsumer<T>* consume, const Watch& watch);

/// Both steps, of which the first may need data: a filter looks at the norms of diagonals and sums. held_bytes: of
/// tiles that this rank holds besides.
template <Scalar T>
Executed<T> plan_and_execute(std::string_view spec, const ContractOperand<T>& a, const ContractOperand<T>& b,
                             Tensor<T>* old, const TileConsumer<T>* consume, const Resources& here,
                             const ContractOptions& options, const PlanOptions& how, const Watch& watch,
                             std::int64_t held_bytes = 0);

}  // namespace tessera
