#include "chem/natural_orbitals.hpp"

#include "chem/integral_source.hpp"
#include "chem/linear_algebra.hpp"

namespace tessera::chem {

RealTensor natural_density(const RealTensor& t2, TensorWork& work) {
    return work.product("ijac,ijbc->ab", t2, spin_summed(t2, work), 2);
}

RealTensor natural_spin_density(const RealTensor& t2, TensorWork& work) {
    return work.product("ijac,ijbc->ab", t2, t2, 0.5);
}

void keep_natural(RhfResult& scf, const Matrix& density, double threshold, std::size_t spin, NaturalOrbitals& told) {
    const auto o = scf.occupied, v = density.rows();
    const SymmetricEigen natural = symmetric_eigen(density);
    Eigen::Index left_out = 0;
    if (threshold > 0)
        while (left_out < v && natural.values(left_out) < threshold) ++left_out;
    const auto kept = v - left_out;
    told.all[spin] = v;
    told.kept[spin] = kept;
    told.occupation[spin] = natural.values.sum();
    told.occupation_kept[spin] = natural.values.tail(kept).sum();
    Matrix coefficients(scf.coefficients.rows(), o + kept);
    Vector energies(o + kept);
    coefficients.leftCols(o) = scf.coefficients.leftCols(o);
    energies.head(o) = scf.orbital_energies.head(o);
    if (kept > 0) {
        const Matrix chosen = natural.vectors.rightCols(kept);
        const Matrix fock = scf.orbital_energies.tail(v).asDiagonal();
        const SymmetricEigen canonical = symmetric_eigen_within(chosen, fock);
        energies.tail(kept) = canonical.values;
        const Matrix turn = between(chosen.transpose(), Matrix::Identity(kept, kept), canonical.vectors);
        coefficients.rightCols(kept) = between(scf.coefficients.rightCols(v).transpose(), Matrix::Identity(v, v), turn);
    }
    scf.coefficients = std::move(coefficients);
    scf.orbital_energies = std::move(energies);
}

}  // namespace tessera::chem
