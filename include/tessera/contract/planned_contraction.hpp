#pragma once
// Plan, then execute: what will happen is known, can be read and timed before any data is touched, and is kept for
// operands to come.

#include <memory>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"
#include "tessera/contract/contract_options.hpp"
#include "tessera/machine/machine_model.hpp"
#include "tessera/simulate/simulate.hpp"

namespace TESSERA_API tessera {

/// A contraction that is planned: immutable and cheap to copy; several threads may execute it at once (on one rank). It
/// serves all operands with the tilings and tiles that it was planned for; with a filter their norms must be the same
/// too.
class PlannedContraction {
  public:
    const Plan& plan() const;
    const PlanCounts& counts() const { return plan().counts; }
    /// As it was given, in canonical form. (plan().spec is without diagonals and sums within one operand.)
    std::string spec() const;
    /// What it was planned for.
    const MachineModel& machine() const;
    /// On several ranks: where stored operands must be, and where the result will be.
    const Distribution& distribution_a() const { return plan().distribution_a; }
    const Distribution& distribution_b() const { return plan().distribution_b; }
    const Distribution& distribution_c() const { return plan().distribution_c; }
    /// False: the host has no room for the result beside the operands; only a sink can take it.
    bool result_fits() const;
    /// That planning took.
    double seconds() const;

    struct Impl;
    explicit PlannedContraction(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
    const Impl& impl() const { return *impl_; }

  private:
    std::shared_ptr<const Impl> impl_;
};

/// The plan for a person, and as one JSON object.
std::string explain(const PlannedContraction& planned);
std::string explain_json(const PlannedContraction& planned);
/// Its time line on this machine, or on one that is given by name or file.
Simulation simulate(const PlannedContraction& planned, const MachineModel& machine,
                    const SimulateOptions& options = {});
Simulation simulate(const PlannedContraction& planned, const std::string& machine, const SimulateOptions& options = {});

/// Plans from shapes: plan<double>("pcd,cdab->pab", shape_of_t, {shape_of_v, SourceKind::host_made}, here). Collective
/// over the ranks. A filter on an operand with a diagonal or a sum of its own needs norms that only its data have: such
/// a spec is refused with a filter (contract does both).
template <Scalar T>
TESSERA_API PlannedContraction plan(std::string_view spec, const OperandShape& a, const OperandShape& b,
                                    const Resources& here = {}, const ContractOptions& options = {},
                                    const PlanOptions& how = {});
/// The same from operands: no data is touched.
template <Scalar T>
TESSERA_API PlannedContraction plan(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                    const std::type_identity_t<ContractOperand<T>>& b, const Resources& here = {},
                                    const ContractOptions& options = {}, const PlanOptions& how = {});
template <class A, class B>
requires Operands<A, B> PlannedContraction plan(std::string_view spec, const A& a, const B& b,
                                                const Resources& here = {}, const ContractOptions& options = {},
                                                const PlanOptions& how = {}) {
    return plan<OperandValue<A>>(spec, ContractOperand<OperandValue<A>>(a), ContractOperand<OperandValue<A>>(b), here,
                                 options, how);
}

/// Plans c = alpha a b + beta c.
template <Scalar T>
TESSERA_API PlannedContraction plan_into(std::string_view spec, const OperandShape& a, const OperandShape& b,
                                         const OperandShape& c, const Resources& here = {},
                                         const ContractOptions& options = {}, const PlanOptions& how = {});
template <Scalar T>
TESSERA_API PlannedContraction plan_into(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                                         const std::type_identity_t<ContractOperand<T>>& b, const Tensor<T>& c,
                                         const Resources& here = {}, const ContractOptions& options = {},
                                         const PlanOptions& how = {});

/// Plans for a machine that is described, with its ranks and devices: to be read and simulated, not executed. A budget
/// of 0 is the machine's memory.
template <Scalar T>
TESSERA_API PlannedContraction plan_for(const MachineModel& machine, std::string_view spec, const OperandShape& a,
                                        const OperandShape& b, const PlanBudget& budget = {},
                                        const ContractOptions& options = {}, const PlanOptions& how = {});

/// Runs the plan. Operands other than it was planned for are refused before any work, naming the operand and the first
/// tile that differs.
template <Scalar T>
TESSERA_API Contraction<T> execute(const PlannedContraction& planned, const std::type_identity_t<ContractOperand<T>>& a,
                                   const std::type_identity_t<ContractOperand<T>>& b, const Watch& watch = {});
template <class A, class B>
requires Operands<A, B> Contraction<OperandValue<A>> execute(const PlannedContraction& planned, const A& a, const B& b,
                                                             const Watch& watch = {}) {
    return execute<OperandValue<A>>(planned, ContractOperand<OperandValue<A>>(a), ContractOperand<OperandValue<A>>(b),
                                    watch);
}

/// Hands the result over, tile by tile.
template <Scalar T>
TESSERA_API ConsumedContraction execute_each(const PlannedContraction& planned,
                                             const std::type_identity_t<ContractOperand<T>>& a,
                                             const std::type_identity_t<ContractOperand<T>>& b,
                                             const std::type_identity_t<TileConsumer<T>>& sink,
                                             const Watch& watch = {});
template <class A, class B, class Sink>
requires Operands<A, B> && Consumes<Sink, OperandValue<A>> ConsumedContraction
execute(const PlannedContraction& planned, const A& a, const B& b, const Sink& sink, const Watch& watch = {}) {
    return execute_each<OperandValue<A>>(planned, ContractOperand<OperandValue<A>>(a),
                                         ContractOperand<OperandValue<A>>(b), sink, watch);
}

/// Runs a plan of plan_into. C's tiles must be among the plan's result tiles (with a filter: those it was planned for).
/// What is wrong with the call is said before c is touched; ContractOptions::strict says what becomes of it when the
/// work itself fails.
template <Scalar T>
TESSERA_API ContractReport execute_into(const PlannedContraction& planned,
                                        const std::type_identity_t<ContractOperand<T>>& a,
                                        const std::type_identity_t<ContractOperand<T>>& b, Tensor<T>& c,
                                        const Watch& watch = {});

}  // namespace tessera
