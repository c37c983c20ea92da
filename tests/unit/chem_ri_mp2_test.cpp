// MP2 with fitted integrals in block-sparse tensors: psi4's energies of alkanes, the filter, a metric that is singular.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/shared_data.hpp"
#include "tessera/base/error.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {
namespace {

EnergyResult run(const Molecule& m, const std::string& basis, bool frozen, double filter = 1e-10,
                 std::int64_t tile = 32) {
    EnergyOptions o;
    o.method = Method::ri_mp2;
    o.basis = basis;
    o.frozen_core = frozen;
    o.filter = filter;
    o.tile = tile;
    o.converge = 1e-9;
    return energy(m, o);
}

Molecule molecule(const std::string& name) { return read_xyz(find_shared_data("molecules/" + name + ".xyz")); }

void compare(const std::string& name) {
    const auto folder = std::filesystem::canonical(find_shared_data("molecules/h2o.xyz")).parent_path();
    const auto file = nlohmann::json::parse(std::ifstream(folder / "../../tests/data/ri_mp2_energies.json"));
    int cases = 0;
    for (const auto& x : file["energies"]) {
        if (x["molecule"] != name) continue;
        ++cases;
        const auto r = run(molecule(name), x["basis"], x["frozen"] > 0);
        EXPECT_EQ(r.frozen, x["frozen"]);
        EXPECT_EQ(r.rifit, x["rifit"]);
        EXPECT_NEAR(r.rhf, x["psi4"]["scf"], 1e-6) << x;
        EXPECT_NEAR(r.mp2, x["psi4"]["mp2"], 1e-8) << x;
        EXPECT_EQ(r.total, r.rhf + r.mp2);
        EXPECT_LE(r.fitted_tiles_kept, r.fitted_tiles);
        EXPECT_GT(r.rank_bytes, 0);
    }
    EXPECT_GT(cases, 0);
}

TEST(RiMp2, ButaneIsThatOfPsi4) { compare("c4h10"); }
TEST(RiMp2, DISABLED_OctaneIsThatOfPsi4) { compare("c8h18"); }

TEST(RiMp2, IsTheFittedMp2OfFullTensors) {
    EnergyOptions o;
    o.method = Method::mp2;
    o.integrals = IntegralKind::df;
    o.basis = "cc-pvdz";
    o.converge = 1e-9;
    const auto m = molecule("h2o");
    EXPECT_NEAR(run(m, "cc-pvdz", false).mp2, energy(m, o).mp2, 1e-10);
}

Molecule two_waters(const std::string& apart) {
    return parse_xyz("6\n\nO 0 0 0.1173\nH 0 0.7572 -0.4692\nH 0 -0.7572 -0.4692\nO " + apart + " 0 0.1173\nH " +
                         apart + " 0.7572 -0.4692\nH " + apart + " -0.7572 -0.4692\n",
                     "two waters");
}

TEST(RiMp2, TheFilterLeavesOutAndSaysHowMuch) {
    const auto far = two_waters("5"), near = two_waters("3.5");
    const auto all = run(far, "sto-3g", true, 0, 2), some = run(far, "sto-3g", true, 1e-3, 2);
    EXPECT_LT(some.fitted_tiles_kept, all.fitted_tiles_kept);
    EXPECT_EQ(some.fitted_tiles, all.fitted_tiles);
    EXPECT_GT(some.fitted_left_out, 1e-3);
    EXPECT_LT(some.fitted_left_out, 1e-3 * std::sqrt(static_cast<double>(all.fitted_tiles)));
    EXPECT_NE(some.mp2, all.mp2);
    EXPECT_NEAR(some.mp2, all.mp2, 1e-8);
    EXPECT_GT(std::abs(run(near, "sto-3g", true, 3e-2, 2).mp2 - run(near, "sto-3g", true, 0, 2).mp2), 1e-5);
    EXPECT_THROW(run(far, "sto-3g", true, -1), UserError);
    EXPECT_THROW(run(far, "sto-3g", true, std::nan("")), UserError);
}

/// Auxiliary functions that are there twice are dropped, once each, and the energy is that without them.
TEST(RiMp2, DependentAuxiliaryFunctionsAreDroppedAndReported) {
    const auto folder = std::filesystem::temp_directory_path() / ("tessera_ri_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    const std::string basis = "****\nHe 0\nS 1 1.0\n 0.5 1\nS 1 1.0\n 1.7 1\nP 1 1.0\n 1.1 1\n****\n";
    const std::string once =
        "S 1 1.0\n 1.0 1\nS 1 1.0\n 2.2 1\nS 1 1.0\n 3.4 1\nP 1 1.0\n 1.6 1\nP 1 1.0\n 2.8 1\nD 1 "
        "1.0\n 2.2 1\n";
    const auto write = [&](const std::string& name, const std::string& text) {
        std::ofstream(folder / name) << text;
        return (folder / name).string();
    };
    EnergyOptions o;
    o.method = Method::ri_mp2;
    o.basis = write("basis.g94", basis);
    o.jkfit = write("jkfit.g94", "****\nHe 0\n" + once + "****\n");
    o.rifit = o.jkfit;
    std::vector<std::string> warnings;
    o.warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto m = parse_xyz("2\n\nHe 0.1 0.2 0.3\nHe 0.1 0.2 2.0\n", "he2");
    const auto right = energy(m, o);
    EXPECT_EQ(right.dropped_auxiliary, 0);
    EXPECT_LT(right.mp2, -1e-3);
    EXPECT_TRUE(warnings.empty());
    o.rifit = write("rifit.g94", "****\nHe 0\n" + once + "P 1 1.0\n 1.6 1\n****\n");
    const auto twice = energy(m, o);
    EXPECT_EQ(twice.dropped_auxiliary, 6);  // the p functions of two atoms
    EXPECT_NEAR(twice.mp2, right.mp2, 1e-9);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("6 of its functions depend on each other"), std::string::npos) << warnings[0];
    EXPECT_LT(twice.metric_condition, 1e10);
    std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::chem
