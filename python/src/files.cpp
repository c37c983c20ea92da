// Tensors in HDF5 files.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "module.hpp"
#include "python_tensor.hpp"
#include "tessera/io/hdf5.hpp"

namespace tessera::python {

using namespace nb::literals;

void bind_files(nb::module_& module) {
    module.def(
        "save",
        [](const PythonTensor& x, const std::string& path) {
            const auto kept = x.get();
            const nb::gil_scoped_release others_run;
            write_tensor(path, *kept);
        },
        "tensor"_a, "path"_a);
    module.def(
        "load",
        [](const std::string& path, int threads, Communicator* ranks) {
            const nb::gil_scoped_release others_run;
            return PythonTensor(read_any(path, threads, ranks ? *ranks : self_communicator()));
        },
        "path"_a, "threads"_a, "ranks"_a.none());
}

}  // namespace tessera::python
