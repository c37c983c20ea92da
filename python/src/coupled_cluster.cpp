// CCSD and (T) over integrals that Python holds or makes.

#include "tessera/chem/coupled_cluster.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <list>
#include <memory>
#include <vector>

#include "interrupt.hpp"
#include "module.hpp"
#include "python_array.hpp"
#include "tessera/base/error.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

struct Stopped {};

/// One of float64, as it lies.
class Doubles {
  public:
    Doubles(nb::object object, const char* name, bool result = false)
        : array_(result ? PythonArray::result(std::move(object), name) : PythonArray(std::move(object), name)) {
        if (array_.kind() == ScalarKind::f64) return;
        if (result || array_.kind() != ScalarKind::f32) throw UserError(std::string(name) + " is no array of float64");
        array_ = std::move(array_).as(ScalarKind::f64);
    }
    ArrayView<const double> read() const { return array_.view<const double>(); }
    ArrayView<double> write() const { return array_.view<double>(); }

  private:
    PythonArray array_;
};

/// rows(first, count) gives a row-major array of as many elements as are wanted. Calls come without the GIL.
chem::OrbitalIntegrals::Rows python_rows(nb::object rows, const char* name) {
    if (rows.is_none()) return {};
    const std::shared_ptr<nb::object> call(new nb::object(std::move(rows)), [](nb::object* p) {
        const nb::gil_scoped_acquire python;
        delete p;
    });
    return [call, name](std::int64_t first, std::int64_t count, std::span<double> out) {
        const nb::gil_scoped_acquire python;
        const Doubles made((*call)(first, count), name);
        const auto view = made.read();
        if (static_cast<std::size_t>(view.elements()) != out.size() || view.strides != row_major_strides(view.extents))
            throw UserError(std::string(name) + ": a row-major array of " + std::to_string(out.size()) +
                            " elements is needed, not one of extents " + to_string(view.extents));
        std::copy_n(view.data, out.size(), out.data());
    };
}

/// With the arrays that it goes on reading.
class PythonCoupledCluster {
  public:
    PythonCoupledCluster(nb::object oooo, nb::object ooov, nb::object oovv, nb::object ovov, nb::object ovvv,
                         nb::object vvvv, nb::object functions, bool keep, nb::object fock, int threads,
                         std::vector<int> devices, std::int64_t tile) {
        const Doubles a(oooo, "oooo"), b(ooov, "ooov"), c(oovv, "oovv"), d(ovov, "ovov"), f(fock, "fock");
        chem::OrbitalIntegrals integrals;
        integrals.oooo = a.read();
        integrals.ooov = b.read();
        integrals.oovv = c.read();
        integrals.ovov = d.read();
        integrals.ovvv = python_rows(std::move(ovvv), "ovvv");
        if (nb::hasattr(vvvv, "ndim"))
            integrals.vvvv_pairs = held_.emplace_back(std::move(vvvv), "vvvv").read();
        else
            integrals.vvvv = python_rows(std::move(vvvv), "vvvv");
        if (!functions.is_none()) integrals.functions = held_.emplace_back(std::move(functions), "functions").read();
        integrals.keep_vvvv = keep;
        Resources here;
        here.threads = threads;
        here.devices = std::move(devices);
        const nb::gil_scoped_release others_run;
        solver_ = std::make_unique<chem::CoupledCluster>(std::move(integrals), f.read(), here, tile);
    }

    void set_energies(const std::vector<double>& energies) { solver_->set_energies(energies); }

    void next(nb::object t1, nb::object t2, nb::object next1, nb::object next2) {
        const Doubles a(t1, "t1"), b(t2, "t2"), c(next1, "the new t1", true), d(next2, "the new t2", true);
        const nb::gil_scoped_release others_run;
        solver_->next(a.read(), b.read(), c.write(), d.write());
    }

    double energy(nb::object t1, nb::object t2) {
        const Doubles a(t1, "t1"), b(t2, "t2");
        const nb::gil_scoped_release others_run;
        return solver_->energy(a.read(), b.read());
    }

    double triples(nb::object t1, nb::object t2) {
        const Doubles a(t1, "t1"), b(t2, "t2");
        Interrupt interrupt;
        try {
            const nb::gil_scoped_release others_run;
            return solver_->triples(a.read(), b.read(), [](double, double) {
                if (Interrupt::seen()) throw Stopped{};
            });
        } catch (const Stopped&) {
            if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
            throw nb::python_error();
        }
    }

  private:
    std::list<Doubles> held_;
    std::unique_ptr<chem::CoupledCluster> solver_;
};

}  // namespace

void bind_coupled_cluster(nb::module_& module) {
    using C = PythonCoupledCluster;
    nb::class_<C>(module, "CoupledCluster", "What tessera.pyscf iterates with.")
        .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::object, nb::object, nb::object, bool,
                      nb::object, int, std::vector<int>, std::int64_t>(),
             "oooo"_a, "ooov"_a, "oovv"_a, "ovov"_a, "ovvv"_a, "vvvv"_a.none(), "functions"_a.none(), "keep"_a,
             "fock"_a, "threads"_a, "devices"_a, "tile"_a)
        .def("set_energies", &C::set_energies, "energies"_a)
        .def("next", &C::next, "t1"_a, "t2"_a, "next1"_a, "next2"_a)
        .def("energy", &C::energy, "t1"_a, "t2"_a)
        .def("triples", &C::triples, "t1"_a, "t2"_a);
}

}  // namespace tessera::python
