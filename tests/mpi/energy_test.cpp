// The energy of a molecule on many ranks is that of one.
#include <gtest/gtest.h>

#include "support/back_end.hpp"
#include "support/ranks_folder.hpp"
#include "tessera/chem/energy.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::chem {
namespace {

Molecule water() { return parse_xyz("3\n\nO 0 0 0.1173\nH 0 0.7572 -0.4692\nH 0 -0.7572 -0.4692\n", "water"); }

/// Far enough apart that integrals across are small.
Molecule two_hydrogens() { return parse_xyz("4\n\nH 0 0 0\nH 0 0 0.74\nH 0 0 4\nH 0 0 4.74\n", "h4"); }

struct Way {
    const char* name;
    Molecule molecule;
    Abcd abcd;
    double screen;
    IntegralKind integrals = IntegralKind::conventional;
};
class RanksEnergy : public ::testing::TestWithParam<Way> {};

TEST_P(RanksEnergy, IsThatOfOneRank) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    EnergyOptions o;
    o.frozen_core = true;
    o.abcd = GetParam().abcd;
    o.screen = GetParam().screen;
    o.integrals = GetParam().integrals;
    o.converge = 1e-9;
    o.here.threads = 1;
    o.tile = 8;  // several tiles of every index, so that there is something to deal out
    const auto alone = energy(GetParam().molecule, o);
    o.here.communicator = &mpi_world();
    o.share_from = 1e4;  // these have no contraction that pays
    if (tessera::testing::on_device) {
        o.here.devices = {0};
        o.device_from = 1e4;
        o.here.device_memory = std::int64_t{512} << 20;
    }
    const auto shared = energy(GetParam().molecule, o);
    EXPECT_EQ(shared.device_contractions > 0, tessera::testing::on_device);
    EXPECT_EQ(shared.device_triples_flops, tessera::testing::on_device ? shared.triples_flops : 0);
    EXPECT_NEAR(shared.rhf, alone.rhf, 1e-10);
    EXPECT_NEAR(shared.mp2, alone.mp2, 1e-10);
    EXPECT_NEAR(shared.ccsd, alone.ccsd, 1e-10);
    if (tessera::testing::on_device)
        EXPECT_NEAR(shared.triples, alone.triples, 1e-10);
    else
        EXPECT_EQ(shared.triples, alone.triples);
    EXPECT_NEAR(shared.total, alone.total, 1e-10);
    EXPECT_NEAR(shared.screen_change, alone.screen_change, 1e-10);
    EXPECT_EQ(shared.iterations, alone.iterations);
    EXPECT_EQ(shared.v_tiles, alone.v_tiles);
    EXPECT_EQ(alone.v_tiles_made<alone.v_tiles, o.screen> 0);
    // Every rank has the result, not rank 0 alone.
    double sum[] = {shared.total};
    mpi_world().sum(std::span<double>(sum));
    EXPECT_NEAR(sum[0], mpi_world().size() * shared.total, 1e-11);
}
INSTANTIATE_TEST_SUITE_P(Ways, RanksEnergy,
                         ::testing::Values(Way{"stored", water(), Abcd::stored, 0},
                                           Way{"direct", water(), Abcd::direct, 0},
                                           Way{"screened", two_hydrogens(), Abcd::direct, 1e-5},
                                           Way{"fitted", water(), Abcd::stored, 0, IntegralKind::df}),
                         [](const auto& which) { return std::string(which.param.name); });

#ifndef TESSERA_TEST_ON_DEVICE
TEST(RanksEnergyOnce, OpenShellsHaveTheBitsOfOneRank) {
    const auto methyl = parse_xyz("4\n\nC 0 0 0\nH 0 1.079 0\nH 0.934441 -0.5395 0\nH -0.934441 -0.5395 0\n", "methyl");
    for (const auto reference : {Reference::uhf, Reference::rohf}) {
        EnergyOptions o;
        o.reference = reference;
        o.here.threads = 1;
        o.tile = 8;
        const auto alone = energy(methyl, o);
        o.here.communicator = &mpi_world();
        o.share_from = 1e4;
        const auto shared = energy(methyl, o);
        EXPECT_EQ(shared.rhf, alone.rhf);
        EXPECT_EQ(shared.mp2, alone.mp2);
        EXPECT_EQ(shared.ccsd, alone.ccsd);
        EXPECT_EQ(shared.triples, alone.triples);
        EXPECT_EQ(shared.iterations, alone.iterations);
    }
}

/// What has three indices is dealt: each rank holds less of it, and the sums are those of one rank to the bit.
TEST(RanksEnergyOnce, RiMp2HasTheBitsOfOneRankAndLessOnEach) {
    const auto ethane = parse_xyz(
        "8\n\nC 0 0 0.765\nC 0 0 -0.765\nH 1.0165 0 1.1573\nH -0.5083 0.8803 1.1573\nH -0.5083 -0.8803 1.1573\n"
        "H -1.0165 0 -1.1573\nH 0.5083 -0.8803 -1.1573\nH 0.5083 0.8803 -1.1573\n",
        "ethane");
    EnergyOptions o;
    o.method = Method::ri_mp2;
    o.here.threads = 1;
    const auto alone = energy(ethane, o);
    o.here.communicator = &mpi_world();
    const auto shared = energy(ethane, o);
    EXPECT_EQ(shared.mp2, alone.mp2);
    EXPECT_EQ(shared.rhf, alone.rhf);
    EXPECT_EQ(shared.fitted_tiles_kept, alone.fitted_tiles_kept);
    if (mpi_world().size() >= 2) {
        EXPECT_LT(shared.rank_bytes, 0.9 * static_cast<double>(alone.rank_bytes));
        // Before, while the Hartree-Fock iterations last, each rank holds its slices of the fitted integrals.
        EXPECT_LT(shared.memory_estimate, alone.memory_estimate);
    }
    o.here.threads = 2;
    EXPECT_EQ(energy(ethane, o).mp2, alone.mp2);
}
#endif

TEST(RanksEnergyOnce, ACheckpointServesAnyNumberOfRanks) {
    EnergyOptions o;
    o.basis = "sto-3g";
    o.method = Method::ccsd;
    o.here.threads = 1;
    const auto whole = energy(water(), o);
    const tessera::testing::RanksFolder folder;
    o.checkpoint = folder / "t.h5";
    o.here.communicator = &mpi_world();
    o.share_from = 1e3;
    o.converge = 1e-3;
    const auto first = energy(water(), o);
    EXPECT_EQ(first.iterations_before, 0);
    mpi_world().barrier();
    o.converge = 1e-8;
    const auto second = energy(water(), o);
    EXPECT_EQ(second.iterations_before, first.iterations);
    EXPECT_NEAR(second.ccsd, whole.ccsd, 1e-8);
    // What rank 0 finds wrong with a file is everyone's error.
    o.frozen_core = true;
    EXPECT_THROW(energy(water(), o), UserError);
    o.checkpoint = folder / "none/t.h5";
    EXPECT_THROW(energy(water(), o), UserError);
}

}  // namespace
}  // namespace tessera::chem
