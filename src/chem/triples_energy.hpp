#pragma once
// The (T) correction, by the fused triples kernel: on the cores, or on devices.

#include <functional>
#include <string>

#include "chem/ccsd.hpp"
#include "chem/triples_record.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera::chem {

struct TriplesResult {
    double energy = 0, flops = 0;
    double device_flops = 0;      // of these, on devices
    double operands_seconds = 0;  // until a device had all operands of its first rows
    std::string why_not;          // devices were given, but not used
    double recorded = 0;          // share of the pieces of the work that a record knew
};
using TriplesProgress = std::function<void(double done, double total)>;
/// Operations, as they are counted: 2 v^3 (v + o) for each order of i >= j >= k.
double triples_flops(std::int64_t occupied, std::int64_t virtuals);
/// The integrals of (T). (kc|ad) has three virtual indices and is asked for by ranges of c and a.
struct TriplesIntegrals {
    std::function<const RealTensor&()> oovv, ooov;  // as those of MoIntegrals
    const FittedOrbitals* fitted = nullptr;         // what all of them are made of, where it is that
    /// As [k][c][a][d]; the ranges are all of it where nothing is fitted.
    std::function<std::shared_ptr<const RealTensor>(ElementRange c, ElementRange a)> ovvv;
    std::int64_t longest = 0;          // range on the cores, a multiple of 8; 0: what 768 MiB hold
    const RealTensor* fock = nullptr;  // F[i][a] of orbitals that are not Hartree-Fock's; with it no device is used
};
/// All of them at once; refers to them.
TriplesIntegrals stored_triples_integrals(const MoIntegrals& integrals);
/// Made from B when it is asked for; refers to all three.
TriplesIntegrals fitted_triples_integrals(const FittedOrbitals& b, MoIntegrals& kept, TensorWork& work);

/// In a DryRun: what it holds on the cores. Ranks (none: this process) share the work, each on its devices where it has
/// some; all get the result. `record`: what is done goes there, and what it knows is not done again.
TriplesResult triples_energy(const TriplesIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             const TensorWorkers& workers, const TriplesProgress& progress,
                             TriplesRecord* record = nullptr);

}  // namespace tessera::chem
