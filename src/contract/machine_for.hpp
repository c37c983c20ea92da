#pragma once
// What the planner is told of the ranks and devices at hand.

#include "tessera/contract/contract.hpp"
#include "tessera/machine/machine_model.hpp"

namespace tessera {

/// The same on all ranks (collective). Rates are round figures of usual hardware: they only have to rank algorithms.
MachineModel machine_for(Communicator& ranks, const ContractOptions& options);

}  // namespace tessera
