#pragma once
// This machine as a MachineModel: measured, in a second or two.

#include "tessera/machine/machine_model.hpp"

namespace tessera {

/// All ranks are taken to run on this node, each on its share of the cores. All
/// devices are taken to be like the first.
MachineModel probe_machine(int threads, int ranks = 1);

}  // namespace tessera
