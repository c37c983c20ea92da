#pragma once
// Geometries of least energy, by numerical gradients of any method.

#include <functional>
#include <string>
#include <vector>

#include "tessera/chem/energy.hpp"

namespace TESSERA_API tessera {
namespace chem {

/// The derivatives of the energy with respect to the atoms' places, hartree per bohr, by central differences of
/// `step` bohr: six energies an atom. The energies are to be converged to 1e-9 or better.
std::vector<Point> numerical_gradient(const Molecule& molecule, const EnergyOptions& options, double step = 0.005);

struct OptimiseOptions {
    EnergyOptions energy;
    double gradient = 1e-4;  // largest component to reach, hartree per bohr
    int max_steps = 50;
    double step = 0.005;  // of the differences, bohr
    /// Called with each geometry whose energy is known and lower than that before.
    std::function<void(int step, const Molecule& molecule, double energy, double gradient)> progress;
};
struct OptimiseResult {
    Molecule molecule;
    double energy = 0, gradient = 0;  // the largest component left
    int steps = 0, energies = 0;      // energies: how many were computed
    bool converged = false;
};
/// BFGS in Cartesian coordinates from a model of the bonds' stiffness. UserError for wrong input; where an energy does
/// not converge, NotConverged.
OptimiseResult optimise(const Molecule& molecule, const OptimiseOptions& options);

/// "count, comment, symbol x y z" in Angstrom, ten digits.
std::string to_xyz(const Molecule& molecule, const std::string& comment);

}  // namespace chem
}  // namespace tessera
