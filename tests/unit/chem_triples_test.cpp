// How (T) is cut into blocks for a device, checked without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "chem/triples_device.hpp"
#include "device/discovery.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {
namespace {

TEST(TripleBlocks, HaveEveryTripleOnce) {
    for (std::int64_t o = 1; o < 22; ++o)
        for (std::int64_t longest : {8, 16, 32}) {
            std::map<std::array<std::int64_t, 3>, double> orders;
            for (const auto& b : device_blocks(o, longest)) {
                ASSERT_LE(b.k.extent, longest);
                for (auto k = b.k.begin; k < b.k.begin + b.k.extent; ++k)
                    for (auto j = b.j.begin; j < b.j.begin + b.j.extent; ++j)
                        for (auto i = b.i.begin; i < b.i.begin + b.i.extent; ++i) {
                            std::array<std::int64_t, 3> t{k, j, i};
                            std::ranges::sort(t);
                            orders[t] += b.orders;
                        }
            }
            EXPECT_EQ(orders.size(), static_cast<std::size_t>(o * (o + 1) * (o + 2) / 6));
            for (const auto& [t, n] : orders) {
                const int distinct = 1 + (t[0] != t[1]) + (t[1] != t[2]);
                EXPECT_EQ(n, distinct == 3 ? 6 : distinct == 2 ? 3 : 1) << t[0] << ' ' << t[1] << ' ' << t[2];
            }
        }
}

TEST(TripleBlocks, GiveTheEnergyOfTheTextbook) {
    for (const auto& [o, v] : {std::pair<std::int64_t, std::int64_t>{3, 5}, {9, 4}, {6, 7}}) {
        std::mt19937_64 random(7);
        std::uniform_real_distribution<double> uniform(-1, 1);
        const auto fill = [&](std::int64_t n) {
            std::vector<double> x(static_cast<std::size_t>(n));
            for (auto& e : x) e = uniform(random);
            return x;
        };
        // Amplitudes and integrals with the symmetries of real ones: the orders of i, j, k are the same by them.
        auto t1 = fill(o * v), t2 = fill(o * o * v * v), ovov = fill(o * v * o * v), ovvv = fill(o * v * v * v),
             ooov = fill(o * o * o * v), eo = fill(o), ev = fill(v);
        for (auto& e : eo) e -= 3;
        for (auto& e : ev) e += 3;
        for (std::int64_t i = 0; i < o; ++i)
            for (std::int64_t j = 0; j < o; ++j)
                for (std::int64_t a = 0; a < v; ++a)
                    for (std::int64_t b = 0; b < v; ++b) {
                        t2[((i * o + j) * v + a) * v + b] = t2[((j * o + i) * v + b) * v + a];
                        ovov[((i * v + a) * o + j) * v + b] = ovov[((j * v + b) * o + i) * v + a];
                        for (std::int64_t c = 0; c < v; ++c)
                            ovvv[((i * v + a) * v + b) * v + c] = ovvv[((i * v + a) * v + c) * v + b];
                        for (std::int64_t k = 0; k < o; ++k)
                            ooov[((i * o + j) * o + k) * v + a] = ooov[((j * o + i) * o + k) * v + a];
                    }
        kernels::ClosedShellTensors x{o,           v,           t1.data(), t2.data(), ovov.data(),
                                      ovvv.data(), ooov.data(), eo.data(), ev.data()};
        const auto fock = fill(o * v);
        if (v % 2 == 0) x.fock = fock.data();  // of orbitals that are not Hartree-Fock's
        const double expected = kernels::ref::closed_shell_triples(x);
        for (std::int64_t longest : {8, 16}) {
            double sum = 0;
            for (const auto& b : device_blocks(o, longest)) {
                kernels::ClosedShellBlock block;
                kernels::closed_shell_block(x, {b.k.begin, b.j.begin, b.i.begin}, {b.k.extent, b.j.extent, b.i.extent},
                                            block);
                block.epilogue.scale *= b.orders;
                sum += kernels::fused_energy(block.extents, block.terms, block.epilogue);
            }
            EXPECT_NEAR(sum, expected, 1e-11 * std::abs(expected)) << o << ' ' << v;
        }
    }
}

/// Known before any work.
TEST(EnergyDevices, ThatAreNotThereAreRefusedAtOnce) {
    EnergyOptions o;
    o.here.devices = {device::count()};
    o.log = [](const std::string& line) { FAIL() << line; };
    EXPECT_THROW(energy(parse_xyz("2\n\nH 0 0 0\nH 0 0 0.74\n", "h2"), o), BackendUnavailable);
}

/// What fits must really fit, so the bound grows with everything.
TEST(TripleBlocks, BytesGrowWithTheBlock) {
    EXPECT_LT(device_triples_bytes(13, 93, 8, 132), device_triples_bytes(13, 93, 16, 132));
    EXPECT_LT(device_triples_bytes(13, 93, 16, 132), device_triples_bytes(13, 120, 16, 132));
    EXPECT_LT(device_triples_bytes(13, 93, 16, 132), device_triples_bytes(20, 93, 16, 132));
    EXPECT_GT(device_triples_bytes(100, 1000, 8, 132), 8.0 * 100 * 1e9);
}

}  // namespace
}  // namespace tessera::chem
