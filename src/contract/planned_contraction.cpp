// Planning as the public API has it, and what can be asked of a planned contraction.

#include "tessera/contract/planned_contraction.hpp"

#include "contract/planned_impl.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera {

const Plan& PlannedContraction::plan() const { return impl_->plan; }
std::string PlannedContraction::spec() const { return impl_->spec.text(); }
const MachineModel& PlannedContraction::machine() const { return impl_->machine; }
bool PlannedContraction::result_fits() const { return !impl_->too_large; }
double PlannedContraction::seconds() const { return impl_->seconds; }

std::string explain(const PlannedContraction& planned) {
    auto text = explain(planned.plan());
    if (!planned.result_fits())
        text += "  result     too large for the host: its tiles are handed over as devices finish them\n";
    return text;
}

std::string explain_json(const PlannedContraction& planned) { return explain_json(planned.plan()); }

Simulation simulate(const PlannedContraction& planned, const MachineModel& machine, const SimulateOptions& options) {
    return simulate(planned.plan(), machine, options);
}
Simulation simulate(const PlannedContraction& planned, const std::string& machine, const SimulateOptions& options) {
    return simulate(planned.plan(), read_machine(machine).machine, options);
}

template <Scalar T>
PlannedContraction plan(std::string_view spec, const OperandShape& a, const OperandShape& b, const Resources& here,
                        const ContractOptions& options, const PlanOptions& how) {
    return plan_here(question_of<T>(spec, a, b, nullptr, options, how), here,
                     here.communicator ? *here.communicator : self_communicator());
}

template <Scalar T>
PlannedContraction plan(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                        const std::type_identity_t<ContractOperand<T>>& b, const Resources& here,
                        const ContractOptions& options, const PlanOptions& how) {
    settle_norms<T>(options, a, b, nullptr);
    return plan_here(question_of<T>(spec, shape_of(a), shape_of(b), nullptr, options, how), here,
                     ranks_of<T>(a, b, nullptr, here));
}

template <Scalar T>
PlannedContraction plan_into(std::string_view spec, const OperandShape& a, const OperandShape& b, const OperandShape& c,
                             const Resources& here, const ContractOptions& options, const PlanOptions& how) {
    return plan_here(question_of<T>(spec, a, b, &c, options, how), here,
                     here.communicator ? *here.communicator : self_communicator());
}

template <Scalar T>
PlannedContraction plan_into(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                             const std::type_identity_t<ContractOperand<T>>& b, const Tensor<T>& c,
                             const Resources& here, const ContractOptions& options, const PlanOptions& how) {
    settle_norms<T>(options, a, b, &c);
    const OperandShape old = shape_of(ContractOperand<T>(c));
    return plan_here(question_of<T>(spec, shape_of(a), shape_of(b), &old, options, how), here,
                     ranks_of<T>(a, b, &c, here));
}

template <Scalar T>
PlannedContraction plan_for(const MachineModel& machine, std::string_view spec, const OperandShape& a,
                            const OperandShape& b, const PlanBudget& budget, const ContractOptions& options,
                            const PlanOptions& how) {
    return plan_there(question_of<T>(spec, a, b, nullptr, options, how), machine, budget);
}

#define TESSERA_INSTANTIATE(T)                                                                                        \
    template PlannedContraction plan<T>(std::string_view, const OperandShape&, const OperandShape&, const Resources&, \
                                        const ContractOptions&, const PlanOptions&);                                  \
    template PlannedContraction plan<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,            \
                                        const std::type_identity_t<ContractOperand<T>>&, const Resources&,            \
                                        const ContractOptions&, const PlanOptions&);                                  \
    template PlannedContraction plan_into<T>(std::string_view, const OperandShape&, const OperandShape&,              \
                                             const OperandShape&, const Resources&, const ContractOptions&,           \
                                             const PlanOptions&);                                                     \
    template PlannedContraction plan_into<T>(std::string_view, const std::type_identity_t<ContractOperand<T>>&,       \
                                             const std::type_identity_t<ContractOperand<T>>&, const Tensor<T>&,       \
                                             const Resources&, const ContractOptions&, const PlanOptions&);           \
    template PlannedContraction plan_for<T>(const MachineModel&, std::string_view, const OperandShape&,               \
                                            const OperandShape&, const PlanBudget&, const ContractOptions&,           \
                                            const PlanOptions&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
