#pragma once
// Einsums of any number of block-sparse tensors: einsum("ijcd,cdab,pa->ijpb", a, b, c). They are contracted two at a
// time. The order is found from the spec and the shapes alone, by the flops and bytes of nonzero tiles: no budget,
// machine or number of ranks changes it.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/contract/contract.hpp"

namespace TESSERA_API tessera {

/// A list of operands, stored or made on demand: contract("ij,jk,kl->il", operands(a, b, c), here, options).
template <class A, class... More>
requires(Operands<A, More>&&...) std::vector<ContractOperand<OperandValue<A>>> operands(const A& a,
                                                                                        const More&... more) {
    using One = ContractOperand<OperandValue<A>>;
    return std::vector<One>{One(a), One(more)...};
}

/// ContractOptions hold as for two operands: alpha, beta, result_shape and result_distribution for the last step. With
/// a filter, intermediate tiles are dropped too, where their norm, times the norms of the operands still to come, stays
/// below filter / steps; ContractReport::left_out bounds all that was left out, in the result's Frobenius norm.
template <Scalar T>
TESSERA_API Contraction<T> contract(std::string_view spec, const std::vector<ContractOperand<T>>& operands,
                                    const Resources& here = {}, const ContractOptions& options = {},
                                    const PlanOptions& how = {}, const Watch& watch = {});
/// c = alpha (the einsum) + beta c. On an exception c is as for two operands (ContractOptions::strict).
template <Scalar T>
TESSERA_API ContractReport contract_into(std::string_view spec, const std::vector<ContractOperand<T>>& operands,
                                         Tensor<T>& c, const Resources& here = {}, const ContractOptions& options = {},
                                         const PlanOptions& how = {}, const Watch& watch = {});

/// Just the tensor.
template <class A, class B, class C, class... More>
requires(Operands<A, B>&& Operands<A, C> &&
         (Operands<A, More> && ...)) Tensor<OperandValue<A>> einsum(std::string_view spec, const A& a, const B& b,
                                                                    const C& c, const More&... more) {
    return contract(spec, operands(a, b, c, more...)).tensor;
}

/// An einsum of two or more operands that is planned: its order, and with no filter a plan for each step. Immutable and
/// cheap to copy. It serves all operands with the tilings and tiles that it was planned for; with a filter their norms
/// must be the same too, and steps are planned when the norms of their operands are known.
class PlannedEinsum {
  public:
    /// With labels in place of an ellipsis and with the result, which may have been left away.
    std::string spec() const;
    /// "((1 2) 3)": operands by number.
    std::string tree() const;
    /// The specs of the steps, and their plans (none with a filter).
    std::vector<std::string> step_specs() const;
    const std::vector<PlannedContraction>& steps() const;
    /// Of all steps (with a filter: at most), with 2 per multiply-add of real numbers; complex ones need 4 times that.
    double flops() const;
    /// Of the order that dense operands of the same extents would take. Not whole: no less than this, which is far
    /// more.
    double dense_flops() const;
    bool dense_flops_whole() const;
    /// On a rank, operands and result included; with a filter by bounds of the norms, for one rank.
    std::int64_t peak_host_bytes() const;
    /// That finding the order and planning took.
    double seconds() const;

    struct Impl;
    explicit PlannedEinsum(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
    const Impl& impl() const { return *impl_; }

  private:
    std::shared_ptr<const Impl> impl_;
};

/// The order for a person, and as one JSON object: tree, steps, counted work, that of the dense order, memory.
std::string explain(const PlannedEinsum& planned);
std::string explain_json(const PlannedEinsum& planned);

/// Plans from shapes: plan<double>("ij,jk,kl->il", {shape_a, shape_b, shape_c}). Collective over the ranks.
template <Scalar T>
TESSERA_API PlannedEinsum plan(std::string_view spec, const std::vector<OperandShape>& operands,
                               const Resources& here = {}, const ContractOptions& options = {},
                               const PlanOptions& how = {});
template <Scalar T>
TESSERA_API PlannedEinsum plan(std::string_view spec, const std::vector<ContractOperand<T>>& operands,
                               const Resources& here = {}, const ContractOptions& options = {},
                               const PlanOptions& how = {});

/// Plans c = alpha (the einsum) + beta c.
template <Scalar T>
TESSERA_API PlannedEinsum plan_into(std::string_view spec, const std::vector<ContractOperand<T>>& operands,
                                    const Tensor<T>& c, const Resources& here = {}, const ContractOptions& options = {},
                                    const PlanOptions& how = {});

/// Operands other than it was planned for are refused before any work.
template <Scalar T>
TESSERA_API Contraction<T> execute(const PlannedEinsum& planned, const std::vector<ContractOperand<T>>& operands,
                                   const Watch& watch = {});
/// Runs a plan of plan_into. On an exception c is as for two operands (ContractOptions::strict).
template <Scalar T>
TESSERA_API ContractReport execute_into(const PlannedEinsum& planned, const std::vector<ContractOperand<T>>& operands,
                                        Tensor<T>& c, const Watch& watch = {});

}  // namespace tessera
