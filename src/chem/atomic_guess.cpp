#include <algorithm>
#include <map>

#include "chem/rhf.hpp"

namespace tessera::chem {

namespace {

/// Electrons of the free atom by angular momentum, in the order shells are filled.
std::vector<double> electrons_by_momentum(int number) {
    std::vector<double> out(4, 0.0);
    for (int l : {0, 0, 1, 0, 1, 0, 2, 1}) {
        const int taken = std::min(number, 2 * (2 * l + 1));
        out[l] += taken;
        number -= taken;
    }
    return out;
}

/// Radial density of each angular momentum: shells of that momentum in order, for one component.
using RadialDensities = std::map<int, Matrix>;

Matrix spread(const Basis& basis, const RadialDensities& radial) {
    Matrix d = Matrix::Zero(basis.functions, basis.functions);
    for (const auto& [l, density] : radial) {
        std::vector<std::int64_t> first;
        for (const auto& s : basis.shells)
            if (s.shell.l == l) first.push_back(s.first);
        for (std::size_t i = 0; i < first.size(); ++i)
            for (std::size_t j = 0; j < first.size(); ++j)
                for (int m = 0; m < 2 * l + 1; ++m)
                    d(first[i] + m, first[j] + m) = density(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
    }
    return d;
}

Matrix average(const Basis& basis, int l, const Matrix& f) {
    std::vector<std::int64_t> first;
    for (const auto& s : basis.shells)
        if (s.shell.l == l) first.push_back(s.first);
    const auto n = static_cast<Eigen::Index>(first.size());
    Matrix out = Matrix::Zero(n, n);
    for (Eigen::Index i = 0; i < n; ++i)
        for (Eigen::Index j = 0; j < n; ++j)
            for (int m = 0; m < 2 * l + 1; ++m) out(i, j) += f(first[i] + m, first[j] + m) / (2 * l + 1);
    return out;
}

Matrix atom_density(int number, const BasisSet& set) {
    Molecule atom;
    atom.atoms.push_back({number, {0, 0, 0}});
    const Integrals integrals(place(set, atom));
    const Basis& basis = integrals.basis();
    const AoIntegrals coulomb(integrals, tile_atoms(basis, 16), 0);
    const Matrix h = integrals.core_hamiltonian(atom), s = integrals.overlap();
    const auto electrons = electrons_by_momentum(number);
    Matrix f = h, d = Matrix::Zero(basis.functions, basis.functions);
    // A guess need not be converged to the last digit; averaged Fock matrices do not oscillate.
    for (int iteration = 0; iteration < 40; ++iteration) {
        RadialDensities radial;
        for (int l = 0; l < 4; ++l) {
            const Matrix fl = average(basis, l, f), sl = average(basis, l, s);
            if (fl.rows() == 0) continue;
            // Functions of a user's basis may depend on each other.
            const Matrix x = orthonormal_combinations(sl).x;
            const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(x.transpose() * fl * x);
            Matrix density = Matrix::Zero(fl.rows(), fl.rows());
            double left = electrons[l];
            for (Eigen::Index i = 0; i < x.cols() && left > 0; ++i) {
                const double here = std::min(left, 2.0 * (2 * l + 1));
                left -= here;
                const Vector c = x * solver.eigenvectors().col(i);
                density += here / (2 * (2 * l + 1)) * c * c.transpose();
            }
            radial[l] = density;
        }
        const Matrix next = spread(basis, radial);
        const double change = (next - d).norm();
        d = next;
        if (change < 1e-5) break;
        const Matrix g = h + coulomb.two_electron(d, 0);
        f = iteration == 0 ? g : (0.5 * f + 0.5 * g).eval();
    }
    return d;
}

}  // namespace

Matrix atomic_guess(const Molecule& molecule, const BasisSet& set, const Basis& basis) {
    std::map<int, Matrix> known;
    Matrix d = Matrix::Zero(basis.functions, basis.functions);
    for (std::size_t a = 0; a < molecule.atoms.size(); ++a) {
        const int z = molecule.atoms[a].number;
        const auto first = basis.first_shell[a];
        if (first == basis.first_shell[a + 1]) continue;
        if (!known.contains(z)) known[z] = atom_density(z, set);
        const auto at = basis.shells[first].first;
        d.block(at, at, known[z].rows(), known[z].cols()) = known[z];
    }
    return d;
}

}  // namespace tessera::chem
