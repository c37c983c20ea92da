#pragma once
// What the methods ask of a molecule.

#include "tessera/chem/molecule.hpp"

namespace tessera::chem {

/// UserError unless the atoms are apart and the electrons can be paired.
void check_closed_shell(const Molecule& molecule);

}  // namespace tessera::chem
