// Functions of block-sparse matrices: sign, inverse, its root, exponential, density matrices.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "interrupt.hpp"
#include "module.hpp"
#include "python_tensor.hpp"
#include "settings.hpp"
#include "tessera/matrix/functions.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

struct Stopped {};

nb::tuple matrix_function(const std::string& name, const PythonTensor& a, const PythonTensor* overlap,
                          std::int64_t electrons, double tolerance, int max_iterations, const std::string& scaling,
                          const Settings& settings) {
    MatrixOptions options;
    options.filter = settings.filter;
    options.tolerance = tolerance;
    options.max_iterations = max_iterations;
    if (scaling != "gershgorin" && scaling != "lanczos")
        throw UserError("scaling '" + scaling + "': 'gershgorin' or 'lanczos'");
    options.scaling = scaling == "lanczos" ? Scaling::lanczos : Scaling::gershgorin;
    const auto kept = a.get(), kept_overlap = overlap ? overlap->get() : nullptr;
    return std::visit(
        [&]<Scalar T>(const Tensor<T>& x) {
            const Tensor<T>* s = kept_overlap ? std::get_if<Tensor<T>>(&*kept_overlap) : nullptr;
            if (kept_overlap && !s) throw UserError("overlap has another dtype than the matrix");
            const Interrupt interrupt;
            options.on_step = [](const MatrixStep&) {
                if (Interrupt::seen()) throw Stopped{};
            };
            try {
                auto done = [&]() -> MatrixResult<T> {
                    const nb::gil_scoped_release others_run;
                    const Resources here = settings.here();
                    if (name == "sign") return sign(x, options, here);
                    if (name == "inverse") return inverse(x, options, here);
                    if (name == "sqrt_inverse") return sqrt_inverse(x, options, here);
                    if (name == "exponential") return exponential(x, options, here);
                    return s ? purify(x, *s, electrons, options, here) : purify(x, electrons, options, here);
                }();
                return nb::make_tuple(PythonTensor(std::move(done.matrix)), std::move(done.report));
            } catch (const Stopped&) {
                if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
                throw nb::python_error();
            }
        },
        *kept);
}

/// The class NotConverged of tessera/_errors.py.
void translate(const std::exception_ptr& error, void* payload) {
    try {
        std::rethrow_exception(error);
    } catch (const MatrixNotConverged& e) {
        const nb::handle type = static_cast<PyObject*>(payload);
        const nb::object made = type(e.what(), "matrix", e.report().history.size());
        PyErr_SetObject(type.ptr(), made.ptr());
    }
}

}  // namespace

void bind_matrices(nb::module_& module) {
    nb::register_exception_translator(
        translate, nb::object(nb::module_::import_("tessera._errors").attr("NotConverged")).release().ptr());
    nb::class_<MatrixReport>(module, "MatrixReport", "What a function of a matrix did.")
        .def_ro("error", &MatrixReport::error, "The result is no further (Frobenius norm) from the exact one.")
        .def_ro("residual", &MatrixReport::residual, "Norm of what the iteration makes zero, of the result.")
        .def_ro("lowest", &MatrixReport::lowest, "All eigenvalues were taken to lie from here")
        .def_ro("highest", &MatrixReport::highest, "to here.")
        .def_ro("homo", &MatrixReport::homo, "purify: no eigenvalue lies between homo and lumo.")
        .def_ro("lumo", &MatrixReport::lumo)
        .def_prop_ro("iterations", [](const MatrixReport& r) { return r.history.size(); })
        .def_prop_ro("residuals",
                     [](const MatrixReport& r) {
                         std::vector<double> all;
                         for (const auto& step : r.history) all.push_back(step.residual);
                         return all;
                     })
        .def_ro("products", &MatrixReport::products, "Products of matrices.")
        .def_ro("device_products", &MatrixReport::device_products, "Products of them that ran on devices.")
        .def_ro("flops", &MatrixReport::flops)
        .def_ro("seconds", &MatrixReport::seconds)
        .def("__repr__", [](const MatrixReport& r) {
            return nb::str("MatrixReport(error={:.3g}, residual={:.3g}, iterations={})")
                .format(r.error, r.residual, r.history.size());
        });
    module.def("matrix_function", &matrix_function, "name"_a, "a"_a, "overlap"_a.none(), "electrons"_a, "tolerance"_a,
               "max_iterations"_a, "scaling"_a, "settings"_a);
}

}  // namespace tessera::python
