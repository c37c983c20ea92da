#pragma once

#include <optional>

#include "inspect/inspection.hpp"

namespace tessera {

struct RankCosts {
    std::int64_t sent_bytes = 0;        // between ranks, in all
    std::int64_t most_moved_bytes = 0;  // into or out of one rank
    double busiest_seconds = 0;         // products and made tiles of the rank with the most of them
};
/// Of ranks without devices; nothing where there are too many tiles and ranks to count cheaply.
std::optional<RankCosts> rank_costs(const Inspection& in, const Assignment& assignment);

}  // namespace tessera
