#pragma once
// Where work is done: ranks, threads, memory, GPUs.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/base/units.hpp"

namespace TESSERA_API tessera {

class Communicator;

struct Resources {
    /// The ranks that work together. None: those that the stored operands are on, or this process alone.
    Communicator* communicator = nullptr;
    int threads = 0;  // of each rank; 0: OMP_NUM_THREADS, or all cores
    /// Bytes for tiles on the host of each rank, operands and result included; 0: what the machine has. A budget that
    /// is too small is refused before any work (BudgetError).
    std::int64_t memory = 0;
    /// GPUs of each rank by number (one may be named more than once); none: its cores.
    std::vector<int> devices = {};
    std::int64_t device_memory = 0;  // bytes on each of them; 0: what is free
    /// A machine file, or the name of a machine that comes with Tessera: its rates rank the ways to plan, in place of
    /// round figures of usual hardware. The same on all ranks. It never changes a result, only the way to it.
    std::string machine = {};
};

}  // namespace tessera
