// Energies of molecules on a CUDA device: those of the cores, and the device did the work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/shared_data.hpp"
#include "device/discovery.hpp"
#include "support/leak_check.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {
namespace {

struct Case {
    const char *name, *molecule, *basis;
    Abcd abcd;
    std::vector<int> devices;
    std::int64_t memory;
    double from;  // small molecules have few contractions that pay
};

EnergyOptions options_of(const Case& c) {
    EnergyOptions o;
    o.basis = c.basis;
    o.frozen_core = true;
    o.abcd = c.abcd;
    o.converge = 1e-9;
    o.tile = 16;  // several tiles of every index
    return o;
}

class CudaEnergy : public testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    }
};

TEST_P(CudaEnergy, IsThatOfTheCores) {
    const Case& c = GetParam();
    const auto molecule = read_xyz(find_shared_data(std::string("molecules/") + c.molecule + ".xyz"));
    EnergyOptions o = options_of(c);
    const auto cores = energy(molecule, o);
    EXPECT_EQ(cores.device_contractions, 0);
    EXPECT_EQ(cores.device_triples_flops, 0);
    o.here.devices = c.devices;
    o.here.device_memory = c.memory;
    o.device_from = c.from;
    std::vector<std::string> warnings;
    o.warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto there = energy(molecule, o);
    EXPECT_NEAR(there.rhf, cores.rhf, 1e-10);
    EXPECT_NEAR(there.mp2, cores.mp2, 1e-10);
    EXPECT_NEAR(there.ccsd, cores.ccsd, 1e-10);
    EXPECT_NEAR(there.triples, cores.triples, 1e-10);
    EXPECT_NEAR(there.total, cores.total, 1e-10);
    EXPECT_EQ(there.iterations, cores.iterations);
    EXPECT_EQ(there.v_tiles_made, cores.v_tiles_made);
    EXPECT_EQ(there.contractions, cores.contractions);
    EXPECT_TRUE(warnings.empty()) << warnings.front();

    EXPECT_GT(there.device_contractions, there.iterations);
    EXPECT_LT(there.device_contractions, there.contractions);  // tiny ones stay
    EXPECT_GT(there.device_contraction_flops, 0.5 * there.contraction_flops);
    EXPECT_GT(there.device_loaded_bytes, 0);
    EXPECT_GT(there.device_stored_bytes, 0);
    EXPECT_GT(there.triples_flops, 0);
    EXPECT_EQ(there.device_triples_flops, there.triples_flops);
}
INSTANTIATE_TEST_SUITE_P(
    Molecules, CudaEnergy,
    testing::Values(Case{"h2o_stored", "h2o", "cc-pvdz", Abcd::stored, {0}, 0, 1e5},
                    Case{"h2o_direct", "h2o", "cc-pvdz", Abcd::direct, {0}, 0, 1e5},
                    Case{"h2o_three_entries", "h2o", "cc-pvdz", Abcd::stored, {0, 0, 0}, std::int64_t{256} << 20, 1e5},
                    Case{"c2h6_stored", "c2h6", "cc-pvdz", Abcd::stored, {0}, 0, 1e6},
                    Case{"c2h6_direct", "c2h6", "cc-pvdz", Abcd::direct, {0}, std::int64_t{1} << 30, 1e6}),
    [](const auto& which) { return std::string(which.param.name); });

/// Of the cores, and of a device with (T) alone: the same on one entry and on three.
std::pair<EnergyResult, EnergyResult> here_and_there(const Molecule& molecule, EnergyOptions o) {
    o.device_from = 1e18;  // (T) alone
    auto cores = energy(molecule, o);
    o.here.devices = {0};
    auto one = energy(molecule, o);
    o.here.devices = {0, 0, 0};
    const auto three = energy(molecule, o);
    EXPECT_EQ(one.ccsd, cores.ccsd);
    EXPECT_NEAR(one.triples, cores.triples, 1e-12);
    EXPECT_EQ(one.triples, three.triples);
    return {std::move(cores), std::move(one)};
}

/// (T) from B, and from stored integrals: the bits do not depend on how many entries take its pieces.
TEST(CudaEnergyOnce, TriplesHaveTheSameBitsOnAnyEntries) {
    if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    const auto molecule = read_xyz(find_shared_data("molecules/c2h6.xyz"));
    for (const auto kind : {IntegralKind::df, IntegralKind::conventional}) {
        EnergyOptions o = options_of({"", "c2h6", "def2-svp", Abcd::stored, {}, 0, 0});
        o.integrals = kind;
        const auto [cores, one] = here_and_there(molecule, o);
        EXPECT_GT(one.device_triples_flops, 0);
    }
}

/// Of the sources, or of a bundle (scripts/bundle.sh).
nlohmann::json references(const std::string& file) {
    const auto molecules = std::filesystem::canonical(find_shared_data("molecules/h2o.xyz")).parent_path();
    for (const char* up : {"../..", "../../.."})
        if (std::ifstream in(molecules / up / "tests/data" / file); in) return nlohmann::json::parse(in);
    return {};
}

