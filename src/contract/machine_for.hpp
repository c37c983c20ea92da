#pragma once
// What the planner is told of the ranks and devices at hand.

#include "tessera/comm/communicator.hpp"
#include "tessera/contract/resources.hpp"
#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"

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

/// The same on all ranks (collective). Rates are those of Resources::machine where given, else round figures of usual
/// hardware: they only have to rank algorithms. Ranks, threads, devices and memory are those at hand.
MachineModel machine_for(Communicator& ranks, const Resources& here, const Nodes& nodes);

}  // namespace tessera
