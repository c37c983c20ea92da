#pragma once
// For programs that use MPI themselves: their communicator as Tessera's. The only public header that needs mpi.h.

// The C++ bindings of old are not wanted: they would have to be linked.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <memory>

#include "tessera/base/api.hpp"
#include "tessera/comm/communicator.hpp"
#include "tessera/comm/world.hpp"

namespace TESSERA_API tessera {

/// The ranks of an MPI communicator (a duplicate of it is used, so messages never mix). Collective over it. MPI must be
/// initialised with MPI_THREAD_FUNNELED or more, and must not be finalised while the result lives. With FUNNELED all
/// calls must come from MPI's main thread, and a contraction's messages are moved by it while other threads work.
inline std::unique_ptr<Communicator> mpi_communicator(MPI_Comm ranks, std::int64_t message_limit = kMessageLimit) {
    return mpi_communicator_from_handle(MPI_Comm_c2f(ranks), message_limit);
}

}  // namespace tessera
