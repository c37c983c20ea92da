#include "tessera/chem/optimise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "chem/linear_algebra.hpp"

namespace tessera::chem {

namespace {

constexpr double kLongestMove = 0.3;  // bohr, of an atom along an axis
constexpr double kSoft = 0.05;        // hartree / bohr^2: the least stiffness of the model
constexpr double kWorse = 1e-9;       // hartree by which a step may rise in the noise of energies
constexpr int kMostHalvings = 5;
constexpr double kTight = 1e-9;  // convergence of energies whose differences are taken

int row_of(int number) { return number <= 2 ? 0 : number <= 10 ? 1 : 2; }

/// Bonds are springs whose stiffness falls with their length (Lindh et al., Chem. Phys. Lett. 241, 423).
Matrix model_hessian(const Molecule& m) {
    constexpr double alpha[3][3] = {{1.0, 0.3949, 0.3949}, {0.3949, 0.28, 0.28}, {0.3949, 0.28, 0.28}};
    constexpr double length[3][3] = {{1.35, 2.10, 2.53}, {2.10, 2.87, 3.40}, {2.53, 3.40, 3.40}};
    const auto n = static_cast<Eigen::Index>(m.atoms.size());
    Matrix h = kSoft * Matrix::Identity(3 * n, 3 * n);
    for (Eigen::Index i = 0; i < n; ++i)
        for (Eigen::Index j = 0; j < i; ++j) {
            const Atom &a = m.atoms[static_cast<std::size_t>(i)], &b = m.atoms[static_cast<std::size_t>(j)];
            const double r = distance(a.at, b.at), r0 = length[row_of(a.number)][row_of(b.number)];
            const double k = 0.45 * std::exp(alpha[row_of(a.number)][row_of(b.number)] * (r0 * r0 - r * r));
            for (std::size_t x = 0; x < 3; ++x)
                for (std::size_t y = 0; y < 3; ++y) {
                    const double part = std::min(k, 1.0) * (a.at[x] - b.at[x]) * (a.at[y] - b.at[y]) / (r * r);
                    const auto p = static_cast<Eigen::Index>(x), q = static_cast<Eigen::Index>(y);
                    h(3 * i + p, 3 * i + q) += part;
                    h(3 * j + p, 3 * j + q) += part;
                    h(3 * i + p, 3 * j + q) -= part;
                    h(3 * j + p, 3 * i + q) -= part;
                }
        }
    return h;
}

Molecule moved(const Molecule& m, const Vector& by) {
    Molecule out = m;
    for (std::size_t a = 0; a < m.atoms.size(); ++a)
        for (std::size_t x = 0; x < 3; ++x) out.atoms[a].at[x] += by(static_cast<Eigen::Index>(3 * a + x));
    return out;
}

Vector flat(const std::vector<Point>& points) {
    Vector out(static_cast<Eigen::Index>(3 * points.size()));
    for (std::size_t a = 0; a < points.size(); ++a)
        for (std::size_t x = 0; x < 3; ++x) out(static_cast<Eigen::Index>(3 * a + x)) = points[a][x];
    return out;
}

/// Of energies whose differences are taken nobody wants to read.
EnergyOptions quiet(const EnergyOptions& options) {
    EnergyOptions out = options;
    out.converge = std::min(out.converge, kTight);
    out.log = nullptr;
    out.fcidump_out.clear();
    out.dipole = false;
    return out;
}

}  // namespace

std::string to_xyz(const Molecule& molecule, const std::string& comment) {
    std::string out = fmt::format("{}\n{}\n", molecule.atoms.size(), comment);
    for (const auto& a : molecule.atoms)
        out += fmt::format("{:<2} {:16.10f} {:16.10f} {:16.10f}\n", element_symbol(a.number), a.at[0] * kBohrInAngstrom,
                           a.at[1] * kBohrInAngstrom, a.at[2] * kBohrInAngstrom);
    return out;
}

std::vector<Point> numerical_gradient(const Molecule& molecule, const EnergyOptions& options, double step) {
    require(step > 0 && step < 0.5, "steps of {} bohr for a gradient: more than 0 and less than 0.5 are needed", step);
    EnergyOptions how = quiet(options);
    how.warn = [](const std::string&) {};  // they came with the geometry itself
    std::vector<Point> out(molecule.atoms.size());
    for (std::size_t a = 0; a < out.size(); ++a)
        for (std::size_t x = 0; x < 3; ++x) {
            double e[2];
            for (const int side : {0, 1}) {
                Molecule there = molecule;
                there.atoms[a].at[x] += side == 0 ? -step : step;
                e[side] = energy(there, how).total;
            }
            out[a][x] = (e[1] - e[0]) / (2 * step);
        }
    return out;
}

OptimiseResult optimise(const Molecule& molecule, const OptimiseOptions& options) {
    require(options.gradient > 0, "a gradient of {} cannot be reached: more than 0 is needed", options.gradient);
    require(options.max_steps >= 1, "{} steps at most: at least one is needed", options.max_steps);
    OptimiseResult out;
    out.molecule = molecule;
    const EnergyOptions how = quiet(options.energy);
    const auto value = [&](const Molecule& m) {
        ++out.energies;
        return energy(m, how).total;
    };
    const auto gradient = [&](const Molecule& m) {
        out.energies += 6 * static_cast<int>(m.atoms.size());
        return flat(numerical_gradient(m, options.energy, options.step));
    };
    out.energy = value(molecule);
    Matrix hessian = model_hessian(molecule);
    Vector g = gradient(molecule);
    const auto tell = [&] {
        out.gradient = g.cwiseAbs().maxCoeff();
        if (options.progress) options.progress(out.steps, out.molecule, out.energy, out.gradient);
        return out.converged = out.gradient < options.gradient;
    };
    while (!tell() && out.steps < options.max_steps) {
        const Matrix right = -g;
        Vector move = solve(hessian, right).col(0);
        if (const double most = move.cwiseAbs().maxCoeff(); most > kLongestMove) move *= kLongestMove / most;
        ++out.steps;
        Molecule next;
        double e = 0;
        for (int half = 0;; ++half) {
            next = moved(out.molecule, move);
            e = value(next);
            if (e < out.energy + kWorse || half == kMostHalvings) break;
            move *= 0.5;
        }
        const Vector before = std::exchange(g, gradient(next));
        const Vector change = g - before, along = hessian * move;
        // Only where the surface is curved upwards along the move does the model stay positive.
        if (const double curved = change.dot(move); curved > 1e-8 * move.squaredNorm()) {
            for (Eigen::Index i = 0; i < g.size(); ++i)
                for (Eigen::Index j = 0; j < g.size(); ++j) hessian(i, j) += change(i) * change(j) / curved;
            const double stiff = move.dot(along);
            for (Eigen::Index i = 0; i < g.size(); ++i)
                for (Eigen::Index j = 0; j < g.size(); ++j) hessian(i, j) -= along(i) * along(j) / stiff;
        }
        out.molecule = std::move(next);
        out.energy = e;
    }
    return out;
}

}  // namespace tessera::chem
