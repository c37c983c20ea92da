// The fused contraction on a device against the plain loops on the host. Skips itself where there is no device.
#include "device/fused.hpp"

#include <gtest/gtest.h>

#include "device/cuda/triples_device.hpp"
#include "device/cuda/triples_mirror.hpp"
#include "support/leak_check.hpp"
#include "tessera/base/error.hpp"
#include "triples_cases.hpp"

namespace tessera::kernels {
namespace {

using namespace triples_cases;

class CudaTriples : public testing::Test {
  protected:
    void SetUp() override {
        if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    }
};

/// before, then what the device makes of it.
std::vector<double> run(const Case& c, FusedOutput out, const std::vector<double>& before, std::int64_t back) {
    const cuda::Mirror mirror(c.storage);
    const auto terms = mirror(std::span<const FusedTerm>(c.terms));
    const cuda::DeviceBuffer memory(before.size() * sizeof(double));
    cuda::copy_to_device(memory.data(), before.data(), before.size() * sizeof(double));
    out.data = static_cast<double*>(memory.data()) + back;
    const cuda::DeviceFused fused(c.extents, terms, out);
    fused.run();
    std::vector<double> got(before.size());
    cuda::copy_to_host(got.data(), memory.data(), got.size() * sizeof(double));
    return got;
}

/// Largest difference over the largest value.
double error(const std::vector<double>& got, const std::vector<double>& want) {
    double worst = 0, scale = 1e-300;
    for (std::size_t n = 0; n < want.size(); ++n) {
        if (std::isnan(want[n]) && std::isnan(got[n])) continue;
        if (!(std::abs(got[n] - want[n]) <= 1e300)) return INFINITY;
        worst = std::max(worst, std::abs(got[n] - want[n]));
        scale = std::max(scale, std::abs(want[n]));
    }
    return worst / scale;
}

TEST_F(CudaTriples, EighteenTermsMatchTheLoops) {
    Random random(21);
    const std::vector<BlockExtents> list{{1, 1, 1, 1, 1, 1},  {8, 8, 8, 4, 2, 2},  {7, 5, 3, 2, 3, 5},
                                         {16, 3, 2, 5, 4, 3}, {3, 16, 2, 9, 1, 4}, {1, 1, 17, 1, 13, 2},
                                         {2, 3, 5, 7, 11, 2}, {9, 8, 7, 6, 5, 4}};
    for (const BlockExtents& extents : list)
        for (int repeat = 0; repeat < 4; ++repeat) {
            const Case c = eighteen(extents, pick(random, {1, 4, 7, 16}), pick(random, {1, 5, 19, 40}), random);
            for (bool accumulate : {false, true}) {
                const std::vector<double> before(static_cast<std::size_t>(c.volume()), accumulate ? 0.25 : NAN);
                std::vector<double> want = before;
                FusedOutput out{want.data(), packed_strides(c.extents), accumulate};
                ref::fused_contract(c.extents, c.terms, out);
                EXPECT_LT(error(run(c, out, before, 0), want), 1e-12);
            }
        }
}

TEST_F(CudaTriples, AnyTermsAnyStridesAnyExtents) {
    Random random(22);
    for (int trial = 0; trial < 80; ++trial) {
        const StridedCase s(3, random);
        const auto want = s.after([&](const FusedOutput& out) { ref::fused_contract(s.c.extents, s.c.terms, out); });
        EXPECT_LT(error(run(s.c, s.out, s.before, s.back), want), 1e-12) << "trial " << trial;
    }
}

double device_energy(const BlockExtents& extents, std::span<const FusedTerm> terms, const EnergyEpilogue& epilogue,
                     const cuda::Mirror& mirror, bool must_walk = false) {
    EnergyEpilogue e = epilogue;
    const auto singles = mirror(epilogue.singles);
    e.singles = singles;
    for (auto& list : e.orbital_energies) list = mirror(list);
    const auto moved = mirror(terms);
    const cuda::DeviceFused fused(extents, moved, e);
    if (must_walk && cuda::walks_here()) {
        EXPECT_NE(fused.description().find("walks"), std::string::npos) << fused.description();
    }
    fused.run();
    const double first = fused.energy();
    fused.run();
    EXPECT_EQ(fused.energy(), first) << "two runs differ";
    return first;
}

TEST_F(CudaTriples, EnergiesMatchTheStoredTensor) {
    Random random(23);
    for (int trial = 0; trial < 24; ++trial) {
        const std::int64_t v = pick(random, {1, 3, 8, 9, 11, 17});
        const BlockExtents extents{pick(random, {1, 3, 8}), pick(random, {1, 2, 5}), pick(random, {1, 2, 4}), v, v, v};
        Case c = eighteen(extents, pick(random, {1, 6}), pick(random, {2, 9}), random);
        if (trial % 4 == 3) c.singles.clear();
        cuda::Mirror mirror(c.storage);
        for (const auto& e : c.energies) mirror.add(e);
        for (TripleWeights weights : {TripleWeights::spin_orbital, TripleWeights::closed_shell}) {
            const EnergyEpilogue epilogue = c.epilogue(weights, 0.7);
            const double want = ref::fused_energy(c.extents, c.terms, epilogue);
            const double got = device_energy(c.extents, c.terms, epilogue, mirror);
            EXPECT_NEAR(got, want, 1e-12 * std::max(1.0, std::abs(want)))
                << "trial " << trial << (weights == TripleWeights::closed_shell ? " closed" : " spin");
        }
    }
}

/// More tiles than a device holds at once, ragged ones among them, and not all of the disconnected terms.
TEST_F(CudaTriples, BlocksWalkOverManyTiles) {
    Random random(26);
    const BlockExtents extents{9, 5, 5, 13, 14, 13};
    Case c = eighteen(extents, 3, 20, random);
    const std::vector<double> before(static_cast<std::size_t>(c.volume()), NAN);
    const auto check = [&] {
        std::vector<double> want = before;
        FusedOutput out{want.data(), packed_strides(c.extents), false};
        ref::fused_contract(c.extents, c.terms, out);
        EXPECT_LT(error(run(c, out, before, 0), want), 1e-12) << c.terms.size() << " terms";
    };
    check();
    // Some of the nine splits.
    std::vector<FusedTerm> all = c.terms;
    for (int trial = 0; trial < 8; ++trial) {
        std::shuffle(all.begin(), all.end(), random);
        c.terms.assign(all.begin(), all.begin() + 4 + 2 * trial % 14);
        check();
    }
    c.terms = all;

    for (int kept : {9, 6, 1}) {
        c.singles.resize(static_cast<std::size_t>(kept));
        std::swap(c.singles.front(), c.singles.back());
        cuda::Mirror mirror(c.storage);
        for (const auto& e : c.energies) mirror.add(e);
        const EnergyEpilogue epilogue = c.epilogue(TripleWeights::spin_orbital, 0.3);
        const double energy = ref::fused_energy(c.extents, c.terms, epilogue);
        EXPECT_NEAR(device_energy(c.extents, c.terms, epilogue, mirror, true), energy, 1e-12 * std::abs(energy))
            << kept;
    }
}

/// One list of energies for a, b and c, as in a molecule: orbits of six, three and one tile, any of the nine splits,
/// any of the disconnected terms.
TEST_F(CudaTriples, ClosedShellBlocksWalkOverOrbits) {
    Random random(29);
    for (int trial = 0; trial < 25; ++trial) {
        const std::int64_t v = pick(random, {1, 4, 7, 12, 14, 17});
        BlockExtents extents{pick(random, {1, 9, 16}), pick(random, {1, 4, 5}), pick(random, {2, 4}), v, v, v};
        std::int64_t occupied = pick(random, {1, 6, 24}), virtuals = pick(random, {2, 9, 40});
        if (trial == 24) {  // 630 orbits: more than a device has thread blocks for
            extents = {16, 9, 9, 17, 17, 17};
            occupied = 1;
            virtuals = 2;
        }
        Case c = eighteen(extents, occupied, virtuals, random);
        std::shuffle(c.terms.begin(), c.terms.end(), random);
        std::shuffle(c.singles.begin(), c.singles.end(), random);
        if (trial % 2 == 1) c.terms.resize(1 + random() % 17);
        if (trial % 3 == 1) c.singles.resize(random() % 9);
        cuda::Mirror mirror(c.storage);
        for (const auto& e : c.energies) mirror.add(e);
        EnergyEpilogue epilogue = c.epilogue(TripleWeights::closed_shell, 0.7);
        epilogue.orbital_energies[3] = epilogue.orbital_energies[5] = epilogue.orbital_energies[4];
        const double want = ref::fused_energy(c.extents, c.terms, epilogue);
        EXPECT_NEAR(device_energy(c.extents, c.terms, epilogue, mirror, c.terms.size() == 18), want,
                    1e-12 * std::max(1.0, std::abs(want)))
            << "trial " << trial << ", " << v << " virtuals, " << c.terms.size() << " terms, " << c.singles.size()
            << " disconnected";
    }
}

TEST_F(CudaTriples, ClosedShellBlocksSumToTheFormula) {
    Random random(24);
    const Molecule m(5, 10, random);
    const double want = ref::closed_shell_triples(m.tensors());
    cuda::Mirror mirror;
    for (const auto* v : {&m.t1, &m.t2, &m.ovov, &m.ovvv, &m.ooov, &m.eo, &m.ev}) mirror.add(*v);
    double sum = 0;
    ClosedShellBlock block;
    const std::int64_t begin[] = {0, 2}, extent[] = {2, 3};
    for (int k = 0; k < 2; ++k)
        for (int j = 0; j <= k; ++j)
            for (int i = 0; i <= j; ++i) {
                closed_shell_block(m.tensors(), {begin[k], begin[j], begin[i]}, {extent[k], extent[j], extent[i]},
                                   block);
                block.epilogue.scale *= k == i ? 1 : (k == j || j == i) ? 3 : 6;
                sum += device_energy(block.extents, block.terms, block.epilogue, mirror);
            }
    EXPECT_NEAR(sum, want, 1e-11 * std::abs(want));
}

TEST_F(CudaTriples, DenominatorsOfZeroAreNamed) {
    Random random(27);
    // Three lists for a, b and c, or one.
    for (auto [weights, one] : {std::pair{TripleWeights::spin_orbital, false},
                                {TripleWeights::closed_shell, false},
                                {TripleWeights::closed_shell, true}}) {
        Case c = eighteen({9, 4, 2, 5, 5, 5}, 2, 3, random);
        EnergyEpilogue epilogue = c.epilogue(weights, 1);
        if (one) epilogue.orbital_energies[3] = epilogue.orbital_energies[5] = epilogue.orbital_energies[4];
        const double energy[] = {2, -1, 3, 5, -2, 1};
        const std::int64_t at[] = {8, 3, 1, 4, 0, 2};
        for (int n = 0; n < 6; ++n) const_cast<double*>(epilogue.orbital_energies[n])[at[n]] = energy[n];
        cuda::Mirror mirror(c.storage);
        for (const auto& e : c.energies) mirror.add(e);
        try {
            device_energy(c.extents, c.terms, epilogue, mirror);
            FAIL() << "an energy over zero";
        } catch (const UserError& e) {
            // One list: a, b and c in any order.
            EXPECT_NE(std::string(e.what()).find(one ? "k 8, j 3, i 1, c" : "k 8, j 3, i 1, c 4, b 0, a 2 is 0"),
                      std::string::npos)
                << e.what();
        }
    }
}

TEST_F(CudaTriples, InfiniteOrbitalEnergiesAndNoRun) {
    Random random(28);
    for (TripleWeights weights : {TripleWeights::spin_orbital, TripleWeights::closed_shell}) {
        Case c = eighteen({9, 4, 2, 5, 5, 5}, 2, 3, random);
        c.energies[4][3] = INFINITY;
        const EnergyEpilogue epilogue = c.epilogue(weights, 1);
        cuda::Mirror mirror(c.storage);
        for (const auto& e : c.energies) mirror.add(e);
        EXPECT_THROW(device_energy(c.extents, c.terms, epilogue, mirror), UserError);
    }
    const Case c = eighteen({9, 4, 2, 5, 5, 5}, 2, 3, random);
    cuda::Mirror mirror(c.storage);
    for (const auto& e : c.energies) mirror.add(e);
    EnergyEpilogue e = c.epilogue(TripleWeights::spin_orbital, 1);
    e.singles = {};
    for (auto& list : e.orbital_energies) list = mirror(list);
    EXPECT_THROW(cuda::DeviceFused(c.extents, mirror(std::span<const FusedTerm>(c.terms)), e).energy(), UserError);
}

TEST_F(CudaTriples, WrongInputIsAUserError) {
    Random random(25);
    const Case c = eighteen({3, 2, 2, 2, 3, 2}, 2, 3, random);
    const cuda::Mirror mirror(c.storage);
    auto terms = mirror(std::span<const FusedTerm>(c.terms));
    const cuda::DeviceBuffer memory(static_cast<std::size_t>(c.volume()) * sizeof(double));
    const FusedOutput out{static_cast<double*>(memory.data()), packed_strides(c.extents), false};
    EXPECT_NO_THROW(cuda::DeviceFused(c.extents, terms, out));
    BlockExtents wrong = c.extents;
    wrong[1] = 0;
    EXPECT_THROW(cuda::DeviceFused(wrong, terms, out), UserError);
    // Sums whose packed operands no address reaches.
    auto endless = terms;
    for (FusedTerm& t : endless) {
        t.sum_extent = INT32_MAX / 4;
        t.a.sum_stride = t.b.sum_stride = 0;
    }
    EnergyEpilogue epilogue;
    epilogue.orbital_energies.fill(out.data);  // not read: there is no run
    EXPECT_THROW(cuda::DeviceFused({512, 512, 512, 512, 512, 512}, endless, epilogue), UserError);
    terms[4].a.data = nullptr;
    EXPECT_THROW(cuda::DeviceFused(c.extents, terms, out), UserError);
    terms[4].a.data = out.data + 1;
    EXPECT_THROW(cuda::DeviceFused(c.extents, terms, out), UserError);
    EXPECT_THROW(cuda::DeviceFused(c.extents, mirror(std::span<const FusedTerm>(c.terms)), out).energy(), UserError);
}

}  // namespace
}  // namespace tessera::kernels
