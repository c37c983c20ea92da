#pragma once
// What the methods ask of a molecule.

#include <array>
#include <limits>

#include "tessera/chem/molecule.hpp"

namespace tessera::chem {

/// Two atoms, by their places from 0; infinitely far apart where there is one only.
struct ClosestAtoms {
    std::size_t first = 0, second = 0;
    double angstrom = std::numeric_limits<double>::infinity();
};

/// UserError unless the atoms are apart and there are electrons; how far they are apart.
ClosestAtoms check_atoms(const Molecule& molecule);
/// UserError unless the electrons can be paired as well.
ClosestAtoms check_closed_shell(const Molecule& molecule);
/// Alpha and beta electrons of a multiplicity, 0: the lowest. UserError where the electrons have none such.
std::array<std::int64_t, 2> electrons_of_spins(const Molecule& molecule, int multiplicity);

}  // namespace tessera::chem
