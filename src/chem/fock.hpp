#pragma once
// The two-electron part of the Fock matrix: one contraction of the density with the Coulomb integrals.

#include "chem/ao_integrals.hpp"
#include "chem/tensor_work.hpp"

namespace tessera::chem {

/// 2 (ml|ns) - 1/2 [(mn|ls) + (ms|ln)] over pairs of basis functions m >= l and n >= s, made on demand from the stored
/// tiles: Coulomb and exchange at once, for densities that are symmetric. The integrals must outlive it.
GeneratedTensor<double> fock_operator(const AoIntegrals& integrals);

/// 2 J - K of a symmetric density (functions x functions) with trace (number of electrons) / 2.
RealTensor two_electron(const AoIntegrals& integrals, const RealTensor& density, TensorWork& work);

}  // namespace tessera::chem
