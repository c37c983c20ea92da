// Open shells: against closed ones, against other programs, and what must leave energies as they are.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/shared_data.hpp"
#include "chem/spin_bricks.hpp"
#include "tessera/chem/energy.hpp"
#include "tessera/chem/hamiltonian.hpp"
#include "tessera/chem/optimise.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::chem {
namespace {

Molecule molecule(const std::string& name) { return read_xyz(find_shared_data("molecules/" + name + ".xyz")); }

EnergyOptions options(Reference reference, const std::string& basis = "def2-svp", Method method = Method::ccsd_t) {
    EnergyOptions o;
    o.reference = reference;
    o.basis = basis;
    o.method = method;
    return o;
}

/// A closed shell in orbitals of each spin has the energies of the equations for closed shells, which are others.
TEST(OpenShell, ClosedShellsAreThemselves) {
    for (const bool df : {false, true}) {
        EnergyOptions o = options(Reference::rhf, df ? "sto-3g" : "def2-svp");
        o.frozen_core = true;
        o.converge = 1e-10;
        if (df) o.integrals = IntegralKind::df;
        const auto closed = energy(molecule("h2o"), o);
        for (const auto reference : {Reference::uhf, Reference::rohf}) {
            o.reference = reference;
            const auto open = energy(molecule("h2o"), o);
            EXPECT_NEAR(open.rhf, closed.rhf, 1e-9);
            EXPECT_NEAR(open.mp2, closed.mp2, 1e-9);
            // Fitted closed shells take jkfit for the Fock matrix that t1 dresses, and rifit for the rest as these.
            EXPECT_NEAR(open.ccsd, closed.ccsd, df ? 1e-7 : 1e-9);
            EXPECT_NEAR(open.triples, closed.triples, df ? 1e-8 : 1e-9);
            EXPECT_NEAR(open.t1_diagnostic, closed.t1_diagnostic, df ? 1e-6 : 1e-7);
            EXPECT_NEAR(open.open->s_squared, 0, 1e-9);
            for (std::size_t x = 0; x < 3; ++x) EXPECT_NEAR((*open.dipole)[x], (*closed.dipole)[x], 1e-7);
            const auto& p = open.open->ccsd;
            EXPECT_NEAR(p.same + p.opposite + p.singles, open.ccsd, 1e-12);
        }
    }
}

void expect_as_stored(const nlohmann::json& x) {
    const auto name = x["name"].get<std::string>(), basis = x["basis"].get<std::string>();
    const auto m = parse_xyz(x["xyz"].get<std::string>(), name);
    for (const auto& [key, reference] : {std::pair{"uhf", Reference::uhf}, {"rohf", Reference::rohf}}) {
        if (!x.contains(key)) continue;
        SCOPED_TRACE(name + " " + basis + " " + key);
        EnergyOptions o = options(reference, basis);
        o.multiplicity = x["multiplicity"].get<int>();
        o.frozen_core = x["frozen"].get<int>() > 0;
        o.converge = 1e-9;
        o.stability = Stability::follow;
        if (reference == Reference::rohf) o.stability = Stability::check;
        const auto& e = x[key];
        o.dipole = e.contains("ccsd_dipole");
        const auto r = energy(m, o);
        EXPECT_EQ(r.frozen, x["frozen"].get<int>());
        EXPECT_NEAR(r.rhf, e["scf"].get<double>(), 1e-8);
        EXPECT_NEAR(r.ccsd, e["ccsd"].get<double>(), 1e-7);
        EXPECT_NEAR(r.triples, e["t"].get<double>(), 1e-7);
        if (reference == Reference::rohf) continue;
        EXPECT_NEAR(r.mp2, e["mp2"].get<double>(), 1e-7);
        EXPECT_NEAR(r.open->s_squared, e["s_squared"].get<double>(), 1e-6);
        EXPECT_GE(*r.open->hessian, -1e-5);
        double ours = 0, theirs = 0;  // degenerate solutions may point elsewhere
        for (std::size_t d = 0; d < 3; ++d) {
            ours += (*r.dipole)[d] * (*r.dipole)[d];
            theirs += std::pow(e["dipole"][d].get<double>(), 2);
        }
        EXPECT_NEAR(std::sqrt(ours), std::sqrt(theirs), 1e-5);
        if (!e.contains("ccsd_dipole")) continue;
        for (std::size_t d = 0; d < 3; ++d)
            EXPECT_NEAR((*r.ccsd_dipole)[d], e["ccsd_dipole"][d].get<double>(), 1e-6) << d;
    }
}

nlohmann::json stored(const std::string& name = "open_shell_energies.json") {
    const auto folder = std::filesystem::canonical(find_shared_data("molecules/h2o.xyz")).parent_path();
    std::ifstream file(folder / "../../tests/data" / name);
    return nlohmann::json::parse(file)["energies"];
}

TEST(OpenShell, SmallOnesAsOtherProgramsHaveThem) {
    int seen = 0;
    for (const auto& x : stored()) {
        const auto name = x["name"].get<std::string>();
        if (x["uhf"]["nbf"].get<int>() > (name == "oh" ? 19 : 14)) continue;
        expect_as_stored(x);
        ++seen;
    }
    EXPECT_EQ(seen, 8);
}

TEST(OpenShell, DISABLED_AllAsOtherProgramsHaveThem) {
    for (const auto& x : stored()) expect_as_stored(x);
}

TEST(NaturalOrbitals, AsOtherProgramsHaveThem) {
    for (const auto& x : stored("fno_energies.json")) {
        const auto name = x["name"].get<std::string>();
        SCOPED_TRACE(name + " " + x["basis"].get<std::string>());
        const auto multiplicity = x["multiplicity"].get<int>();
        EnergyOptions o = options(multiplicity > 1 ? Reference::uhf : Reference::rhf, x["basis"].get<std::string>());
        o.multiplicity = multiplicity;
        o.frozen_core = x["frozen"].get<int>() > 0;
        o.converge = 1e-9;
        o.fno = x["threshold"].get<double>();
        const auto r = energy(parse_xyz(x["xyz"].get<std::string>(), name), o);
        const auto& e = x["pyscf"];
        ASSERT_TRUE(r.fno);
        for (std::size_t s = 0; s < 2; ++s) EXPECT_EQ(r.fno->kept[s], e["kept"][s].get<std::int64_t>());
        EXPECT_NEAR(r.rhf, e["scf"].get<double>(), 1e-8);
        EXPECT_NEAR(r.mp2, e["mp2"].get<double>(), 1e-8);
        EXPECT_NEAR(r.fno->correction, e["correction"].get<double>(), 1e-7);
        EXPECT_NEAR(r.ccsd, e["ccsd"].get<double>(), 1e-7);
        EXPECT_NEAR(r.triples, e["t"].get<double>(), 1e-7);
        EXPECT_NEAR(r.total, r.rhf + r.ccsd + r.triples + r.fno->correction, 1e-12);
        if (multiplicity > 1) continue;
        EXPECT_NEAR(r.total, x["psi4"]["total"].get<double>(), 1e-7);
    }
}

TEST(NaturalOrbitals, AllOfThemAreTheOrbitalsThereWere) {
    const auto nh = parse_xyz("2\n\nN 0 0 0\nH 0 0 1.0362\n", "nh");
    for (const auto& [reference, df] :
         {std::pair{Reference::rhf, false}, {Reference::rhf, true}, {Reference::uhf, true}, {Reference::rohf, false}}) {
        SCOPED_TRACE(name(reference) + (df ? " df" : ""));
        EnergyOptions o = options(reference, "def2-svp");
        const auto m = reference == Reference::rhf ? molecule("h2o") : nh;
        o.multiplicity = reference == Reference::rhf ? 1 : 3;
        o.frozen_core = true;
        o.converge = 1e-11;
        if (df) o.integrals = IntegralKind::df;
        const auto whole = energy(m, o);
        o.fno = 0;
        const auto all = energy(m, o);
        EXPECT_NEAR(all.total, whole.total, 1e-10);
        EXPECT_NEAR(all.fno->correction, 0, 1e-10);
        EXPECT_EQ(all.fno->kept, all.fno->all);
        EXPECT_EQ(all.virtuals, whole.virtuals);
        // The correction takes most of what is lost.
        o.fno = 1e-3;
        const auto some = energy(m, o);
        EXPECT_LT(some.virtuals, whole.virtuals);
        EXPECT_LT(std::abs(some.total - whole.total), 0.4 * std::abs(some.fno->correction));
        EXPECT_LT(some.fno->occupation_kept[0], some.fno->occupation[0]);
        EXPECT_LE(some.memory_estimate, whole.memory_estimate);
    }
}

TEST(NaturalOrbitals, AreOfBothSpinsAlikeInAClosedShell) {
    EnergyOptions o = options(Reference::rhf);
    o.converge = 1e-10;
    o.fno = 3e-4;
    const auto closed = energy(molecule("h2o"), o);
    o.reference = Reference::uhf;
    const auto open = energy(molecule("h2o"), o);
    EXPECT_EQ(open.fno->kept, closed.fno->kept);
    EXPECT_NEAR(open.total, closed.total, 1e-9);
    EXPECT_NEAR(open.fno->correction, closed.fno->correction, 1e-9);
    for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(open.fno->occupation[s], closed.fno->occupation[s], 1e-8);
}

TEST(NaturalOrbitals, NoneMayBeLeft) {
    for (const auto reference : {Reference::rhf, Reference::uhf}) {
        EnergyOptions o = options(reference);
        o.fno = 1.9;
        const auto r = energy(molecule("h2o"), o);
        EXPECT_EQ(r.fno->kept[0] + r.fno->kept[1], 0);
        EXPECT_EQ(r.ccsd + r.triples, 0);
        EXPECT_NEAR(r.total, r.rhf + r.mp2, 1e-12);
    }
    // Beta has no electrons: its orbitals have no occupation.
    EnergyOptions o = options(Reference::uhf, "cc-pvdz");
    o.multiplicity = 3;
    o.fno = 1e-6;
    const auto r = energy(parse_xyz("2\n\nH 0 0 0\nH 0 0 1\n", "h2"), o);
    EXPECT_EQ(r.fno->kept[1], 0);
    EXPECT_LT(r.ccsd, -1e-4);
}

/// Orbitals of no molecule, and all that (T) is made of; with `scale` integrals as large, and those of CCSD too.
struct SomeSpins {
    SpinOrbitals orbitals;
    AntisymmetricIntegrals v;
    Amplitudes t;
    SomeSpins(std::array<std::int64_t, 2> occupied, std::array<std::int64_t, 2> virtuals, double scale = 0)
        : size(scale > 0 ? scale : 1) {
        orbitals.occupied = occupied;
        orbitals.virtuals = virtuals;
        const auto tiles = [](std::array<std::int64_t, 2> n, std::int64_t& alphas) {
            std::vector<std::int64_t> sizes;
            for (std::size_t s = 0; s < 2; ++s) {
                for (auto left = n[s]; left > 0; left -= 3) sizes.push_back(std::min<std::int64_t>(left, 3));
                if (s == 0) alphas = static_cast<std::int64_t>(sizes.size());
            }
            return Tiling::from_sizes(sizes);
        };
        orbitals.occupied_tiles = tiles(occupied, orbitals.alpha_tiles[0]);
        orbitals.virtual_tiles = tiles(virtuals, orbitals.alpha_tiles[1]);
        for (std::int64_t i = 0; i < occupied[0] + occupied[1]; ++i)
            orbitals.energies.occupied_energies.push_back(-2 - 0.1 * static_cast<double>(i % 7));
        for (std::int64_t a = 0; a < virtuals[0] + virtuals[1]; ++a)
            orbitals.energies.virtual_energies.push_back(0.3 + 0.1 * static_cast<double>(a % 11));
        orbitals.fock_ov = some("ov", false, false);
        v.oovv = some("oovv", true, true);
        v.ooov = some("ooov", true, false);
        v.ovvv = some("ovvv", false, true);
        t = {some("ov", false, false), some("oovv", true, true)};
        if (scale == 0) return;
        v.oooo = some("oooo", true, true);
        v.ovov = some("ovov", false, false);
        v.vvvv = some("vvvv", true, true, true);
    }
    /// Antisymmetric in the first two and in the last two indices, and as it is with both pairs exchanged, where so
    /// asked.
    RealTensor some(const std::string& spaces, bool first, bool last, bool pairs = false) {
        phase += 0.7;
        const std::string symmetry = std::string(first ? "pqrs=-qprs" : "") + (first && last ? "," : "") +
                                     (last ? "pqrs=-pqsr" : "") + (pairs ? ",pqrs=rspq" : "");
        RealTensor x(spin_shape(orbitals, spaces, Symmetry(symmetry)));
        x.update_tiles([&](const IndexVector& at, double) {
            const auto wave = [&](bool p, bool q, bool turned) {
                const double factors[] = {12.9898, 78.233, 37.719, 4.581};
                double sum = phase;
                for (std::size_t d = 0; d < spaces.size(); ++d) {
                    const auto from = p && d < 2 ? 1 - d : q && d > 1 ? 5 - d : d;
                    sum += factors[d] * static_cast<double>(at[static_cast<int>(turned ? from ^ 2U : from)]);
                }
                return std::sin(sum);
            };
            double value = 0;
            for (const bool turned : {false, true}) {
                if (turned && !pairs) continue;
                value += wave(false, false, turned);
                if (first) value -= wave(true, false, turned);
                if (last) value -= wave(false, true, turned);
                if (first && last) value += wave(true, true, turned);
            }
            return size * value;
        });
        return x;
    }

