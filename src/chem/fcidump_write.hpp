#pragma once
// Integrals over orbitals as a file of Knowles and Handy's format.

#include <string>

#include "chem/spin_orbitals.hpp"

namespace tessera::chem {

/// What the integrals of a molecule are made of.
struct OrbitalsToWrite {
    Matrix coefficients;      // functions x orbitals, of both spins
    std::int64_t frozen = 0;  // the first ones, filled: their field goes into the integrals of one electron
    std::int64_t electrons = 0, unpaired = 0;  // all of them
    Matrix core_hamiltonian;
    double constant = 0;  // the nuclei's repulsion
};
/// The file appears whole or not at all.
void write_fcidump(const std::string& path, const OrbitalsToWrite& what, Field& field,
                   std::shared_ptr<const AoIntegrals> ao, TensorWork& work);

}  // namespace tessera::chem
