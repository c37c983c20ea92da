#pragma once
// The ranks a program was started with, and how a program of many ranks ends when one of them fails.

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/base/api.hpp"
#include "tessera/comm/communicator.hpp"

namespace TESSERA_API tessera {

/// All ranks that mpirun, mpiexec or srun started, MPI being initialised at the first call and finalised at exit; the
/// one process where none of them did (MPI is then never touched). BackendUnavailable where Tessera was built without
/// MPI and there is more than one rank. Call it from the main thread.
Communicator& mpi_world();

/// Bytes that one MPI message carries at most; a count of bytes is an int there.
inline constexpr std::int64_t kMessageLimit = std::int64_t{1} << 30;

/// mpi_communicator (comm/mpi.hpp) for who sees no mpi.h, as bindings of other languages: from the handle that
/// MPI_Comm_c2f gives. Collective. BackendUnavailable where Tessera was built without MPI.
std::unique_ptr<Communicator> mpi_communicator_from_handle(int handle, std::int64_t message_limit = kMessageLimit);

/// What an MPI starter has said of this process through its environment: the number of ranks, 0 where it was started
/// plainly, 1 where there is a starter that does not say.
int ranks_of_environment();

/// Does the work and returns 0. When it throws, on one rank or several, the message goes to stderr (naming the rank
/// where there are several) and every rank ends with the error's exit code: 2 wrong input, 3 the machine cannot, 70 our
/// own bug or an exception that is not Tessera's. With a single rank that code is returned instead.
int run_ranks_or_abort(Communicator& ranks, const std::function<void()>& work);

}  // namespace tessera
