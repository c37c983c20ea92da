#include "chem/orbitals.hpp"

#include <algorithm>

namespace tessera::chem {

Orbitals make_orbitals(const RhfResult& scf, std::int64_t frozen, std::int64_t core, const Tiling& functions,
                       std::int64_t tile) {
    Orbitals x;
    x.frozen = frozen;
    const auto all = scf.coefficients.cols(), o = scf.occupied - frozen, v = all - scf.occupied;
    x.core = std::clamp<std::int64_t>(core - frozen, 0, o);
    x.occupied_matrix = scf.coefficients.middleCols(frozen, o);
    x.virtual_matrix = scf.coefficients.rightCols(v);
    for (auto i = frozen; i < scf.occupied; ++i) x.occupied_energies.push_back(scf.orbital_energies(i));
    for (auto a = scf.occupied; a < all; ++a) x.virtual_energies.push_back(scf.orbital_energies(a));
    if (o > 0) x.occupied = to_tensor(x.occupied_matrix, functions, even_tiling(o, tile));
    if (v > 0) x.virtuals = to_tensor(x.virtual_matrix, functions, even_tiling(v, tile));
    return x;
}

}  // namespace tessera::chem
