#pragma once
// What the planner is told of the ranks and devices at hand.

#include "tessera/contract/contract.hpp"
#include "tessera/machine/machine_model.hpp"

namespace tessera {

/// What is said of the nodes that ranks are on: the memory of the smallest, the most ranks on one (collective).
struct Nodes {
    std::int64_t memory = 0;
    int ranks = 1;
};
Nodes nodes_of(Communicator& ranks);

/// MachineError where the ranks of a node, together, need more than it has. A result that is handed over tile by tile
/// takes no room.
void require_host_room(const Plan& plan, const Nodes& nodes, bool handed_over);

/// Bytes that each entry of the device list may take, the same on all ranks (collective): those wanted, or nearly all
/// that is free. Throws on all of them where one cannot use its devices or they have less.
std::int64_t device_memory_for(Communicator& ranks, const std::vector<int>& devices, std::int64_t wanted);

/// The same on all ranks (collective). Rates are round figures of usual hardware: they only have to rank algorithms.
MachineModel machine_for(Communicator& ranks, const ContractOptions& options, const Nodes& nodes);

}  // namespace tessera
