#pragma once
// What follows the Hartree-Fock iterations of an open shell.

#include "chem/uccsd.hpp"

namespace tessera::chem {

/// Nuclei less electrons of this density (functions x functions), about the origin, in e bohr.
std::array<double, 3> dipole_moment(const Molecule& molecule, const Integrals& integrals, const Matrix& density);

/// Bytes that the correlation energy of this many orbitals takes at most.
double open_shell_bytes(std::array<std::int64_t, 2> occupied, std::int64_t orbitals, std::int64_t functions,
                        Method method);

/// MP2, CCSD, (T): what `options` asks for goes into `result`, whose open shell is there. One of ao and fitting. With
/// fno the virtual orbitals of `scf` become those that are kept; enough_memory is called when these are known, and may
/// throw.
void correlate_open_shell(UhfResult& scf, std::shared_ptr<const AoIntegrals> ao, const Fitting* fitting,
                          const Tiling& functions, const Integrals& integrals, const EnergyOptions& options,
                          EnergyResult& result, TensorWork& work, const std::function<void()>& enough_memory);

}  // namespace tessera::chem
