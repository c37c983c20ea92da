#include "chem/rhf.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/diis.hpp"
#include "chem/text.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

namespace {

constexpr double kDependent = 1e-7;        // overlap eigenvalue below which a combination of functions is left out
constexpr double kNearlyDependent = 1e-5;  // below which digits are lost that a user may miss
constexpr std::int64_t kTile = 64;         // of orthonormal combinations and of occupied orbitals

}  // namespace

Orthonormal orthonormal_combinations(const Matrix& overlap) {
    const auto [values, vectors] = symmetric_eigen(overlap);
    Eigen::Index first = 0;
    while (first < values.size() && values(first) < kDependent) ++first;
    Orthonormal out;
    out.x = vectors.rightCols(values.size() - first);
    for (Eigen::Index k = 0; k < out.x.cols(); ++k) out.x.col(k) /= std::sqrt(values(first + k));
    if (first < values.size()) out.smallest = values(first);
    return out;
}

RhfResult rhf(const Molecule& molecule, const Integrals& integrals, Field& field, const Matrix& guess,
              const RhfOptions& options, TensorWork& work) {
    const RhfProblem problem{molecule.name,
                             integrals.basis().name,
                             integrals.overlap(),
                             integrals.core_hamiltonian(molecule),
                             molecule.electrons() / 2,
                             molecule.nuclear_repulsion()};
    return rhf(problem, field, guess, options, work);
}

RhfResult rhf(const RhfProblem& problem, Field& field, const Matrix& guess, const RhfOptions& options,
              TensorWork& work) {
    RhfResult out;
    const double start = now_seconds();
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(line);
    };
    out.overlap = problem.overlap;
    const auto [orthonormal, smallest] = orthonormal_combinations(out.overlap);
    const auto combinations = orthonormal.cols();
    out.dropped = out.overlap.rows() - combinations;
    out.smallest_overlap = smallest;
    const bool near = smallest < kNearlyDependent;
    const auto warn = [&](const std::string& line) {
        if (options.warn) options.warn(line);
    };
    if (out.dropped > 0)
        warn(fmt::format(
            "{} of basis functions {} left out (overlap eigenvalue below "
            "{:.0e})",
            counted(out.dropped, "nearly dependent combination"), out.dropped == 1 ? "is" : "are", kDependent));
    if (near)
        warn(
            fmt::format("the basis functions are nearly dependent (smallest overlap eigenvalue {:.1e}): energies may "
                        "be less exact than they are converged",
                        smallest));
    out.occupied = problem.pairs;
    require(out.occupied <= combinations, "{}: {} do not fit in {} of basis {}", problem.name,
            counted(out.occupied, "electron pair"), counted(combinations, "orbital"), problem.basis);

    // Eigenvectors are Eigen's; what is multiplied are tensors m, n over functions, p, q over their orthonormal
    // combinations, i over occupied orbitals.
    const Tiling functions = field.functions(), rows = even_tiling(combinations, kTile),
                 occupied = even_tiling(out.occupied, kTile);
    const RealTensor h = to_tensor(problem.core, functions, functions);
    const RealTensor x = to_tensor(orthonormal, functions, rows);
    Diis<RealTensor> diis(8, [](const RealTensor& a, const RealTensor& b) { return dot(a, b); });
    // Of the occupied space among the orthonormal combinations: there the gradient keeps its digits where functions
    // depend on each other nearly, which f d s - s d f loses. The guess is no density of this molecule and has none.
    RealTensor projector(Shape::dense(TileGrid{rows, rows}, 0));
    RealTensor density = to_tensor(guess, functions, functions), c;
    double last = 0;
    say(" iter        energy / Eh       change     gradient   diis   time / s");
    for (int iteration = 1; iteration <= options.max_iterations; ++iteration) {
        const RealTensor fock = add(1.0, h, 1.0, field.of(density, iteration > 1 ? &c : nullptr, work));
        double e = dot(density, add(1.0, h, 1.0, fock)) + problem.constant;
        const RealTensor f = work.product("mp,mq->pq", x, work.product("mn,nq->mq", fock, x));
        RealTensor gradient = work.product("pr,rq->pq", f, projector);
        work.add_product("pr,rq->pq", projector, f, gradient, -1);
        double numbers[] = {e, max_abs(gradient)};
        field.agree(numbers);
        e = numbers[0];
        const double size = numbers[1], change = e - last;
        last = e;
        out.iterations = iteration;
        require(std::isfinite(e), "{}: the SCF energy is not a number", problem.name);
        if (iteration > 1) diis.add(f, std::move(gradient));
        say(fmt::format("{:5} {:18.10f} {:12.2e} {:>12} {:6} {:10.2f}", iteration, e, change,
                        iteration > 1 ? fmt::format("{:.2e}", size) : "-", diis.size(), now_seconds() - start));
        const bool done = iteration > 1 && std::abs(change) < options.converge && size < options.converge;
        const auto orbitals = symmetric_eigen(to_matrix(done || diis.size() == 0 ? f : diis.combination()));
        if (done) {
            out.coefficients = to_matrix(work.product("mp,pq->mq", x, to_tensor(orbitals.vectors, rows, rows)));
            out.orbital_energies = orbitals.values;
            out.energy = e;
            return out;
        }
        const RealTensor u = to_tensor(orbitals.vectors.leftCols(out.occupied), rows, occupied);
        projector = work.product("pi,qi->pq", u, u);
        c = work.product("mp,pi->mi", x, u);
        density = work.product("mi,ni->mn", c, c);
    }
    throw NotConverged(
        fmt::format("{}: the SCF did not converge in {} (energy {:.8f}){}", problem.name,
                    counted(options.max_iterations, "iteration"), last,
                    near ? fmt::format("; the basis functions are nearly dependent (overlap eigenvalue {:.1e}): use "
                                       "fewer diffuse ones, or a looser convergence threshold",
                                       smallest)
                         : ""),
        "scf", out.iterations, last);
}

}  // namespace tessera::chem
