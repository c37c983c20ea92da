#pragma once
// What ranks agree on. Those that were asked for different things would wait for each other, or mix their tiles: found
// out before any work.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/comm/communicator.hpp"

namespace TESSERA_API tessera {

/// Whether tensors on the two are on the same ranks: one communicator, or two of this rank alone.
inline bool same_ranks(const Communicator& one, const Communicator& other) {
    return &one == &other || (one.size() == 1 && other.size() == 1);
}

/// Collective. Throws UserError on every rank, naming the first thing that is not on all ranks what it is on rank 0.
void require_same_on_all(Communicator& ranks, const std::vector<std::pair<std::string, std::string>>& things);

/// Collective. Of values whose magnitude is below 2^53.
std::int64_t largest_on_all(Communicator& ranks, std::int64_t value);

}  // namespace tessera
