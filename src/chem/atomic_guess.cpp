#include <algorithm>
#include <map>

#include "chem/linear_algebra.hpp"
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

/// Core orbitals of each angular momentum, as core_orbitals() counts them: 1s; 2s 2p as well; 3s 3p as well.
int cores_of_momentum(int number, int l) {
    const int shells = number <= 2 ? 0 : number <= 10 ? 1 : number <= 18 ? 2 : 3;
    return l == 0 ? shells : l == 1 ? std::max(0, shells - 1) : 0;
}

/// One column for each radial function and component.
void append_spread(const Basis& basis, int l, const Vector& radial, std::vector<Vector>& out) {
    for (int m = 0; m < 2 * l + 1; ++m) {
        Vector c = Vector::Zero(basis.functions);
        Eigen::Index i = 0;
        for (const auto& s : basis.shells)
            if (s.shell.l == l) c(s.first + m) = radial(i++);
        out.push_back(std::move(c));
    }
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

AtomicGuess free_atom(int number, const BasisSet& set, TensorWork& work) {
    Molecule atom;
    atom.atoms.push_back({number, {0, 0, 0}});
    const Integrals integrals(place(set, atom), work.threads());
    const Basis& basis = integrals.basis();
    const AoIntegrals coulomb(integrals, tile_atoms(basis, 16), work.threads());
    TwoElectron two_electron(coulomb);
    const Tiling& functions = coulomb.pairs().single();
    const Matrix h = integrals.core_hamiltonian(atom), s = integrals.overlap();
    const auto electrons = electrons_by_momentum(number);
    std::vector<Vector> cores;
    Matrix f = h, d = Matrix::Zero(basis.functions, basis.functions);
    // A guess need not be converged to the last digit; averaged Fock matrices do not oscillate.
    for (int iteration = 0; iteration < 40; ++iteration) {
        RadialDensities radial;
        cores.clear();
        for (int l = 0; l < 4; ++l) {
            const Matrix fl = average(basis, l, f), sl = average(basis, l, s);
            if (fl.rows() == 0) continue;
            // Functions of a user's basis may depend on each other.
            const Matrix x = orthonormal_combinations(sl).x;
            const auto orbitals = symmetric_eigen_within(x, fl);
            Matrix density = Matrix::Zero(fl.rows(), fl.rows());
            double left = electrons[l];
            for (Eigen::Index i = 0; i < x.cols() && left > 0; ++i) {
                const double here = std::min(left, 2.0 * (2 * l + 1));
                left -= here;
                const Vector c = x * orbitals.vectors.col(i);
                density += here / (2 * (2 * l + 1)) * c * c.transpose();
                if (i < cores_of_momentum(number, l)) append_spread(basis, l, c, cores);
            }
            radial[l] = density;
        }
        const Matrix next = spread(basis, radial);
        const double change = (next - d).norm();
        d = next;
        if (change < 1e-5) break;
        const Matrix g = h + to_matrix(two_electron.of(to_tensor(d, functions, functions), nullptr, work));
        f = iteration == 0 ? g : (0.5 * f + 0.5 * g).eval();
    }
    AtomicGuess out{std::move(d), Matrix(basis.functions, static_cast<Eigen::Index>(cores.size()))};
    for (std::size_t k = 0; k < cores.size(); ++k) out.cores.col(static_cast<Eigen::Index>(k)) = cores[k];
    return out;
}

}  // namespace

AtomicGuess atomic_guess(const Molecule& molecule, const BasisSet& set, const Basis& basis, TensorWork& work) {
    std::map<int, AtomicGuess> known;
    Eigen::Index cores = 0;
    for (const auto& a : molecule.atoms) {
        if (!known.contains(a.number)) known[a.number] = free_atom(a.number, set, work);
        cores += known[a.number].cores.cols();
    }
    AtomicGuess out{Matrix::Zero(basis.functions, basis.functions), Matrix::Zero(basis.functions, cores)};
    Eigen::Index core = 0;
    for (std::size_t a = 0; a < molecule.atoms.size(); ++a) {
        const AtomicGuess& atom = known[molecule.atoms[a].number];
        const auto at = basis.shells[basis.first_shell[a]].first;
        out.density.block(at, at, atom.density.rows(), atom.density.cols()) = atom.density;
        out.cores.block(at, core, atom.cores.rows(), atom.cores.cols()) = atom.cores;
        core += atom.cores.cols();
    }
    return out;
}

}  // namespace tessera::chem
