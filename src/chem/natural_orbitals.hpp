#pragma once
// Frozen natural orbitals: the virtual orbitals that MP2 has little use for are left out of what follows it.

#include "chem/rhf.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

/// The density of MP2 over virtual orbitals, [a][b]: of both spins of a closed shell, from t2[i][j][a][b]; of each
/// spin, from antisymmetric doubles of spin orbitals.
RealTensor natural_density(const RealTensor& t2, TensorWork& work);
RealTensor natural_spin_density(const RealTensor& t2, TensorWork& work);

/// In place of the virtual orbitals of `scf`, which are canonical: those of the natural ones whose occupation is at
/// least `threshold` (0: all), canonical among themselves. `spin` says which numbers of `told` are written.
/// density: of pairs, virtual x virtual.
void keep_natural(RhfResult& scf, const Matrix& density, double threshold, std::size_t spin, NaturalOrbitals& told);

}  // namespace tessera::chem
