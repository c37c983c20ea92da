#include "chem/rhf.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/diis.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

namespace {

constexpr double kDependent = 1e-7;        // overlap eigenvalue below which a combination of functions is left out
constexpr double kNearlyDependent = 1e-5;  // below which digits are lost that a user may miss

}  // namespace

Orthonormal orthonormal_combinations(const Matrix& overlap) {
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(overlap);
    const Vector& values = solver.eigenvalues();
    Eigen::Index first = 0;
    while (first < values.size() && values(first) < kDependent) ++first;
    Orthonormal out;
    out.x = solver.eigenvectors().rightCols(values.size() - first);
    for (Eigen::Index k = 0; k < out.x.cols(); ++k) out.x.col(k) /= std::sqrt(values(first + k));
    if (first < values.size()) out.smallest = values(first);
    return out;
}

RhfResult rhf(const Molecule& molecule, const Integrals& integrals, const AoIntegrals& coulomb, const Matrix& guess,
              const RhfOptions& options) {
    RhfResult out;
    const double start = now_seconds();
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(line);
    };
    out.overlap = integrals.overlap();
    const Matrix h = integrals.core_hamiltonian(molecule);
    const auto [x, smallest] = orthonormal_combinations(out.overlap);
    out.dropped = h.rows() - x.cols();
    out.smallest_overlap = smallest;
    const bool near = smallest < kNearlyDependent;
    const auto warn = [&](const std::string& line) {
        if (options.warn) options.warn(line);
    };
    if (out.dropped > 0)
        warn(
            fmt::format("{} nearly dependent combination{} of basis functions {} left out (overlap eigenvalue below "
                        "{:.0e})",
                        out.dropped, out.dropped == 1 ? "" : "s", out.dropped == 1 ? "is" : "are", kDependent));
    if (near)
        warn(
            fmt::format("the basis functions are nearly dependent (smallest overlap eigenvalue {:.1e}): energies may "
                        "be less exact than they are converged",
                        smallest));
    out.occupied = molecule.electrons() / 2;
    require(out.occupied <= x.cols(), "{}: {} electron pairs do not fit in {} orbitals of basis {}", molecule.name,
            out.occupied, x.cols(), integrals.basis().name);
    const double nuclear = molecule.nuclear_repulsion();

    Diis<Matrix> diis(8, [](const Matrix& a, const Matrix& b) { return a.cwiseProduct(b).sum(); });
    // Of the occupied space among the orthonormal combinations: there the gradient keeps its digits where functions
    // depend on each other nearly, which f d s - s d f loses. The guess is no density of this molecule and has none.
    Matrix projector = Matrix::Zero(x.cols(), x.cols());
    Matrix density = guess;
    double last = 0;
    say(" iter        energy / Eh       change     gradient   diis   time / s");
    for (int iteration = 1; iteration <= options.max_iterations; ++iteration) {
        const Matrix fock = h + coulomb.two_electron(density, options.threads);
        const double e = density.cwiseProduct(h + fock).sum() + nuclear;
        const Matrix f = x.transpose() * fock * x;
        const Matrix gradient = f * projector - projector * f;
        const double size = gradient.cwiseAbs().maxCoeff(), change = e - last;
        last = e;
        out.iterations = iteration;
        require(std::isfinite(e), "{}: the SCF energy is not a number", molecule.name);
        if (iteration > 1) diis.add(f, gradient);
        say(fmt::format("{:5} {:18.10f} {:12.2e} {:>12} {:6} {:10.2f}", iteration, e, change,
                        iteration > 1 ? fmt::format("{:.2e}", size) : "-", diis.size(), now_seconds() - start));
        const bool done = iteration > 1 && std::abs(change) < options.converge && size < options.converge;
        Matrix mixed = f;
        if (!done && diis.size() > 1) {
            const auto c = diis.coefficients();
            mixed.setZero();
            for (std::size_t i = 0; i < c.size(); ++i) mixed += c[i] * diis.iterate(i);
        }
        const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(mixed);
        out.coefficients = x * solver.eigenvectors();
        out.orbital_energies = solver.eigenvalues();
        const Matrix occupied = out.coefficients.leftCols(out.occupied);
        if (done) {
            out.energy = e;
            return out;
        }
        density = occupied * occupied.transpose();
        projector =
            solver.eigenvectors().leftCols(out.occupied) * solver.eigenvectors().leftCols(out.occupied).transpose();
    }
    throw NotConverged(
        fmt::format("{}: the SCF did not converge in {} iterations (energy {:.8f}){}", molecule.name,
                    options.max_iterations, last,
                    near ? fmt::format("; the basis functions are nearly dependent (overlap eigenvalue {:.1e}): use "
                                       "fewer diffuse ones, or a looser --converge",
                                       smallest)
                         : ""),
        "scf", out.iterations, last);
}

}  // namespace tessera::chem
