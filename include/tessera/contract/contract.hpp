#pragma once
// The front door: C = alpha A B + beta C for any einsum of one or two block-sparse tensors. Each call plans and
// executes; planned_contraction.hpp has the two apart.

#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/contract/planned_contraction.hpp"
#include "tessera/index/contraction_spec.hpp"

namespace TESSERA_API tessera {

/// Two operands: contract("pcd,cdab->pab", a, b, {.memory = 8_GiB}, {.filter = 1e-9}).
template <Scalar T>
TESSERA_API Contraction<T> contract(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                    const std::type_identity_t<ContractOperand<T>>& b, const Resources& here = {},
                                    const ContractOptions& options = {}, const PlanOptions& how = {},
                                    const Watch& watch = {});
template <class A, class B>
requires Operands<A, B> Contraction<OperandValue<A>> contract(std::string_view spec, const A& a, const B& b,
                                                              const Resources& here = {},
                                                              const ContractOptions& options = {},
                                                              const PlanOptions& how = {}, const Watch& watch = {}) {
    return contract<OperandValue<A>>(spec, ContractOperand<OperandValue<A>>(a), ContractOperand<OperandValue<A>>(b),
                                     here, options, how, watch);
}

/// The result is handed over tile by tile.
template <Scalar T>
TESSERA_API ConsumedContraction contract_each(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                              const std::type_identity_t<ContractOperand<T>>& b,
                                              const std::type_identity_t<TileConsumer<T>>& sink,
                                              const Resources& here = {}, const ContractOptions& options = {},
                                              const PlanOptions& how = {}, const Watch& watch = {});
template <class A, class B, class Sink>
requires Operands<A, B> && Consumes<Sink, OperandValue<A>> ConsumedContraction
contract(std::string_view spec, const A& a, const B& b, const Sink& sink, const Resources& here = {},
         const ContractOptions& options = {}, const PlanOptions& how = {}, const Watch& watch = {}) {
    return contract_each<OperandValue<A>>(spec, ContractOperand<OperandValue<A>>(a),
                                          ContractOperand<OperandValue<A>>(b), sink, here, options, how, watch);
}

/// c = alpha a b + beta c. What is wrong with the call is said before c is touched; ContractOptions::strict says what
/// becomes of it when the work itself fails.
template <Scalar T>
TESSERA_API ContractReport contract_into(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                         const std::type_identity_t<ContractOperand<T>>& b, Tensor<T>& c,
                                         const Resources& here = {}, const ContractOptions& options = {},
                                         const PlanOptions& how = {}, const Watch& watch = {});

/// One operand: permute, trace, diagonal, partial sums. The cores of its ranks do it.
template <Scalar T>
TESSERA_API Contraction<T> contract(std::string_view spec, const Tensor<T>& a, const Resources& here = {},
                                    const ContractOptions& options = {});
/// c = alpha (a, permuted, its diagonal, or sums of it) + beta c. On an exception c is as it was.
template <Scalar T>
TESSERA_API ContractReport contract_into(std::string_view spec, const Tensor<T>& a, Tensor<T>& c,
                                         const Resources& here = {}, const ContractOptions& options = {});

/// Just the tensor.
template <Scalar T>
TESSERA_API Tensor<T> einsum(std::string_view spec, const Tensor<T>& a, const Tensor<T>& b) {
    return contract(spec, a, b).tensor;
}
template <Scalar T>
TESSERA_API Tensor<T> einsum(std::string_view spec, const Tensor<T>& a) {
    return contract(spec, a).tensor;
}

}  // namespace tessera
