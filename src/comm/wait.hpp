#pragma once
// Waiting for transfers without taking the core from ranks that share it.

#include <memory>
#include <thread>
#include <vector>

#include "tessera/comm/communicator.hpp"

namespace tessera {

inline void wait(Transfer& transfer) {
    for (int spins = 0; !transfer.done(); ++spins)
        if (spins > 100) std::this_thread::yield();
}

/// All of them, and forgets them.
inline void wait_all(std::vector<std::unique_ptr<Transfer>>& transfers) {
    for (auto& t : transfers) wait(*t);
    transfers.clear();
}

}  // namespace tessera
