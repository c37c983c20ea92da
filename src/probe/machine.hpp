#pragma once
// This machine as a MachineModel: measured, in a second or two.

#include "tessera/machine/machine_model.hpp"

namespace tessera {

/// All ranks are taken to run on this node, each on its share of the cores. Rates of devices are 0, and so is their
/// number, until something measures them.
MachineModel probe_machine(int threads, int ranks = 1);

}  // namespace tessera
