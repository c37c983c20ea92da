// Stands in where Tessera is built without MPI.
#include "base/check.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {

Communicator& mpi_world() {
    const int ranks = ranks_of_environment();
    if (ranks > 1)
        throw BackendUnavailable(fmt::format(
            "started as {} ranks, but this Tessera was built without MPI (libopenmpi-dev or libmpich-dev)", ranks));
    return self_communicator();
}

std::unique_ptr<Communicator> mpi_communicator_from_handle(int, std::int64_t) {
    throw BackendUnavailable("this Tessera was built without MPI (libopenmpi-dev or libmpich-dev)");
}

}  // namespace tessera
