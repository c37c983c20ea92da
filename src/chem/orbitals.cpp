#include "chem/orbitals.hpp"

#include <algorithm>

#include "chem/linear_algebra.hpp"

namespace tessera::chem {

CoreOrbitals put_cores_first(RhfResult& scf, const Matrix& cores, std::int64_t count) {
    CoreOrbitals out;
    const auto occupied = scf.occupied;
    if (count <= 0 || count >= occupied) return out;
    if (cores.cols() == count) {
        const Matrix own = between(cores, scf.overlap, cores);
        const Matrix with = between(scf.coefficients.leftCols(occupied), scf.overlap, cores);
        const Matrix solved = solve(own, with.transpose());
        std::vector<double> share;
        std::vector<Eigen::Index> order;
        for (Eigen::Index i = 0; i < occupied; ++i) {
            share.push_back(with.row(i).dot(solved.col(i)));
            order.push_back(i);
        }
        std::stable_sort(order.begin(), order.end(), [&](auto i, auto j) { return share[i] > share[j]; });
        std::sort(order.begin(), order.begin() + count);
        std::sort(order.begin() + count, order.end());
        const Matrix coefficients = scf.coefficients;
        const Vector energies = scf.orbital_energies;
        for (Eigen::Index i = 0; i < occupied; ++i) {
            scf.coefficients.col(i) = coefficients.col(order[i]);
            scf.orbital_energies(i) = energies(order[i]);
            if (i < count) out.least = std::min(out.least, share[order[i]]);
        }
    }
    out.highest = scf.orbital_energies.head(count).maxCoeff();
    out.lowest_other = scf.orbital_energies.segment(count, occupied - count).minCoeff();
    return out;
}

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
