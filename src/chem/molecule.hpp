#pragma once
// What the methods ask of a molecule.

#include <limits>

#include "tessera/chem/molecule.hpp"

namespace tessera::chem {

/// Two atoms, by their places from 0; infinitely far apart where there is one only.
struct ClosestAtoms {
    std::size_t first = 0, second = 0;
    double angstrom = std::numeric_limits<double>::infinity();
};

/// UserError unless the atoms are apart and the electrons can be paired; how far they are apart.
ClosestAtoms check_closed_shell(const Molecule& molecule);

}  // namespace tessera::chem
