#pragma once
// Which GPUs the ranks have, seen from all of them: who takes which, and whether budgets fit the cards.

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/comm/communicator.hpp"

namespace TESSERA_API tessera {

/// A rank's share of the devices that it sees, by number: ranks that see the same ones (those of a node, unless each
/// was given its own) take as many each, one after another; where ranks are more than devices, each takes one in turn.
/// `seen`: identities of the devices that each rank sees, in the order of their numbers.
std::vector<int> share_of_devices(std::span<const std::vector<std::uint64_t>> seen, int rank);

/// The same for this machine's devices. Collective; BackendUnavailable where this rank sees none.
std::vector<int> share_of_devices(Communicator& ranks);

/// By entry of this rank's list: whether it is the first of all entries of all ranks that are this GPU. Collective.
std::vector<bool> first_of_its_gpu(Communicator& ranks, std::span<const int> devices);

/// Bytes that each entry of the device list may take, the same on all ranks (collective): those wanted, or, for 0,
/// nearly all that is free, shared by all entries of all ranks that are the same GPU. Throws on all ranks, before any
/// work, where one cannot use its devices or the entries of one GPU ask for more than it has.
std::int64_t device_memory_for(Communicator& ranks, std::span<const int> devices, std::int64_t wanted);

}  // namespace tessera
