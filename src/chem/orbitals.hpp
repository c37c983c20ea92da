#pragma once
// The correlated orbitals, and the integrals over them.

#include <vector>

#include "chem/ao_integrals.hpp"
#include "chem/rhf.hpp"
#include "chem/tensor_work.hpp"

namespace tessera::chem {

/// Correlated occupied and virtual orbitals, canonical: coefficients (function, orbital) and energies.
struct Orbitals {
    RealTensor occupied, virtuals;
    std::vector<double> occupied_energies, virtual_energies;
    Matrix occupied_matrix, virtual_matrix;
    std::int64_t frozen = 0, core = 0;  // core: the first ones of the correlated, where none are frozen
    std::int64_t occupied_count() const { return static_cast<std::int64_t>(occupied_energies.size()); }
    std::int64_t virtual_count() const { return static_cast<std::int64_t>(virtual_energies.size()); }
};
/// Puts the orbitals that are made of the atoms' cores before the other occupied ones, each group by energy: they need
/// not be the lowest (the 2p of a sodium ion lie above the 2s of a neon atom beside it). `count` of them; where the
/// basis has not all of the atoms' cores, the lowest ones.
struct CoreOrbitals {
    double highest = 0, lowest_other = 0;  // energies of core orbitals, and of the others
    double least = 1;                      // share of the atoms' cores in a core orbital
};
CoreOrbitals put_cores_first(RhfResult& scf, const Matrix& cores, std::int64_t count);

/// `core`: how many of the first orbitals are core, frozen or not.
Orbitals make_orbitals(const RhfResult& scf, std::int64_t frozen, std::int64_t core, const Tiling& functions,
                       std::int64_t tile);

/// (ac|bd) + (ad|bc) and (ac|bd) - (ad|bc) as [c d][a b], pairs c >= d and a >= b only.
struct FourVirtuals {
    PairIndex pairs{Tiling{}};
    RealTensor plus, minus;
};

/// Integrals in chemists' notation. i, j, k, l are occupied, a, b, c, d virtual.
struct MoIntegrals {
    RealTensor oovv;    // [i][j][a][b] = (ia|jb): the exchange integrals, indices as those of the doubles
    RealTensor ooov;    // [k][i][l][c] = (ki|lc)
    RealTensor oooo;    // [k][i][l][j] = (ki|lj)
    RealTensor o_o_vv;  // [k][i][a][c] = (ki|ac)
    RealTensor ovvv;    // [k][c][a][d] = (kc|ad)
    FourVirtuals vvvv;  // with `ccsd_four_virtuals` only
};
constexpr std::int64_t kTransformBlock = 32 << 20;  // bytes of integrals (x|ls) that are transformed at a time
enum class Transform { mp2, ccsd, ccsd_four_virtuals };
/// The basis integrals are given up on the way, where nobody else holds them.
MoIntegrals transform(std::shared_ptr<const AoIntegrals> ao, const Orbitals& orbitals, Transform what,
                      TensorWork& work);

}  // namespace tessera::chem
