#pragma once
// Which tiles of other ranks are in a rank's host memory when, where that has no room for all of them at once: a ring
// of so many bytes through which they pass, turn after turn of the rank's work.

#include <cstdint>
#include <vector>

#include "tessera/index/operand.hpp"

namespace tessera {

/// A stored tile of another rank that is used in a turn.
struct RingUse {
    Operand operand = Operand::a;
    std::int32_t slot = 0;
    std::int64_t bytes = 0;
};

/// It comes for this turn, to this place in the ring.
struct RingReceive {
    Operand operand = Operand::a;
    std::int32_t slot = 0;
    std::int64_t offset = 0, bytes = 0;
    std::int32_t after = -1;  // the turn that must be over, because the place is still in use in it; -1: none
};

struct RingPlan {
    std::vector<std::vector<RingReceive>> turns;
    std::int64_t bytes = 0;  // of the ring that are used
    int lookahead = 0;       // every tile may come so many turns before its own begins
};

/// Every turn finds its tiles in the ring. A tile stays as long as there is room; where there is none, the one that is
/// used again last goes, and comes again for its next turn. The turns just worked on are spared, so that what comes
/// next is on its way meanwhile. No turn may use more than `capacity` bytes; each lists a tile once.
RingPlan plan_ring(const std::vector<std::vector<RingUse>>& turns, std::int64_t capacity);

}  // namespace tessera
