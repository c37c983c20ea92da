#pragma once
// The (T) correction, by the fused triples kernel.

#include <functional>

#include "chem/ccsd.hpp"

namespace tessera::chem {

struct TriplesResult {
    double energy = 0, flops = 0;
};
/// Ranks (none: this process) share the work; all get the result.
TriplesResult triples_energy(const MoIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             int threads, Communicator* ranks,
                             const std::function<void(double done, double total)>& progress);

}  // namespace tessera::chem
