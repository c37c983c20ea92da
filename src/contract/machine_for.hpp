#pragma once
// What the planner is told of the ranks and devices at hand.

#include "tessera/contract/contract.hpp"
#include "tessera/machine/machine_model.hpp"

namespace tessera {

/// Bytes of host memory for each rank: its share of its node's, the least of all ranks (collective).
std::int64_t host_memory_of(Communicator& ranks);

/// Of a plan whose result is handed over, tile by tile: MachineError where a rank's host has no room for the rest.
void require_host_room(const Plan& plan, std::int64_t host_memory);

/// The same on all ranks (collective). Rates are round figures of usual hardware: they only have to rank algorithms.
MachineModel machine_for(Communicator& ranks, const ContractOptions& options);

}  // namespace tessera
