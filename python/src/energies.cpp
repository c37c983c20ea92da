// Energies of molecules.

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "interrupt.hpp"
#include "module.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Atoms = std::vector<std::tuple<std::string, double, double, double>>;

chem::Molecule molecule_of(const Atoms& atoms, int charge, const std::string& name) {
    chem::Molecule molecule;
    molecule.name = name;
    molecule.charge = charge;
    for (const auto& [symbol, x, y, z] : atoms) {
        const int number = chem::element_number(symbol);
        if (number == 0) throw UserError("molecule: there is no element '" + symbol + "'");
        molecule.atoms.push_back({number, {x, y, z}});
    }
    return molecule;
}

struct Stopped {};

chem::EnergyResult energy(const chem::Molecule& molecule, const std::string& method, chem::EnergyOptions options,
                          const std::vector<std::string>& text, nb::object log) {
    options.method = chem::parse_method(method);
    options.basis = text.at(0);
    options.basis_folder = text.at(1);
    options.jkfit = text.at(2);
    options.rifit = text.at(3);
    options.checkpoint = text.at(4);
    options.scratch = text.at(5);
    options.reference = chem::parse_reference(text.at(6));
    options.stability = chem::parse_stability(text.at(7));
    Interrupt interrupt;
    options.log = [&](const std::string& line) {
        if (Interrupt::seen()) throw Stopped{};
        if (log.is_none()) return;
        const nb::gil_scoped_acquire python;
        log(line);
    };
    options.warn = [](const std::string& line) {
        const nb::gil_scoped_acquire python;
        if (PyErr_WarnEx(PyExc_RuntimeWarning, line.c_str(), 1) != 0) throw nb::python_error();
    };
    try {
        const nb::gil_scoped_release others_run;
        return chem::energy(molecule, options);
    } catch (const Stopped&) {
        if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
}

/// The class NotConverged of tessera/_errors.py.
void translate(const std::exception_ptr& error, void* payload) {
    const nb::handle type = static_cast<PyObject*>(payload);
    try {
        std::rethrow_exception(error);
    } catch (const chem::NotConverged& e) {
        const nb::object made = type(e.what(), e.where(), e.iterations(), e.energy());
        PyErr_SetObject(type.ptr(), made.ptr());
    }
}

}  // namespace

void bind_energies(nb::module_& module) {
    using R = chem::EnergyResult;
    nb::register_exception_translator(
        translate, nb::object(nb::module_::import_("tessera._errors").attr("NotConverged")).release().ptr());
    nb::class_<chem::Molecule>(module, "Molecule");
    module.def("molecule", &molecule_of, "atoms"_a, "charge"_a, "name"_a, "Of atoms in bohr.");
    module.def(
        "read_xyz",
        [](const std::string& path, int charge) {
            auto molecule = chem::read_xyz(path);
            molecule.charge = charge;
            return molecule;
        },
        "path"_a, "charge"_a);
    nb::class_<R>(module, "Energies", "What `energy` found. All energies are in hartree.")
        .def_ro("nuclear", &R::nuclear, "Repulsion of the nuclei.")
        .def_ro("rhf", &R::rhf, "The total Hartree-Fock energy.")
        .def_ro("mp2", &R::mp2, "Correlation energy.")
        .def_ro("ccsd", &R::ccsd, "Correlation energy.")
        .def_ro("triples", &R::triples, "What (T) adds to ccsd.")
        .def_ro("total", &R::total)
        .def_ro("dipole", &R::dipole, "Of the reference, about the origin, in e bohr.")
        .def_ro("ccsd_dipole", &R::ccsd_dipole, "Of CCSD, where it was asked for.")
        .def_prop_ro(
            "s_squared", [](const R& r) { return r.open ? std::optional(r.open->s_squared) : std::nullopt; },
            "<S^2> of the determinant; None with reference rhf.")
        .def_prop_ro(
            "hessian", [](const R& r) { return r.open ? r.open->hessian : std::nullopt; },
            "Lowest eigenvalue for rotations of orbitals, where it was looked for; below zero the SCF is no minimum.")
        .def_prop_ro(
            "fno_correction", [](const R& r) { return r.fno ? std::optional(r.fno->correction) : std::nullopt; },
            "What MP2 adds for the orbitals that fno left out, in total; None without fno.")
        .def_ro("scf_iterations", &R::scf_iterations)
        .def_ro("iterations", &R::iterations)
        .def_ro("t1_diagnostic", &R::t1_diagnostic)
        .def_ro("basis_functions", &R::basis_functions)
        .def_ro("occupied", &R::occupied, "Correlated occupied orbitals.")
        .def_ro("frozen", &R::frozen)
        .def_ro("virtuals", &R::virtuals)
        .def_ro("seconds", &R::seconds)
        .def_ro("ccsd_seconds", &R::ccsd_seconds)
        .def_ro("triples_seconds", &R::triples_seconds)
        .def_ro("memory_estimate", &R::memory_estimate, "Bytes this was expected to take at most.")
        .def_ro("references", &R::references, "Who made the basis sets.")
        .def("__float__", [](const R& r) { return r.total; })
        .def("__repr__", [](nb::object self) {
            return nb::str("Energies(total={:.10f}, rhf={:.10f}, mp2={:.10f}, ccsd={:.10f}, triples={:.10f})")
                .format(self.attr("total"), self.attr("rhf"), self.attr("mp2"), self.attr("ccsd"),
                        self.attr("triples"));
        });
    using O = chem::EnergyOptions;
    nb::class_<O>(module, "EnergyOptions")
        .def(nb::init<>())
        .def_rw("frozen_core", &O::frozen_core)
        .def_rw("converge", &O::converge)
        .def_rw("max_iterations", &O::max_iterations)
        .def_rw("screen", &O::screen)
        .def_rw("tile", &O::tile)
        .def_rw("multiplicity", &O::multiplicity)
        .def_rw("level_shift", &O::level_shift)
        .def_rw("damping", &O::damping)
        .def_rw("dipole", &O::dipole)
        .def_rw("fno", &O::fno)
        .def_prop_rw(
            "df", [](const O& o) { return o.integrals == chem::IntegralKind::df; },
            [](O& o, bool df) { o.integrals = df ? chem::IntegralKind::df : chem::IntegralKind::conventional; })
        .def_prop_rw(
            "direct", [](const O& o) { return o.abcd == chem::Abcd::direct; },
            [](O& o, bool direct) { o.abcd = direct ? chem::Abcd::direct : chem::Abcd::stored; })
        .def_prop_rw(
            "threads", [](const O& o) { return o.here.threads; }, [](O& o, int n) { o.here.threads = n; })
        .def_prop_rw(
            "memory", [](const O& o) { return o.here.memory; }, [](O& o, std::int64_t n) { o.here.memory = n; })
        .def_prop_rw(
            "devices", [](const O& o) { return o.here.devices; },
            [](O& o, std::vector<int> d) { o.here.devices = std::move(d); })
        .def_prop_rw(
            "device_memory", [](const O& o) { return o.here.device_memory; },
            [](O& o, std::int64_t n) { o.here.device_memory = n; });
    module.def("energy", &energy, "molecule"_a, "method"_a, "options"_a, "text"_a, "log"_a.none());
}

}  // namespace tessera::python
