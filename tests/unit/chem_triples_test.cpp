// How (T) is cut into blocks for a device, checked without one.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "chem/triples_block.hpp"
#include "chem/triples_device.hpp"
#include "chem/triples_rows.hpp"
#include "device/discovery.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {
namespace {

/// Calls use(first of c, of b, of a, elements of each, orders) for the halves of all rows.
void for_each_box(const std::vector<TriplesPart>& parts,
                  const std::function<void(const TriplesPart&, std::array<std::int64_t, 3>, std::array<std::int64_t, 3>,
                                           double)>& use) {
    for (const auto& part : parts)
        for (const auto& row : device_rows(part))
            for (int half = 0; half < 2; ++half) {
                if (row.weight[half] == 0) continue;
                std::array<std::int64_t, 3> first{8 * row.tile[0] + 4 * half, 4 * row.tile[1], 4 * row.tile[2]},
                    count{};
                bool some = true;
                for (std::size_t n = 0; n < 3; ++n) {
                    ASSERT_GE(row.tile[n], 0);
                    count[n] = std::min<std::int64_t>(4, part.extent[n] - first[n]);
                    some = some && count[n] > 0;
                }
                if (some) use(part, first, count, row.weight[half]);
            }
}

TEST(TripleRows, HaveEveryTripleOnce) {
    for (std::int64_t v = 1; v < 46; ++v)
        for (std::int64_t longest : {8, 16, 24, 48}) {
            std::map<std::array<std::int64_t, 3>, double> orders, on_cores;
            const auto parts = triples_parts(v, longest);
            for (const auto& p : parts)
                for (std::size_t n = 0; n < 3; ++n) {
                    ASSERT_LE(p.extent[n], longest);
                    ASSERT_LE(p.begin[n] + p.extent[n], v);
                }
            for_each_box(parts, [&](const TriplesPart& part, auto first, auto count, double weight) {
                for (std::int64_t c = 0; c < count[0]; ++c)
                    for (std::int64_t b = 0; b < count[1]; ++b)
                        for (std::int64_t a = 0; a < count[2]; ++a) {
                            std::array<std::int64_t, 3> t{part.begin[0] + first[0] + c, part.begin[1] + first[1] + b,
                                                          part.begin[2] + first[2] + a};
                            std::ranges::sort(t);
                            orders[t] += weight;
                        }
            });
            for (const auto& part : parts)
                for (const auto& x : core_boxes(part))
                    for (std::int64_t c = 0; c < x.extent[0]; ++c)
                        for (std::int64_t b = 0; b < x.extent[1]; ++b)
                            for (std::int64_t a = 0; a < x.extent[2]; ++a) {
                                std::array<std::int64_t, 3> t{x.begin[0] + c, x.begin[1] + b, x.begin[2] + a};
                                std::ranges::sort(t);
                                on_cores[t] += x.orders;
                            }
            EXPECT_EQ(orders, on_cores);
            EXPECT_EQ(orders.size(), static_cast<std::size_t>(v * (v + 1) * (v + 2) / 6));
            for (const auto& [t, n] : orders) {
                const int distinct = 1 + (t[0] != t[1]) + (t[1] != t[2]);
                EXPECT_EQ(n, distinct == 3 ? 6 : distinct == 2 ? 3 : 1) << t[0] << ' ' << t[1] << ' ' << t[2];
            }
        }
}

/// Few are on the diagonal or past the end: what the rows cost beyond the triples.
TEST(TripleRows, AreFew) {
    for (std::int64_t v : {93, 169, 249, 329}) {
        const auto parts = triples_parts(v, 512);
        ASSERT_EQ(parts.size(), 1U);
        const auto up = static_cast<double>((v + 3) / 4 * 4);
        EXPECT_LT(128.0 * static_cast<double>(device_rows(parts[0]).size()), 1.01 * up * (up + 4) * (up + 8) / 6) << v;
    }
}

TEST(TripleRows, ComeInChunksThatHaveEachOnce) {
    std::vector<std::vector<device::OrbitRow>> rows;
    for (const auto& p : triples_parts(169, 64)) rows.push_back(device_rows(p));
    std::size_t part = 0;
    std::int64_t at = 0;
    for (const auto& c : triples_chunks(rows, 25, 169)) {
        if (c.part != part) {
            EXPECT_EQ(at, static_cast<std::int64_t>(rows[part].size()));
            ++part;
            at = 0;
        }
        ASSERT_EQ(c.part, part);
        EXPECT_EQ(c.first, at);
        EXPECT_GT(c.count, 0);
        at += c.count;
    }
    EXPECT_EQ(part + 1, rows.size());
    EXPECT_EQ(at, static_cast<std::int64_t>(rows[part].size()));
}

TEST(TripleRows, AreSummedInATree) {
    EXPECT_EQ(tree_sum({}), 0);
    const double x[] = {1e16, 1, -1e16, 1, 1};
    EXPECT_EQ(tree_sum(x), (1e16 + 1 + -1e16) + (1.0 + 1));
}

TEST(TripleRows, GiveTheEnergyOfTheTextbook) {
    for (const auto& [o, v] : {std::pair<std::int64_t, std::int64_t>{3, 5}, {5, 12}, {4, 19}}) {
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
            double sum = 0, with_panels = 0;
            const kernels::FusedOptions one{.threads = 1};
            const auto add = [&](std::array<std::int64_t, 3> first, const std::array<std::int64_t, 3>& count,
                                 double weight, const VirtualPanels* panels, double& to) {
                kernels::ClosedShellBlock block;
                triples_block(x, first, count, block, panels);
                block.epilogue.scale *= weight;
                to += kernels::fused_energy(block.extents, block.terms, block.epilogue, one);
            };
            const auto parts = triples_parts(v, longest);
            for_each_box(parts, [&](const TriplesPart& part, auto first, const auto& count, double weight) {
                for (std::size_t n = 0; n < 3; ++n) first[n] += part.begin[n];
                add(first, count, weight, nullptr, sum);
            });
            for (const auto& part : parts) {
                std::vector<double> panel[3][3];
                VirtualPanels panels;
                panels.first = part.begin;
                panels.extent = part.extent;
                for (std::size_t p = 0; p < 3; ++p)
                    for (std::size_t q = 0; q < 3; ++q) {
                        for (std::int64_t k = 0; k < o; ++k)
                            for (std::int64_t c = 0; c < part.extent[p]; ++c)
                                for (std::int64_t a = 0; a < part.extent[q]; ++a)
                                    for (std::int64_t d = 0; d < v; ++d)
                                        panel[p][q].push_back(
                                            ovvv[((k * v + part.begin[p] + c) * v + part.begin[q] + a) * v + d]);
                        panels.at[p][q] = panel[p][q].data();
                    }
                for (const auto& box : core_boxes(part)) add(box.begin, box.extent, box.orders, &panels, with_panels);
            }
            EXPECT_NEAR(with_panels, expected, 1e-11 * std::abs(expected)) << o << ' ' << v;
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
TEST(TripleRows, BytesGrowWithTheBlock) {
    EXPECT_LT(device_triples_bytes(13, 93, 0, 8, 132), device_triples_bytes(13, 93, 0, 16, 132));
    EXPECT_LT(device_triples_bytes(13, 93, 0, 16, 132), device_triples_bytes(13, 93, 300, 16, 132));
    EXPECT_LT(device_triples_bytes(13, 93, 0, 16, 132), device_triples_bytes(13, 120, 0, 16, 132));
    EXPECT_LT(device_triples_bytes(13, 93, 0, 16, 132), device_triples_bytes(20, 93, 0, 16, 132));
    EXPECT_GT(device_triples_bytes(100, 1000, 0, 8, 132), 8.0 * 4 * 1e9);
}

}  // namespace
}  // namespace tessera::chem
