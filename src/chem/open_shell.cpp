#include "chem/open_shell.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/text.hpp"
#include "tessera/storage/memory.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kOrbitalsInTile = 20;  // antisymmetric tensors spare what lies beyond the diagonal of tiles
constexpr std::size_t kShown = 5;             // largest amplitudes

/// What correlation adds to the dipole moment of the reference.
std::array<double, 3> correlation_dipole(const SpinDensity& density, const SpinOrbitals& orbitals,
                                         const Integrals& integrals) {
    const Matrix c = to_matrix(orbitals.coefficients), oo = to_matrix(density.oo), ov = to_matrix(density.ov),
                 vv = to_matrix(density.vv);
    std::array<double, 3> out{};
    const auto r = integrals.dipole();
    for (std::size_t x = 0; x < 3; ++x) {
        // Elements between spins meet none of the densities.
        const Matrix m = between(c, r[x], c);
        const auto o = oo.rows(), v = vv.rows();
        out[x] -= m.topLeftCorner(o, o).cwiseProduct(oo).sum() + m.topRightCorner(o, v).cwiseProduct(ov).sum() +
                  m.bottomRightCorner(v, v).cwiseProduct(vv).sum();
    }
    return out;
}

double sum(const OpenShell::Parts& x) { return x.same + x.opposite + x.singles; }

}  // namespace

std::array<double, 3> dipole_moment(const Molecule& molecule, const Integrals& integrals, const Matrix& density) {
    std::array<double, 3> out{};
    const auto r = integrals.dipole();
    for (std::size_t x = 0; x < 3; ++x) {
        for (const auto& a : molecule.atoms) out[x] += a.number * a.at[x];
        out[x] -= r[x].cwiseProduct(density).sum();
    }
    return out;
}

double open_shell_bytes(std::array<std::int64_t, 2> occupied, std::int64_t orbitals, std::int64_t functions,
                        Method method) {
    double bytes = SpinIntegrals::bytes(orbitals, functions);
    if (method < Method::ccsd) return bytes;
    const double o = static_cast<double>(std::max(occupied[0], occupied[1]));
    const double v = static_cast<double>(orbitals - std::min(occupied[0], occupied[1]));
    // Blocks of spins: of four virtual orbitals 1/4 (aa), 1 (ab), 1/4 (bb) and the tiles on the diagonal; of doubles in
    // DIIS and beside it.
    return bytes + 8 * (2.5 * v * v * v * v + 12 * o * v * v * v + (3.0 * 20 + 4 * 6) * o * o * v * v);
}

void correlate_open_shell(const UhfResult& scf, std::shared_ptr<const AoIntegrals> ao, const Fitting* fitting,
                          const Tiling& functions, const Integrals& integrals, const EnergyOptions& options,
                          EnergyResult& result, TensorWork& work) {
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(line);
    };
    OpenShell& open = *result.open;
    const bool cc = options.method >= Method::ccsd;
    double start = now_seconds();
    const SpinOrbitals orbitals =
        make_spin_orbitals(scf, result.frozen, functions, std::min(options.tile, kOrbitalsInTile), work);
    open.occupied = orbitals.occupied;
    open.virtuals = orbitals.virtuals;
    if (orbitals.occupied_tiles.extent() == 0 || orbitals.virtual_tiles.extent() == 0) {
        say("no electrons, or no orbitals, to correlate with: the correlation energy is zero");
        return;
    }
    AntisymmetricIntegrals v;
    {
        const auto all =
            fitting ? SpinIntegrals(*fitting, orbitals, work) : SpinIntegrals(std::move(ao), orbitals, work);
        v = antisymmetric_integrals(all, options.method, work.threads());
    }
    release_memory();
    result.transform_seconds = now_seconds() - start;
    say(fmt::format("transformed to {} + {} occupied ({} frozen) and {} + {} virtual orbitals in {:.2f} s",
                    orbitals.occupied[0], orbitals.occupied[1], result.frozen, orbitals.virtuals[0],
                    orbitals.virtuals[1], result.transform_seconds));

    start = now_seconds();
    const SpinEquations equations(v, orbitals, work);
    Amplitudes t = equations.first_order();
    open.mp2 = equations.energy(t, false);
    result.mp2 = sum(open.mp2);
    say(fmt::format("MP2 correlation energy {:.10f}", result.mp2));
    if (!cc) return;
    CcsdOptions how;
    how.converge = options.converge;
    how.max_iterations = options.max_iterations;
    how.log = options.log;
    say("CCSD");
    CcsdResult found = ccsd({[&](const Amplitudes& x) { return equations.next(x); },
                             [&](const Amplitudes& x) { return sum(equations.energy(x, true)); }},
                            std::move(t), how, work.threads());
    open.ccsd = equations.energy(found.amplitudes, true);
    open.singles = largest_amplitudes(found.amplitudes.t1, orbitals, kShown);
    open.doubles = largest_amplitudes(found.amplitudes.t2, orbitals, kShown);
    result.ccsd = found.energy;
    result.iterations = found.iterations;
    // For a closed shell that of its own formulation.
    result.t1_diagnostic =
        norm(found.amplitudes.t1) / std::sqrt(2.0 * static_cast<double>(orbitals.occupied_tiles.extent()));
    if (options.dipole) {
        say("Lambda");
        SpinMultipliers multipliers(v, orbitals, found.amplitudes, work);
        how.what = "Lambda";
        const CcsdResult lambda = ccsd({[&](const Amplitudes& x) { return multipliers.next(x); },
                                        [&](const Amplitudes& x) { return sum(equations.energy(x, false)); }},
                                       found.amplitudes, how, work.threads());
        result.lambda_iterations = lambda.iterations;
        result.ccsd_dipole = result.dipole;
        const auto more = correlation_dipole(multipliers.density(lambda.amplitudes), orbitals, integrals);
        for (std::size_t x = 0; x < 3; ++x) (*result.ccsd_dipole)[x] += more[x];
    }
    result.ccsd_seconds = now_seconds() - start;
    if (options.method != Method::ccsd_t) return;

    v.vvvv = v.oooo = v.ovov = RealTensor();
    release_memory();  // the triples kernel has memory of its own
    start = now_seconds();
    say("(T)");
    const auto tell = [&, told = 0](double done, double total) mutable {
        const int quarters = static_cast<int>(4 * done / total);
        if (quarters == told) return;
        told = quarters;
        say(fmt::format("{:5} % {:43.2f} s", 25 * told, now_seconds() - start));
    };
    const auto triples = spin_triples(v, orbitals, found.amplitudes, work.workers(), tell);
    result.triples = triples.energy;
    result.triples_flops = triples.flops;
    result.triples_seconds = now_seconds() - start;
    say(fmt::format("(T) {:.10f} in {:.2f} s", result.triples, result.triples_seconds));
}

}  // namespace tessera::chem
