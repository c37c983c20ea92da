#pragma once

#include "inspect/build_plan.hpp"

namespace tessera {

/// A plan that the caller kept from an earlier contraction: a user error where it is not one of these operands, ranks
/// and options, naming what differs.
void require_plan_of(const Plan& plan, const PlanRequest& request, const MachineModel& machine);

}  // namespace tessera
