// CCSD and (T) over integrals that Python holds or makes.

#include "tessera/chem/coupled_cluster.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <list>
#include <memory>
#include <utility>
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

    /// PySCF's vector of amplitudes: t1[ia], then t2[i][j][a][b] with (ia) >= (jb). It works by rows; PySCF's own moves
    /// all of t2 once more before.
    static void pack(nb::object t1, nb::object t2, nb::object vector) {
        const Doubles a(t1, "t1"), b(t2, "t2"), c(vector, "the vector", true);
        const auto x = a.read(), y = b.read();
        const auto [o, v] = sizes(x, y, c.read());
        double* to = std::copy_n(x.data, o * v, c.write().data);
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t k = 0; k < v; ++k) {
                for (std::int64_t j = 0; j < i; ++j) to = std::copy_n(y.data + ((i * o + j) * v + k) * v, v, to);
                to = std::copy_n(y.data + ((i * o + i) * v + k) * v, k + 1, to);
            }
    }

    static void unpack(nb::object vector, nb::object t1, nb::object t2) {
        const Doubles c(vector, "the vector"), a(t1, "t1", true), b(t2, "t2", true);
        const auto [o, v] = sizes(a.read(), b.read(), c.read());
        const double* from = c.read().data;
        double* const t = b.write().data;
        std::copy_n(from, o * v, a.write().data);
        from += o * v;
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t k = 0; k < v; ++k) {
                for (std::int64_t j = 0; j < i; ++j, from += v) std::copy_n(from, v, t + ((i * o + j) * v + k) * v);
                double* own = t + (i * o + i) * v * v;
                for (std::int64_t l = 0; l <= k; ++l) own[k * v + l] = own[l * v + k] = from[l];
                from += k + 1;
            }
        constexpr std::int64_t kBlock = 16;
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t j = 0; j < i; ++j) {
                const double* x = t + (i * o + j) * v * v;
                double* y = t + (j * o + i) * v * v;
                for (std::int64_t k0 = 0; k0 < v; k0 += kBlock)
                    for (std::int64_t l0 = 0; l0 < v; l0 += kBlock)
                        for (std::int64_t l = l0; l < std::min(v, l0 + kBlock); ++l)
                            for (std::int64_t k = k0; k < std::min(v, k0 + kBlock); ++k) y[l * v + k] = x[k * v + l];
            }
    }

  private:
    /// Occupied and virtual orbitals of amplitudes that lie as they are numbered.
    static std::pair<std::int64_t, std::int64_t> sizes(const ArrayView<const double>& t1,
                                                       const ArrayView<const double>& t2,
                                                       const ArrayView<const double>& vector) {
        const auto& n = t1.extents;
        const bool fits = n.size() == 2 && t2.extents.size() == 4 &&
                          t2.extents == IndexVector{n[0], n[0], n[1], n[1]} &&
                          vector.extents == IndexVector{n[0] * n[1] * (n[0] * n[1] + 3) / 2};
        const auto whole = [](const ArrayView<const double>& x) { return x.strides == row_major_strides(x.extents); };
        if (!fits || !whole(t1) || !whole(t2) || !whole(vector))
            throw UserError("amplitudes of extents " + to_string(n) + " and " + to_string(t2.extents) +
                            " and a vector of " + to_string(vector.extents) +
                            ": they must be row-major and fit each other");
        return {n[0], n[1]};
    }

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
        .def("triples", &C::triples, "t1"_a, "t2"_a)
        .def_static("pack", &C::pack, "t1"_a, "t2"_a, "vector"_a)
        .def_static("unpack", &C::unpack, "vector"_a, "t1"_a, "t2"_a);
}

}  // namespace tessera::python
