#pragma once
// What the planner is told of the ranks and devices at hand.

#include <cstdint>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/contract/resources.hpp"
#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

/// What is said of the nodes that ranks are on (collective).
struct Nodes {
    std::vector<int> of_rank;
    std::vector<std::int64_t> memory;  // of each
    std::int64_t least_memory = 0;
    int most_ranks = 1;  // on one
};
Nodes nodes_of(Communicator& ranks);

/// MachineError where the ranks of a node, together, need more than it has. A result that is handed over tile by tile
/// takes no room.
void require_host_room(const Plan& plan, const Nodes& nodes, bool handed_over);

/// The same on all ranks (collective). Rates are those of Resources::machine where given, else round figures of usual
/// hardware: they only have to rank algorithms. Ranks, threads, devices and memory are those at hand.
MachineModel machine_for(Communicator& ranks, const Resources& here, const Nodes& nodes);

}  // namespace tessera
