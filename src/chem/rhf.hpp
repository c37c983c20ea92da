#pragma once
// Restricted Hartree-Fock.

#include <functional>
#include <string>

#include "chem/fock.hpp"

namespace tessera::chem {

struct RhfOptions {
    double converge = 1e-8;
    int max_iterations = 100;
    std::function<void(const std::string&)> log, warn;
};

struct RhfResult {
    double energy = 0;    // the nuclei's repulsion included
    Matrix coefficients;  // functions x orbitals, canonical, by energy
    Vector orbital_energies;
    Matrix overlap;
    std::int64_t occupied = 0, dropped = 0;
    double smallest_overlap = 0;  // eigenvalue of what was not dropped
    int iterations = 0;
};

/// Of free atoms with fractional occupations, averaged over directions, in the basis of the molecule.
struct AtomicGuess {
    Matrix density;  // trace (electrons) / 2
    Matrix cores;    // core orbitals of the atoms as columns, atom by atom; fewer where the basis has no room for them
};
AtomicGuess atomic_guess(const Molecule& molecule, const BasisSet& set, const Basis& basis, TensorWork& work);

/// X with X^T S X = 1, without the combinations of functions that depend on each other nearly (overlap eigenvalue below
/// 1e-7); the smallest eigenvalue that is kept.
struct Orthonormal {
    Matrix x;
    double smallest = 0;
};
Orthonormal orthonormal_combinations(const Matrix& overlap);

/// What it is solved for: integrals over functions, without those of two electrons.
struct RhfProblem {
    std::string name, basis;  // for messages
    Matrix overlap, core;
    std::int64_t pairs = 0;  // of electrons
    double constant = 0;     // of the energy: the nuclei's repulsion
};
/// Throws NotConverged, and UserError where the electrons do not fit the basis. guess: a density.
RhfResult rhf(const RhfProblem& problem, Field& field, const Matrix& guess, const RhfOptions& options,
              TensorWork& work);
/// Of a molecule.
RhfResult rhf(const Molecule& molecule, const Integrals& integrals, Field& field, const Matrix& guess,
              const RhfOptions& options, TensorWork& work);

}  // namespace tessera::chem
