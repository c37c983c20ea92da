#pragma once
// Foster-Boys localisation: orbitals rotated among themselves until each is as compact as can be.

#include <array>
#include <vector>

#include "chem/matrix.hpp"
#include "tessera/chem/molecule.hpp"

namespace tessera::chem {

struct Localised {
    Matrix rotation;             // (canonical, localised), orthogonal
    std::vector<Point> centres;  // of the localised orbitals, bohr
};

/// Of the orbitals in the columns; dipole: integrals over the basis functions.
Localised foster_boys(const Matrix& orbitals, const std::array<Matrix, 3>& dipole);

}  // namespace tessera::chem
