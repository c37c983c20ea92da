#pragma once

#include "probe/rates.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::app {

/// The rate that a result is held against: of all ranks together; on devices, of all GPUs that are named, each once
/// however many entries and ranks share it. A device that works hard lowers its clock to keep its power limit, and
/// cores are shared with others: the mean over `seconds` of calls says what they can keep up.
GemmRate gemm_rate(Communicator& ranks, const ContractOptions& options, double seconds);

}  // namespace tessera::app
