#pragma once
// Hartree-Fock of open shells: unrestricted, or with the same orbitals for both spins (ROHF).

#include <array>
#include <optional>

#include "chem/rhf.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

struct UhfOptions {
    RhfOptions scf;
    bool restricted_open = false;
    double level_shift = 0;  // hartree, of orbitals that are not occupied
    double damping = 0;      // share of the last Fock matrix in the next one, far from convergence
    Stability stability = Stability::check;
};

struct UhfResult {
    /// Alpha and beta, by energy. With ROHF semicanonical: those that are occupied, and those that are not, each
    /// diagonalise the Fock matrix of their spin. What both share (energy, overlap, iterations) is the same in both.
    std::array<RhfResult, 2> spin;
    std::array<Matrix, 2> fock;  // over functions
    Matrix density;              // of both spins
    Matrix common;               // with ROHF: the orbitals of both spins
    bool restricted_open = false;
    double s_squared = 0;
    std::optional<double> hessian;  // its lowest eigenvalue for rotations of orbitals; none where it was not looked for
    int followed = 0;               // times that the solution was left for a lower one
    std::vector<ScfStep> history;
};

/// From a density of each spin. Throws NotConverged, whose result has the history, and UserError where the electrons
/// do not fit the basis. problem.pairs is not looked at.
UhfResult uhf(const RhfProblem& problem, std::array<std::int64_t, 2> electrons, Field& field, const Matrix& guess,
              const UhfOptions& options, TensorWork& work);

/// 2 J - K in the closed shell becomes J - K of each spin with the J of the other: of the densities, or of their
/// changes left right^T + right left^T.
std::array<RealTensor, 2> spin_fields(std::array<RealTensor, 2> closed, const RealTensor& spin_coulomb);

/// Which rotations of occupied with virtual orbitals, alpha then beta as [i][a], lower the energy most: the lowest
/// eigenvalue of the real Hessian (A + B) and its vector.
struct LowestRotation {
    double value = 0, residual = 0;
    Vector direction;
};
LowestRotation lowest_rotation(const UhfResult& scf, Field& field, TensorWork& work);

}  // namespace tessera::chem
