#pragma once
// Plans that contract() keeps for the next call of the same kind: loops over small contractions plan once.

#include <cstdint>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// contract() and contract_into() on one rank's cores without a filter or bounds look here first: a plan is found again
/// by spec, tilings, stored tiles, scalar type, resources and options. The least recently used go first, so that there
/// are never more than most_plans of most_bytes together. release_memory() gives all of them up. plan() neither looks
/// nor keeps.
struct KeptPlans {
    std::int64_t plans = 0, bytes = 0;  // kept now
    std::int64_t found = 0, made = 0;   // calls of this process that found theirs, that planned anew
    std::int64_t most_plans = 256, most_bytes = 64LL << 20;
};
KeptPlans kept_plans();

}  // namespace tessera
