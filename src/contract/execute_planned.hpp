#pragma once
// Runs a planned contraction on operands that were found to be those it was planned for.

#include "contract/planned_impl.hpp"
#include "contract/prepared.hpp"

namespace tessera {

/// UserError where the operands, or the C that is added to, are not those that were planned for.
template <Scalar T>
void require_operands(const PlannedContraction::Impl& planned, const ContractOperand<T>& a, const ContractOperand<T>& b,
                      const Tensor<T>* old);

/// On operands without diagonals and sums of their own; `old` is what beta scales, `consume` takes the result.
template <Scalar T>
struct Executed {
    Tensor<T> tensor;
    Shape handed_over;
    ContractReport report;
};
template <Scalar T>
Executed<T> execute_prepared(const PlannedContraction::Impl& planned, const PreparedOperands<T>& operands,
                             const Tensor<T>* old, const TileConsumer<T>* consume, const Watch& watch);

}  // namespace tessera