/// Fitted energies of eight molecules: what other programs found; and from the same amplitudes (T) is that of the
/// cores.
TEST(CudaEnergyOnce, EightMoleculesAsPsi4AndPyscf) {
    if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    const auto all = references("df_energies.json");
    ASSERT_TRUE(all.contains("energies"));
    std::set<std::string> names;
    double farthest = 0, from_cores = 0;
    for (const auto& x : all["energies"]) {
        const auto name = x["name"].get<std::string>();
        names.insert(name);
        EnergyOptions o;
        o.integrals = IntegralKind::df;
        o.basis = x["basis"].get<std::string>();
        o.jkfit = x["jkfit"].get<std::string>();
        o.rifit = x["rifit"].get<std::string>();
        o.frozen_core = x["frozen"].get<int>() > 0;
        const auto molecule = parse_xyz(x["xyz"].get<std::string>(), name);
        const auto cores = energy(molecule, o);
        o.here.devices = {0};
        const auto there = energy(molecule, o);
        EXPECT_TRUE(there.ccsd_on_device) << name;
        o.device_from = 1e18;  // (T) alone
        const auto triples = energy(molecule, o);
        EXPECT_EQ(triples.ccsd, cores.ccsd) << name;
        EXPECT_NEAR(triples.triples, cores.triples, 1e-12) << name;
        EXPECT_EQ(triples.device_triples_flops, triples.triples_flops) << name;
        from_cores = std::max(from_cores, std::abs(triples.triples - cores.triples));
        for (const char* who : {"psi4", "pyscf"}) {
            if (!x.contains(who)) continue;
            SCOPED_TRACE(name + " " + o.basis + " " + who);
            const auto near = [&](double value, const char* part, double within) {
                const double expected = x[who][part].get<double>();
                EXPECT_NEAR(value, expected, within) << part;
                farthest = std::max(farthest, std::abs(value - expected));
            };
            near(there.rhf, "scf", 1e-8);
            near(there.mp2, "mp2", 1e-7);
            near(there.ccsd, "ccsd", 1e-7);
            near(there.triples, "t", 1e-7);
        }
    }
    EXPECT_GE(names.size(), 8U);
    std::cout << names.size() << " molecules: " << farthest << " Eh from the references at most; (T) " << from_cores
              << " Eh from that of the cores\n";
}

/// Bricks of an open shell: other ones than those of the cores, and the same on any entries.
TEST(CudaEnergyOnce, OpenShellsHaveTheirTriplesThere) {
    if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    for (const auto reference : {Reference::uhf, Reference::rohf})
        for (const char* name : {"ch3", "c2h5"}) {
            SCOPED_TRACE(std::string(name) + " " + chem::name(reference));
            const auto molecule = read_xyz(find_shared_data("molecules/" + std::string(name) + ".xyz"));
            EnergyOptions o = options_of({"", name, "def2-svp", Abcd::stored, {}, 0, 0});
            o.reference = reference;
            o.device_from = 1e18;  // (T) alone
            const auto [cores, one] = here_and_there(molecule, o);
            EXPECT_EQ(one.device_triples_flops, one.triples_flops);
            EXPECT_NEAR(one.triples_flops, cores.triples_flops, 1e-12 * cores.triples_flops);
            // Little memory: shorter bricks; less: the cores.
            o.here.devices = {0};
            o.here.device_memory = std::int64_t{64} << 20;
            EXPECT_NEAR(energy(molecule, o).triples, cores.triples, 1e-12);
            o.here.device_memory = std::int64_t{8} << 20;
            std::vector<std::string> warnings;
            o.warn = [&](const std::string& line) { warnings.push_back(line); };
            EXPECT_EQ(energy(molecule, o).triples, cores.triples);
            ASSERT_EQ(warnings.size(), 1U);
            EXPECT_NE(warnings[0].find("(T) needs"), std::string::npos) << warnings[0];
        }
}

/// A budget with room for contractions, but not for the triples.
TEST(CudaEnergyOnce, WhatDoesNotFitRunsOnTheCores) {
    if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    const auto molecule = read_xyz(find_shared_data("molecules/h2o.xyz"));
    EnergyOptions o = options_of({"", "h2o", "def2-svp", Abcd::stored, {}, 0, 0});
    const auto cores = energy(molecule, o);
    o.here.devices = {0};
    o.device_from = 1e6;
    o.here.device_memory = std::int64_t{32} << 20;
    std::vector<std::string> warnings;
    o.warn = [&](const std::string& line) { warnings.push_back(line); };
    const auto there = energy(molecule, o);
    EXPECT_NEAR(there.total, cores.total, 1e-10);
    EXPECT_GT(there.device_contractions, 0);
    EXPECT_EQ(there.device_triples_flops, 0);
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("(T) needs"), std::string::npos) << warnings[0];
    // No room for anything.
    o.here.device_memory = std::int64_t{160} << 10;
    warnings.clear();
    const auto none = energy(molecule, o);
    EXPECT_NEAR(none.total, cores.total, 1e-10);
    EXPECT_EQ(warnings.size(), 2U);
}

}  // namespace
}  // namespace tessera::chem
