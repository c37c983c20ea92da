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
/// The integrals of (T). (kc|ad) has three virtual indices and is asked for by runs of k: at most `run` of them.
struct TriplesIntegrals {
    const RealTensor *oovv = nullptr, *ooov = nullptr;  // as those of MoIntegrals
    std::function<std::shared_ptr<const RealTensor>(std::int64_t first, std::int64_t count)> ovvv;
    std::int64_t run = 0;
    const RealTensor* fock = nullptr;  // F[i][a] of orbitals that are not Hartree-Fock's; with it no device is used
};
/// All of them at once; refers to them.
TriplesIntegrals stored_triples_integrals(const MoIntegrals& integrals);
/// (kc|ad) made from B when it is asked for, and what else is needed made in `kept`; refers to all three.
TriplesIntegrals fitted_triples_integrals(const FittedOrbitals& b, std::int64_t run, MoIntegrals& kept,
                                          TensorWork& work);
/// As many k as make 256 MiB of (kc|ad), two at least.
std::int64_t triples_run(std::int64_t virtuals);

/// In a DryRun: what it holds on the cores. Ranks (none: this process) share the work, each on its devices where it has
/// some; all get the result.
TriplesResult triples_energy(const TriplesIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             const TensorWorkers& workers, const TriplesProgress& progress);

}  // namespace tessera::chem
