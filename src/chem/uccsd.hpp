#pragma once
// MP2, CCSD and (T) of spin orbitals: antisymmetric amplitudes t2(ij,ab), integrals <pq||rs> (docs/CHEMISTRY.md has the
// equations). One formulation for every reference; spin is in the shapes of the tensors.

#include "chem/ccsd.hpp"
#include "chem/spin_orbitals.hpp"
#include "chem/triples_energy.hpp"

namespace tessera::chem {

/// <pq||rs>; i, j, k, l are occupied, a, b, c, d virtual.
struct AntisymmetricIntegrals {
    RealTensor oovv;                          // <ij||ab>
    RealTensor oooo, ooov, ovov, ovvv, vvvv;  // <ij||kl>, <ij||ka>, <ia||jb>, <ia||bc>, <ab||cd>; with CCSD only
};
AntisymmetricIntegrals antisymmetric_integrals(const SpinIntegrals& integrals, Method method, int threads);

class SpinEquations {
  public:
    /// Refers to all of them.
    SpinEquations(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals, TensorWork& work)
        : v_(integrals),
          orbitals_(orbitals),
          work_(work),
          f_{RealTensor(spin_shape(orbitals, "oo")), RealTensor(spin_shape(orbitals, "vv"))} {}
    /// Elements of the Fock matrix off its diagonal that the orbital energies do not have: [m][i] and [a][e].
    void set_fock(RealTensor oo, RealTensor vv) { f_ = {std::move(oo), std::move(vv)}; }
    /// f(ia) / (e_i - e_a), <ij||ab> / (e_i + e_j - e_a - e_b).
    Amplitudes first_order() const;
    /// The correlation energy of amplitudes; of singles f t alone, of doubles with t1 t1 where `products`.
    OpenShell::Parts energy(const Amplitudes& t, bool products) const;
    Amplitudes next(const Amplitudes& t) const;

  private:
    const AntisymmetricIntegrals& v_;
    const SpinOrbitals& orbitals_;
    TensorWork& work_;
    struct {
        RealTensor oo, vv;
    } f_;
};

/// Derivatives of the CCSD energy with respect to the Fock matrix over correlated orbitals, without those of the
/// reference: [m][i], [i][a] (both triangles of it) and [a][e].
struct SpinDensity {
    RealTensor oo, ov, vv;
};

/// Lambda: the multipliers of the CCSD equations at their solution.
class SpinMultipliers {
  public:
    /// Refers to the integrals and the orbitals.
    SpinMultipliers(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals, const Amplitudes& t,
                    TensorWork& work);
    ~SpinMultipliers();
    /// One iteration more, in the way of amplitudes.
    Amplitudes next(const Amplitudes& lambda);
    SpinDensity density(const Amplitudes& lambda);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The largest by size, at most `most`.
std::vector<OpenShell::Amplitude> largest_amplitudes(const RealTensor& x, const SpinOrbitals& orbitals,
                                                     std::size_t most);

/// The (T) correction by the fused kernel, brick by brick: i >= j >= k and a >= b >= c in ranges, each of one spin, on
/// devices where there are some and these have the room. Ranks share the bricks; the same bits on any number of them.
TriplesResult spin_triples(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals, const Amplitudes& t,
                           const TensorWorkers& workers, const TriplesProgress& progress);

}  // namespace tessera::chem
