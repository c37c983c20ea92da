#pragma once
// A message of any size and any number of pieces as MPI requests.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/comm/communicator.hpp"
#include "tessera/comm/mpi.hpp"

namespace tessera {

/// Throws MachineError with MPI's own text unless all is well.
void check_mpi(int code, const char* what);

enum class Way : std::uint8_t { send, receive };

/// Starts it. What is above `limit` bytes travels in parts of that size, the last one smaller.
std::unique_ptr<Transfer> start_transfer(MPI_Comm ranks, Way way, int peer, int tag,
                                         std::span<const MessagePiece> pieces, std::int64_t limit);

}  // namespace tessera
