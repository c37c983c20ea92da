#pragma once
// Closed-shell CCSD, spin-adapted, in the T1-dressed formulation (docs/CHEMISTRY.md has the equations).

#include <functional>
#include <string>

#include "chem/integral_source.hpp"

namespace tessera::chem {

struct CcsdOptions {
    double converge = 1e-8;
    int max_iterations = 100;
    int before = 0;                // iterations behind the amplitudes it begins with: the count goes on from there
    std::string what = "CCSD";     // in the message where it does not converge
    std::string advice;            // ends it
    std::string scratch;           // folder for the vectors of DIIS; empty: they stay in memory
    bool vectors_on_host = false;  // those of amplitudes that live on a device
    std::function<void(const std::string&)> log;
    /// Called with the amplitudes after each iteration.
    std::function<void(const Amplitudes&, int iteration, double energy, double residual)> keep;
};

struct CcsdResult {
    Amplitudes amplitudes;
    double energy = 0;
    int iterations = 0;  // without those before
};

/// (ia|jb) / (e_i + e_j - e_a - e_b): the first-order doubles; with them the correlation energy is that of MP2.
RealTensor first_order_doubles(const IntegralSource& integrals, const Orbitals& orbitals, TensorWork& work);
/// The sum of [2 (ia|jb) - (ib|ja)] tau.
double correlation_energy(const IntegralSource& integrals, const RealTensor& tau, TensorWork& work);
/// x[i][a] divided by e_i - e_a, x[i][j][a][b] by e_i + e_j - e_a - e_b.
void divide_by_energies(RealTensor& x, const Orbitals& orbitals);

/// Device memory that ccsd() takes at most where all lives there, the vectors of DIIS too or without them; contractions
/// get along with less, slower.
struct ResidentCcsd {
    std::int64_t occupied = 0, virtuals = 0, functions = 0;
    std::int64_t rifit = 0, jkfit = 0;  // auxiliary functions
    std::int64_t tile = 32;             // of orbitals
};
std::int64_t resident_bytes(const ResidentCcsd& x, bool vectors);
Amplitudes to_host(const Amplitudes& x);
Amplitudes to_device(const Amplitudes& x, int device);

/// What one iteration makes of amplitudes, and the correlation energy of some.
struct CcsdEquations {
    std::function<Amplitudes(const Amplitudes&)> next;
    std::function<double(const Amplitudes&)> energy;
};
/// From the given amplitudes. Throws NotConverged.
CcsdResult ccsd(const CcsdEquations& equations, Amplitudes start, const CcsdOptions& options, int threads);
/// Of a closed shell; where the amplitudes live on a device, with the integrals, all of the work is done there.
CcsdResult ccsd(IntegralSource& integrals, const Orbitals& orbitals, Amplitudes start, const CcsdOptions& options,
                TensorWork& work);

/// The residual divided by the energy differences: what the amplitudes become in a plain iteration.
Amplitudes next_amplitudes(IntegralSource& integrals, const Orbitals& orbitals, const Amplitudes& t, TensorWork& work);

}  // namespace tessera::chem
