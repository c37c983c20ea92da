// The compiled part of the package: what tessera/*.py calls. Its names are the package's own and may change.

#include "module.hpp"

#include <nanobind/nanobind.h>

#include "tessera/base/error.hpp"

namespace nb = nanobind;

namespace tessera::python {

namespace {

/// The classes of tessera/_errors.py.
struct Classes {
    nb::object user, machine, budget, unavailable, internal;
};

void translate(const std::exception_ptr& error, void* payload) {
    const auto& classes = *static_cast<const Classes*>(payload);
    try {
        std::rethrow_exception(error);
    } catch (const UserError& e) {
        PyErr_SetString(classes.user.ptr(), e.what());
    } catch (const BudgetError& e) {
        const nb::object made = classes.budget(nb::str(e.what()), e.budget_bytes(), e.smallest_bytes());
        PyErr_SetObject(classes.budget.ptr(), made.ptr());
    } catch (const BackendUnavailable& e) {
        PyErr_SetString(classes.unavailable.ptr(), e.what());
    } catch (const MachineError& e) {
        PyErr_SetString(classes.machine.ptr(), e.what());
    } catch (const Error& e) {
        PyErr_SetString(classes.internal.ptr(), e.what());
    }
}

}  // namespace

void bind_errors(nb::module_&) {
    const nb::object module = nb::module_::import_("tessera._errors");
    // Kept as long as the process: errors may come to the very end.
    auto* classes = new Classes{module.attr("UserError"), module.attr("MachineError"), module.attr("BudgetError"),
                                module.attr("BackendUnavailable"), module.attr("InternalError")};
    nb::register_exception_translator(translate, classes);
}

}  // namespace tessera::python

NB_MODULE(_core, module) {
    // Of processes that end in the middle of something (MPI_Abort). tests/test_memory.py looks for true leaks.
    nb::set_leak_warnings(false);
    module.attr("version") = TESSERA_VERSION;
    module.attr("built_mpi") = TESSERA_BUILT_MPI;    // "Open MPI 4.1.4"; empty: built without
    module.attr("built_cuda") = TESSERA_BUILT_CUDA;  // "13.0.48"; empty: built without
    tessera::python::bind_errors(module);
    tessera::python::bind_arrays(module);
    tessera::python::bind_ranks(module);
    tessera::python::bind_tensors(module);
    tessera::python::bind_blocks(module);
    tessera::python::bind_devices(module);
    tessera::python::bind_contractions(module);
    tessera::python::bind_matrices(module);
#ifdef TESSERA_PYTHON_IO
    tessera::python::bind_files(module);
#endif
#ifdef TESSERA_PYTHON_CHEM
    tessera::python::bind_energies(module);
    tessera::python::bind_coupled_cluster(module);
#endif
}