  private:
    double size, phase = 0;
};

/// The density of Lambda is the derivative of the CCSD energy with respect to a field that orbitals do not follow.
TEST(Lambda, IsTheDerivativeByAField) {
    for (const auto& [o, w] :
         {std::pair<std::array<std::int64_t, 2>, std::array<std::int64_t, 2>>{{3, 2}, {4, 5}}, {{2, 2}, {3, 3}}}) {
        SomeSpins x(o, w, 0.06);
        const RealTensor oo = x.some("oo", false, false), ov = x.some("ov", false, false),
                         vv = x.some("vv", false, false);
        TensorWork work({});
        CcsdOptions how;
        how.converge = 1e-13;
        how.max_iterations = 200;
        const auto scaled = [](double factor, RealTensor y) {
            scale(y, factor);
            return y;
        };
        const auto solved = [&](double field) {
            x.orbitals.fock_ov = scaled(field, ov);
            SpinEquations equations(x.v, x.orbitals, work);
            equations.set_fock(scaled(field, oo), scaled(field, vv));
            return ccsd({[&](const Amplitudes& t) { return equations.next(t); },
                         [&](const Amplitudes& t) {
                             const auto e = equations.energy(t, true);
                             return e.same + e.opposite + e.singles;
                         }},
                        equations.first_order(), how, 1);
        };
        const auto slope = [&](double h) { return (solved(h).energy - solved(-h).energy) / (2 * h); };
        const double by_field = (4 * slope(1e-2) - slope(2e-2)) / 3;
        const auto t = solved(0).amplitudes;
        SpinMultipliers multipliers(x.v, x.orbitals, t, work);
        const SpinEquations equations(x.v, x.orbitals, work);
        const auto lambda = ccsd({[&](const Amplitudes& l) { return multipliers.next(l); },
                                  [&](const Amplitudes& l) { return equations.energy(l, false).same; }},
                                 t, how, 1);
        const auto density = multipliers.density(lambda.amplitudes);
        const double by_lambda = dot(density.oo, oo) + dot(density.ov, ov) + dot(density.vv, vv);
        EXPECT_GT(std::abs(by_lambda), 1e-4);
        EXPECT_NEAR(by_lambda, by_field, 1e-8);
    }
}

/// Bricks as a device has them, and others, on the cores: each triple with each triple once.
TEST(SpinBricks, AreCutInAnyWay) {
    for (const auto& [o, w] : {std::pair<std::array<std::int64_t, 2>, std::array<std::int64_t, 2>>{{5, 4}, {9, 10}},
                               {{4, 1}, {3, 7}},
                               {{3, 0}, {5, 2}},
                               {{2, 1}, {2, 1}}}) {
        const SomeSpins x(o, w);
        const SpinTerms terms(x.v, x.orbitals, x.t, 1);
        const auto pairs = [](double n, int of) {
            return of == 0 ? 1 : of == 1 ? n : of == 2 ? n * (n - 1) / 2 : n * (n - 1) * (n - 2) / 6;
        };
        double unique = 0;
        for (int betas = 0; betas <= 3; ++betas)
            unique += pairs(static_cast<double>(o[0]), 3 - betas) * pairs(static_cast<double>(o[1]), betas) *
                      pairs(static_cast<double>(w[0]), 3 - betas) * pairs(static_cast<double>(w[1]), betas);
        double expected = 0, flops = 0;
        for (const BrickSizes& sizes : {kCoreBricks, kDeviceBricks, BrickSizes{{3, 2, 2}, {4, 3, 5}, false},
                                        BrickSizes{{1, 1, 1}, {1, 1, 1}, false}}) {
            const auto bricks = spin_bricks(x.orbitals, sizes);
            double sum = 0;
            for (const auto& b : bricks) sum += b.unique;
            EXPECT_EQ(sum, unique);
            const auto r = spin_triples_on_cores(terms, bricks, self_communicator(), 2, {});
            if (expected == 0) {
                expected = r.energy;
                flops = r.flops;
            }
            EXPECT_NEAR(r.energy, expected, 1e-12 * std::abs(expected));
            EXPECT_EQ(r.flops, flops);
        }
        EXPECT_NE(expected, 0);
    }
}

TEST(OpenShell, TilesAndThreadsChangeNothing) {
    EnergyOptions o = options(Reference::uhf, "sto-3g");
    o.frozen_core = true;
    const auto expected = energy(molecule("ch3"), o);
    o.here.threads = 1;
    const auto one = energy(molecule("ch3"), o);
    EXPECT_EQ(one.total, expected.total);
    for (const std::int64_t tile : {3, 7}) {
        o.tile = tile;
        const auto r = energy(molecule("ch3"), o);
        EXPECT_NEAR(r.ccsd, expected.ccsd, 2e-9) << tile;
        EXPECT_NEAR(r.triples, expected.triples, 1e-9) << tile;
    }
    o.reference = Reference::rohf;
    EXPECT_LT(expected.rhf, energy(molecule("ch3"), o).rhf - 1e-4) << "UHF lies below ROHF";
}

TEST(OpenShell, StretchedHydrogenBreaksItsSymmetry) {
    const auto far = parse_xyz("2\n\nH 0 0 0\nH 0 0 2.5\n", "h2");
    EnergyOptions o = options(Reference::uhf, "cc-pvdz");
    const auto restricted = energy(far, o);
    EXPECT_LT(*restricted.open->hessian, -0.01);
    EXPECT_EQ(restricted.open->followed, 0);
    o.stability = Stability::follow;
    const auto followed = energy(far, o);
    EXPECT_GE(followed.open->followed, 1);
    EXPECT_GE(*followed.open->hessian, -1e-5);
    EXPECT_LT(followed.rhf, restricted.rhf - 0.05);
    EXPECT_NEAR(followed.open->s_squared, 1, 0.1);
    // Two electrons: CCSD is exact for both, and there are no triples.
    EXPECT_NEAR(followed.total, restricted.total, 1e-7);
    EXPECT_NEAR(followed.triples, 0, 1e-14);
}

TEST(OpenShell, FewElectrons) {
    // One electron: Hartree-Fock is exact, of the basis.
    const auto h = energy(parse_xyz("1\n\nH 0 0 0\n", "h"), options(Reference::uhf, "cc-pvdz"));
    EXPECT_NEAR(h.rhf, -0.499278, 1e-6);
    EXPECT_EQ(h.total, h.rhf);
    EXPECT_NEAR(h.open->s_squared, 0.75, 1e-12);
    // No beta electrons, no virtual orbitals of alpha.
    EnergyOptions o = options(Reference::uhf, "sto-3g");
    o.multiplicity = 3;
    const auto h2 = energy(parse_xyz("2\n\nH 0 0 0\nH 0 0 1\n", "h2"), o);
    EXPECT_EQ(h2.total, h2.rhf);
    o.basis = "cc-pvdz";
    const auto triplet = energy(parse_xyz("2\n\nH 0 0 0\nH 0 0 50\n", "h2"), o);
    EXPECT_NEAR(triplet.total, 2 * h.rhf, 1e-6);
}

TEST(OpenShell, IntegralsGoIntoAFileAndBack) {
    const auto path = std::filesystem::temp_directory_path() / ("tessera-" + std::to_string(getpid()) + ".fcidump");
    EnergyOptions o = options(Reference::rhf);
    o.frozen_core = true;
    o.converge = 1e-10;
    o.fcidump_out = path.string();
    const auto direct = energy(molecule("h2o"), o);
    EnergyOptions of_file;
    of_file.converge = 1e-10;
    const auto back = energy(read_fcidump(path.string()), of_file);
    EXPECT_NEAR(back.rhf, direct.rhf, 1e-9);
    EXPECT_NEAR(back.mp2, direct.mp2, 1e-9);
    EXPECT_NEAR(back.total, direct.total, 1e-9);
    o.reference = Reference::rohf;
    o.method = Method::rhf;
    energy(molecule("ch3"), o);
    std::ifstream file(path);
    std::string first;
    std::getline(file, first);
    EXPECT_EQ(first, " &FCI NORB=28,NELEC=7,MS2=1,");
    std::filesystem::remove(path);
    o.fcidump_out = "/nowhere/x";
    EXPECT_THROW(energy(molecule("ch3"), o), UserError);
}

/// As psi4 1.3.2 has it: rhf/sto-3g, scf_type pk, g_convergence gau_tight.
TEST(Optimise, WaterIsWherePsi4HasIt) {
    OptimiseOptions o;
    o.energy = options(Reference::rhf, "sto-3g", Method::rhf);
    int told = 0;
    double last = 0;
    o.progress = [&](int step, const Molecule& m, double e, double) {
        EXPECT_EQ(step, told++);
        EXPECT_EQ(m.atoms.size(), 3u);
        EXPECT_LE(e, last + 1e-8);
        last = e;
    };
    const auto r = optimise(molecule("h2o"), o);
    EXPECT_TRUE(r.converged);
    EXPECT_EQ(r.steps + 1, told);
    EXPECT_NEAR(r.energy, -74.9659011923, 1e-7);
    EXPECT_NEAR(distance(r.molecule.atoms[0].at, r.molecule.atoms[1].at) * kBohrInAngstrom, 0.989409, 1e-3);
    const auto back = parse_xyz(to_xyz(r.molecule, "x"), "back");
    EXPECT_NEAR(distance(back.atoms[1].at, r.molecule.atoms[1].at), 0, 1e-8);
    o.max_steps = 0;
    EXPECT_THROW(optimise(molecule("h2o"), o), UserError);
}

void expect_refused(const Molecule& m, const EnergyOptions& o, const std::string& part) {
    try {
        energy(m, o);
        ADD_FAILURE() << part;
    } catch (const UserError& e) {
        EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
}

TEST(OpenShell, WhatCannotBeIsSaid) {
    EnergyOptions o = options(Reference::uhf);
    o.multiplicity = 2;
    expect_refused(molecule("h2o"), o,
                   "multiplicity 2 is impossible with 10 electrons, an even number: it is odd then");
    o.multiplicity = 13;
    expect_refused(molecule("h2o"), o, "they have 11 at most");
    o.multiplicity = 11;
    o.basis = "sto-3g";
    expect_refused(molecule("h2o"), o, "10 electrons of one spin do not fit in 7 orbitals");
    o = options(Reference::rhf);
    o.multiplicity = 3;
    expect_refused(molecule("o2"), o, "multiplicity 3: reference rhf has 1");
    expect_refused(molecule("ch3"), options(Reference::rhf), "uhf and rohf treat others");
    o = options(Reference::rhf);
    o.level_shift = 0.1;
    expect_refused(molecule("h2o"), o, "level shift 0.1: of references uhf and rohf");
    o = options(Reference::uhf, "sto-3g", Method::mp2);
    o.dipole = true;
    expect_refused(molecule("ch3"), o, "of ccsd with uhf and rohf");
    o = options(Reference::uhf);
    o.fno = 1e-4;
    o.dipole = true;
    expect_refused(molecule("ch3"), o, "not with fno 0.0001");
    o.dipole = false;
    o.method = Method::mp2;
    expect_refused(molecule("ch3"), o, "fno 0.0001: it shortens ccsd and ccsd(t), not mp2");
    o = options(Reference::rhf);
    o.fno = -1;
    expect_refused(molecule("h2o"), o, "fno -1: natural occupations are from 0 to below 2");
    o.fno = 1e-4;
    o.checkpoint = "/tmp/x.h5";
    expect_refused(molecule("h2o"), o, "checkpoint /tmp/x.h5: there are none of calculations with fno");
    o = options(Reference::uhf);
    o.damping = 1;
    expect_refused(molecule("ch3"), o, "damping 1");
    o = options(Reference::uhf);
    o.fcidump_out = "/tmp/x";
    expect_refused(molecule("ch3"), o, "one set of orbitals");
    o = options(Reference::uhf);
    o.abcd = Abcd::direct;
    expect_refused(molecule("ch3"), o, "abcd direct: only of closed shells");
    o = options(Reference::uhf);
    o.here.memory = 32 << 20;
    EXPECT_THROW(energy(molecule("ch3"), o), BudgetError);
}

TEST(OpenShell, WhatDoesNotConvergeHasItsHistory) {
    EnergyOptions o = options(Reference::uhf);
    o.multiplicity = 3;
    o.max_iterations = 3;
    try {
        energy(molecule("o2"), o);
        FAIL();
    } catch (const NotConverged& e) {
        EXPECT_EQ(e.where(), "scf");
        ASSERT_EQ(e.result().scf_history.size(), 3u);
        EXPECT_EQ(e.result().scf_history.back().energy, e.energy());
        EXPECT_EQ(e.exit_code(), 4);
    }
    // Both ways to help lead to the same place.
    o.max_iterations = 200;
    o.method = Method::rhf;
    const double expected = energy(molecule("o2"), o).rhf;
    o.level_shift = 0.3;
    EXPECT_NEAR(energy(molecule("o2"), o).rhf, expected, 1e-8);
    o.level_shift = 0;
    o.damping = 0.5;
    EXPECT_NEAR(energy(molecule("o2"), o).rhf, expected, 1e-8);
}

}  // namespace
}  // namespace tessera::chem
