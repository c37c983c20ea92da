#include "chem/open_shell.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "chem/correlate.hpp"
#include "chem/linear_algebra.hpp"
#include "chem/natural_orbitals.hpp"
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

bool nothing_in(const SpinOrbitals& x) { return x.occupied_tiles.extent() == 0 || x.virtual_tiles.extent() == 0; }

AntisymmetricIntegrals integrals_over(const SpinOrbitals& orbitals, std::shared_ptr<const AoIntegrals> ao,
                                      const Fitting* fitting, Method method, TensorWork& work) {
    const auto all = fitting ? SpinIntegrals(*fitting, orbitals, work) : SpinIntegrals(std::move(ao), orbitals, work);
    return antisymmetric_integrals(all, method, work.threads());
}

/// MP2 over all virtual orbitals, whose natural ones are kept.
void leave_orbitals_out(UhfResult& scf, const std::shared_ptr<const AoIntegrals>& ao, const Fitting* fitting,
                        const Tiling& functions, const EnergyOptions& options, EnergyResult& result, TensorWork& work) {
    const double start = now_seconds();
    NaturalOrbitals& fno = result.fno.emplace();
    const SpinOrbitals orbitals =
        make_spin_orbitals(scf, result.frozen, functions, std::min(options.tile, kOrbitalsInTile), work);
    fno.all = fno.kept = orbitals.virtuals;
    if (nothing_in(orbitals)) return;
    const AntisymmetricIntegrals v = integrals_over(orbitals, ao, fitting, Method::mp2, work);
    const SpinEquations equations(v, orbitals, work);
    const Amplitudes t = equations.first_order();
    result.open->mp2 = equations.energy(t, false);
    result.mp2 = fno.correction = sum(result.open->mp2);  // less that of the kept ones, once it is known
    if (options.log) options.log(fmt::format("MP2 correlation energy {:.10f}", result.mp2));
    const Matrix density = to_matrix(natural_spin_density(t.t2, work));
    Eigen::Index begin = 0;
    for (std::size_t s = 0; s < 2; ++s) {
        const auto n = orbitals.virtuals[s];
        const Matrix own = density.block(begin, begin, n, n);
        begin += n;
        // Twice: the numbers of a closed shell are of both spins.
        if (n > 0) keep_natural(scf.spin[s], own + own.transpose(), *options.fno, s, fno);
        fno.occupation[s] /= 2;
        fno.occupation_kept[s] /= 2;
    }
    result.fno_seconds = now_seconds() - start;
    tell_kept(fno, true, options.log);
}

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

void correlate_open_shell(UhfResult& scf, std::shared_ptr<const AoIntegrals> ao, const Fitting* fitting,
                          const Tiling& functions, const Integrals& integrals, const EnergyOptions& options,
                          EnergyResult& result, TensorWork& work, const std::function<void()>& enough_memory) {
    const auto say = [&](const std::string& line) {
        if (options.log) options.log(line);
    };
    OpenShell& open = *result.open;
    const bool cc = options.method >= Method::ccsd;
    const auto tile = std::min(options.tile, kOrbitalsInTile);
    if (options.fno) leave_orbitals_out(scf, ao, fitting, functions, options, result, work);
    const double start = now_seconds();
    const SpinOrbitals orbitals = make_spin_orbitals(scf, result.frozen, functions, tile, work);
    open.occupied = orbitals.occupied;
    open.virtuals = orbitals.virtuals;
    result.virtuals = orbitals.virtuals[0];
    if (nothing_in(orbitals)) {
        say("no electrons, or no orbitals, to correlate with: the correlation energy is zero");
        return;
    }
    if (result.fno) enough_memory();
    AntisymmetricIntegrals v = integrals_over(orbitals, std::move(ao), fitting, options.method, work);
    release_memory();
    result.transform_seconds = now_seconds() - start;
    say(fmt::format("transformed to {} + {} occupied ({} frozen) and {} + {} virtual orbitals in {:.2f} s",
                    orbitals.occupied[0], orbitals.occupied[1], result.frozen, orbitals.virtuals[0],
                    orbitals.virtuals[1], result.transform_seconds));

    const double begin = now_seconds();
    const SpinEquations equations(v, orbitals, work);
    Amplitudes t = equations.first_order();
    const auto mp2 = equations.energy(t, false);
    if (result.fno) {
        result.fno->correction -= sum(mp2);
        say(fmt::format("MP2 correlation energy of these {:.10f}", sum(mp2)));
    } else {
        open.mp2 = mp2;
        result.mp2 = sum(mp2);
        say(fmt::format("MP2 correlation energy {:.10f}", result.mp2));
    }
    if (!cc) return;
    CcsdOptions how = ccsd_options(options);
    say("CCSD");
    CcsdResult found = ccsd({[&](const Amplitudes& x) { return equations.next(x); },
                             [&](const Amplitudes& x) { return sum(equations.energy(x, true)); }},
                            std::move(t), how, work.threads());
    open.ccsd = equations.energy(found.amplitudes, true);
    open.singles = largest_amplitudes(found.amplitudes.t1, orbitals, kShown);
    open.doubles = largest_amplitudes(found.amplitudes.t2, orbitals, kShown);
    // The diagnostic of a closed shell is that of its own formulation.
    take_ccsd(found, 2 * orbitals.occupied_tiles.extent(), result);
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
    result.ccsd_seconds = now_seconds() - begin;
    if (options.method != Method::ccsd_t) return;

    v.vvvv = v.oooo = v.ovov = RealTensor();
    const auto why_not = take_triples(
        options.log,
        [&](const TriplesProgress& progress) {
            return spin_triples(v, orbitals, found.amplitudes, work.workers(), progress);
        },
        result);
    if (!why_not.empty() && options.warn) options.warn(why_not);
}

}  // namespace tessera::chem
