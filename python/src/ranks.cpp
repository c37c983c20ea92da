// Several processes that work as one: communicators of mpi4py.

#include <nanobind/nanobind.h>

#include "module.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::python {

namespace nb = nanobind;

using namespace nb::literals;

void bind_ranks(nb::module_& module) {
    nb::class_<Communicator>(module, "Ranks")
        .def_prop_ro("rank", [](const Communicator& ranks) { return ranks.rank(); })
        .def_prop_ro("size", [](const Communicator& ranks) { return ranks.size(); });
    // Kept as long as the process: tensors refer to it.
    module.def(
        "mpi_ranks", [](int handle) { return mpi_communicator_from_handle(handle).release(); }, "handle"_a,
        nb::rv_policy::reference, "Of an MPI communicator, by its Fortran handle. Collective.");
}

}  // namespace tessera::python
