#pragma once
// A closed shell given by its integrals over orthonormal orbitals, as files of other programs hold them.

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/chem/energy.hpp"

namespace TESSERA_API tessera {
namespace chem {

struct Hamiltonian {
    std::string name;  // for messages
    std::int64_t orbitals = 0, electrons = 0;
    double constant = 0;      // the nuclei's repulsion, and of electrons that have no orbital here
    std::vector<double> one;  // [p][q]
    /// (pq|rs) in chemists' notation, p >= q as one index x = p (p + 1) / 2 + q, x >= y at x (x + 1) / 2 + y.
    std::vector<double> two;
};

/// A file of Knowles and Handy's format, as MOLPRO, PySCF and others write it, of a closed shell and real orbitals.
/// UserError, with the line, for what is none, and where its integrals do not fit in `memory` bytes (0: what this
/// machine has).
Hamiltonian read_fcidump(const std::string& path, std::int64_t memory = 0);

/// A TREXIO file (its HDF5 back end) of a closed shell and real orbitals: mo_1e_int, mo_2e_int_eri, electron and
/// nucleus. UserError and BudgetError as above.
Hamiltonian read_trexio(const std::string& path, std::int64_t memory = 0);

/// Hartree-Fock from the determinant of the first orbitals on, then what `options.method` says. Of the options those
/// that are about basis functions and atoms are refused: sets, density fitting, direct integrals, frozen cores,
/// checkpoints.
EnergyResult energy(const Hamiltonian& hamiltonian, const EnergyOptions& options);

}  // namespace chem
}  // namespace tessera
