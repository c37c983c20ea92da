#pragma once
// The (T) correction, by the fused triples kernel: on the cores, or on devices.

#include <functional>
#include <string>

#include "chem/ccsd.hpp"

namespace tessera::chem {

struct TriplesResult {
    double energy = 0, flops = 0;
    double device_flops = 0;  // of these, on devices
    std::string why_not;      // devices were given, but not used
};
using TriplesProgress = std::function<void(double done, double total)>;
/// In a DryRun: what it holds on the cores. Ranks (none: this process) share the work, each on its devices where it has
/// some; all get the result.
TriplesResult triples_energy(const MoIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             const TensorWorkers& workers, const TriplesProgress& progress);

}  // namespace tessera::chem
