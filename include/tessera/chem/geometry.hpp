#pragma once
// The ABCD term of CCSD of a molecule, its tiles and norms from the molecule itself.

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/chem/molecule.hpp"
#include "tessera/problems/problem.hpp"

namespace TESSERA_API tessera {
namespace chem {

struct GeometryOptions {
    std::string basis = "def2-svp", basis_folder;
    std::int64_t occupied_clusters = 1, ao_clusters = 1;
    double least = 1e-10;  // tiles are kept whose norm is above this times their elements
    int threads = 0;
    std::function<void(const std::string&)> log;  // a line for each step
};

/// R[p,ab] = sum over cd of T[p,cd] V[cd,ab], p a pair ij of valence orbitals, localised (Foster-Boys), a to d atomic
/// orbitals: "pcd,cdab->pab", tiled by k-means of the orbitals' centres and of the atoms. Norms are upper bounds: of V,
/// integrals (ca|db), by Schwarz's inequality; of T, the amplitudes of MP2, by a Laplace quadrature and the same
/// inequality (docs/GEOMETRY.md). Orbitals are those of one Fock matrix, of the atoms' densities. Tiles hold random
/// numbers with these norms. UserErrors name what is wrong.
Problem make_geometry(const Molecule& molecule, const GeometryOptions& options);

}  // namespace chem
}  // namespace tessera
