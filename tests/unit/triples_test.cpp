#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tessera/base/error.hpp"
#include "tessera/kernels/triples.hpp"
#include "triples_cases.hpp"

namespace tessera::kernels {
namespace {

using namespace triples_cases;

std::vector<double> run(const Case& c, const FusedOptions& options, bool accumulate) {
    std::vector<double> out(static_cast<std::size_t>(c.volume()), accumulate ? 0.25 : NAN);
    fused_contract(c.extents, c.terms, {out.data(), packed_strides(c.extents), accumulate}, options);
    return out;
}

std::vector<double> expected(const Case& c, bool accumulate) {
    std::vector<double> out(static_cast<std::size_t>(c.volume()), accumulate ? 0.25 : NAN);
    ref::fused_contract(c.extents, c.terms, {out.data(), packed_strides(c.extents), accumulate});
    return out;
}

bool same_bits(const std::vector<double>& x, const std::vector<double>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 8) == 0;
}

const Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512};

TEST(Triples, EighteenTermsMatchTheLoopsBitForBit) {
    Random random(1);
    const std::vector<BlockExtents> list{{1, 1, 1, 1, 1, 1},  {8, 4, 4, 4, 4, 4},  {7, 5, 3, 2, 3, 5},
                                         {16, 3, 2, 5, 4, 3}, {3, 16, 2, 9, 1, 4}, {1, 1, 17, 1, 13, 2},
                                         {2, 3, 5, 7, 11, 2}, {9, 8, 7, 6, 5, 4}};
    for (const BlockExtents& extents : list) {
        const Case c = eighteen(extents, pick(random, {1, 4, 7}), pick(random, {1, 5, 19}), random);
        for (bool accumulate : {false, true}) {
            const auto want = expected(c, accumulate);
            for (Isa isa : kIsas)
                for (int threads : {1, 2, 5}) {
                    FusedOptions options;
                    options.isa = isa;
                    options.threads = threads;
                    EXPECT_TRUE(same_bits(run(c, options, accumulate), want)) << name(isa) << " threads " << threads;
                }
        }
    }
}

TEST(Triples, AnyTermsAnyStridesAnyExtents) {
    Random random(2);
    FusedWorkspace workspace;
    for (int trial = 0; trial < 60; ++trial) {
        const StridedCase s(5, random);
        const auto want = s.after([&](const FusedOutput& out) { ref::fused_contract(s.c.extents, s.c.terms, out); });
        FusedOptions options;
        options.isa = kIsas[random() % 3];
        options.threads = 1 + static_cast<int>(random() % 3);
        options.workspace = trial % 2 == 0 ? &workspace : nullptr;
        options.register_tiles = trial % 3 != 0;
        const auto got = s.after([&](const FusedOutput& out) { fused_contract(s.c.extents, s.c.terms, out, options); });
        EXPECT_TRUE(same_bits(got, want)) << "trial " << trial;
    }
}

/// Rows that begin on cache lines and end off them: the last row's store must not read past the block
/// (AddressSanitizer).
TEST(Triples, RowsWithPaddingEndWhereTheyEnd) {
    Random random(31);
    for (std::int64_t k = 1; k <= 9; ++k) {
        const Case c = eighteen({k, 4, 4, 4, 4, 4}, 3, 2, random);
        const std::int64_t row = (k + 7) / 8 * 8;
        const std::array<std::int64_t, kBlockRank> strides{1, row, 4 * row, 16 * row, 64 * row, 256 * row};
        const std::size_t size = static_cast<std::size_t>(1024 * row);
        struct Free {
            void operator()(double* p) const { std::free(p); }
        };
        std::unique_ptr<double[], Free> want(static_cast<double*>(std::aligned_alloc(64, 8 * size)));
        std::unique_ptr<double[], Free> got(static_cast<double*>(std::aligned_alloc(64, 8 * size)));
        std::fill_n(want.get(), size, 7.0);
        std::fill_n(got.get(), size, 7.0);
        ref::fused_contract(c.extents, c.terms, {want.get(), strides, false});
        for (Isa isa : kIsas) {
            FusedOptions options;
            options.isa = isa;
            fused_contract(c.extents, c.terms, {got.get(), strides, false}, options);
            EXPECT_EQ(std::memcmp(want.get(), got.get(), 8 * size), 0) << "k " << k;
        }
    }
}

TEST(Triples, ASumInPiecesIsMoreTerms) {
    Random random(3);
    Case c = eighteen({9, 4, 5, 4, 6, 3}, 23, 100, random);
    Case pieces = eighteen({1, 1, 1, 1, 1, 1}, 1, 1, random);
    pieces.extents = c.extents;
    pieces.terms.clear();
    for (const FusedTerm& whole : c.terms) {
        std::int64_t begin = 0;
        for (std::int64_t cut : {whole.sum_extent / 3, whole.sum_extent / 2, whole.sum_extent}) {
            FusedTerm part = whole;
            part.a.data += begin * part.a.sum_stride;
            part.b.data += begin * part.b.sum_stride;
            part.sum_extent = cut - begin;
            pieces.terms.push_back(part);
            begin = cut;
        }
    }
    const auto whole = run(c, {}, false);
    EXPECT_TRUE(same_bits(run(pieces, {}, false), whole));
    EXPECT_TRUE(same_bits(whole, expected(c, false)));
}

TEST(Triples, NoTermsClearOrKeepTheOutput) {
    Case c;
    c.extents = {3, 2, 1, 2, 3, 4};
    EXPECT_EQ(run(c, {}, false), std::vector<double>(144, 0.0));
    EXPECT_EQ(run(c, {}, true), std::vector<double>(144, 0.25));
}

TEST(Triples, LargerBlockAgainstSampledElements) {
    Random random(4);
    Case c = eighteen({20, 13, 12, 17, 8, 9}, 40, 70, random);
    const auto got = run(c, {}, false);
    const auto stride = packed_strides(c.extents);
    for (int s = 0; s < 2000; ++s) {
        BlockExtents x{};
        std::int64_t at = 0;
        for (int n = 0; n < kBlockRank; ++n) {
            x[n] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.extents[n]));
            at += x[n] * stride[n];
        }
        EXPECT_EQ(got[static_cast<std::size_t>(at)], ref::fused_element(c.terms, x));
    }
}

TEST(TriplesEnergy, MatchesTheWeightsOnTheStoredTensor) {
    Random random(5);
    for (int trial = 0; trial < 12; ++trial) {
        const std::int64_t v = pick(random, {1, 2, 3, 5, 6, 9});
        BlockExtents extents{
            pick(random, {1, 3, 8, 9}), pick(random, {1, 2, 4, 5}), pick(random, {1, 2, 3, 6}), v, v, v};
        Case c = eighteen(extents, pick(random, {1, 6}), pick(random, {2, 9}), random);
        if (trial % 4 == 3) c.singles.clear();
        for (TripleWeights weights : {TripleWeights::spin_orbital, TripleWeights::closed_shell}) {
            const EnergyEpilogue epilogue = c.epilogue(weights, 0.7);
            const double want = ref::fused_energy(c.extents, c.terms, epilogue);
            for (Isa isa : kIsas) {
                double first = 0;
                for (int threads : {1, 2, 3, 7}) {
                    FusedOptions options;
                    options.isa = isa;
                    options.threads = threads;
                    const double got = fused_energy(c.extents, c.terms, epilogue, options);
                    EXPECT_NEAR(got, want, 1e-12 * std::max(1.0, std::abs(want)));
                    if (threads == 1) first = got;
                    EXPECT_EQ(got, first) << "the order of the sum depends on the thread count";
                }
            }
        }
    }
}

TEST(TriplesEnergy, SpinOrbitalWeightsTakeUnequalVirtualRanges) {
    Random random(6);
    const Case c = eighteen({5, 4, 3, 7, 2, 9}, 5, 6, random);
    const EnergyEpilogue epilogue = c.epilogue(TripleWeights::spin_orbital, 1.0 / 36);
    const double want = ref::fused_energy(c.extents, c.terms, epilogue);
    EXPECT_NEAR(fused_energy(c.extents, c.terms, epilogue), want, 1e-12 * std::max(1.0, std::abs(want)));
}

/// Spin orbital 2p + s is spatial orbital p with spin s.
struct SpinOrbitals {
    std::int64_t o, v;
    std::vector<double> t1, t2, oovv, ovvv, ooov, eo, ev;
    explicit SpinOrbitals(Molecule& m) : o(2 * m.o), v(2 * m.v) {
        using I = std::int64_t;
        auto same = [](I p, I q) { return p % 2 == q % 2; };
        for (I i = 0; i < o; ++i) eo.push_back(m.eo[i / 2]);
        for (I a = 0; a < v; ++a) ev.push_back(m.ev[a / 2]);
        for (I i = 0; i < o; ++i)
            for (I a = 0; a < v; ++a) t1.push_back(same(i, a) ? m.t1[i / 2 * m.v + a / 2] : 0);
        for (I i = 0; i < o; ++i)
            for (I j = 0; j < o; ++j)
                for (I a = 0; a < v; ++a)
                    for (I b = 0; b < v; ++b) {
                        double t = 0, g = 0;
                        if (same(i, a) && same(j, b)) {
                            t += m.T(i / 2, j / 2, a / 2, b / 2);
                            g += m.OVOV(i / 2, a / 2, j / 2, b / 2);
                        }
                        if (same(i, b) && same(j, a)) {
                            t -= m.T(i / 2, j / 2, b / 2, a / 2);
                            g -= m.OVOV(i / 2, b / 2, j / 2, a / 2);
                        }
                        t2.push_back(t);
                        oovv.push_back(g);
                    }
        for (I i = 0; i < o; ++i)  // <ia||bc> = (ib|ac) - (ic|ab)
            for (I a = 0; a < v; ++a)
                for (I b = 0; b < v; ++b)
                    for (I c = 0; c < v; ++c) {
                        double g = 0;
                        if (same(i, b) && same(a, c)) g += m.OVVV(i / 2, b / 2, a / 2, c / 2);
                        if (same(i, c) && same(a, b)) g -= m.OVVV(i / 2, c / 2, a / 2, b / 2);
                        ovvv.push_back(g);
                    }
        for (I i = 0; i < o; ++i)  // <ij||ka> = (ik|ja) - (ia|jk)
            for (I j = 0; j < o; ++j)
                for (I k = 0; k < o; ++k)
                    for (I a = 0; a < v; ++a) {
                        double g = 0;
                        if (same(i, k) && same(j, a)) g += m.OOOV(i / 2, k / 2, j / 2, a / 2);
                        if (same(i, a) && same(j, k)) g -= m.OOOV(j / 2, k / 2, i / 2, a / 2);
                        ooov.push_back(g);
                    }
    }
};

TEST(TriplesEnergy, ClosedShellFormulaIsTheSpinOrbitalOne) {
    Random random(7);
    Molecule m(2, 3, random);
    const SpinOrbitals s(m);
    const double spin = ref::spin_orbital_triples(
        {s.o, s.v, s.t1.data(), s.t2.data(), s.oovv.data(), s.ovvv.data(), s.ooov.data(), s.eo.data(), s.ev.data()});
    const double closed = ref::closed_shell_triples(m.tensors());
    EXPECT_NEAR(closed, spin, 1e-12 * std::abs(spin));
}

TEST(TriplesEnergy, EighteenTermsGiveTheSpinOrbitalFormula) {
    Random random(8);
    Molecule m(2, 2, random);
    const SpinOrbitals s(m);
    const std::int64_t o = s.o, v = s.v;
    using I = std::int64_t;
    // Fastest first: t2o[l,a,b,i] = t(i,l,a,b), v2o[k,j,c,l] = <lc||jk>, t2v[d,a,i,j] = t(i,j,a,d), v2v[d,k,c,b] =
    // <dk||cb>.
    auto t2 = [&](I i, I j, I a, I b) { return s.t2[((i * o + j) * v + a) * v + b]; };
    std::vector<double> t2o, v2o, t2v, v2v, t1, oovv;
    for (I i = 0; i < o; ++i)
        for (I b = 0; b < v; ++b)
            for (I a = 0; a < v; ++a)
                for (I l = 0; l < o; ++l) t2o.push_back(t2(i, l, a, b));
    for (I l = 0; l < o; ++l)
        for (I c = 0; c < v; ++c)
            for (I j = 0; j < o; ++j)
                for (I k = 0; k < o; ++k) v2o.push_back(s.ooov[((j * o + k) * o + l) * v + c]);
    for (I j = 0; j < o; ++j)
        for (I i = 0; i < o; ++i)
            for (I a = 0; a < v; ++a)
                for (I d = 0; d < v; ++d) t2v.push_back(t2(i, j, a, d));
    for (I b = 0; b < v; ++b)
        for (I c = 0; c < v; ++c)
            for (I k = 0; k < o; ++k)
                for (I d = 0; d < v; ++d) v2v.push_back(-s.ovvv[((k * v + d) * v + c) * v + b]);
    for (I i = 0; i < o; ++i)
        for (I a = 0; a < v; ++a) t1.push_back(s.t1[i * v + a]);
    for (I b = 0; b < v; ++b)
        for (I c = 0; c < v; ++c)
            for (I j = 0; j < o; ++j)
                for (I k = 0; k < o; ++k) oovv.push_back(s.oovv[((j * o + k) * v + b) * v + c]);
    TriplesOperands t;
    SinglesOperands one;
    t.occupied_sum = o;
    t.virtual_sum = v;
    t.t2_occupied.fill(t2o.data());
    t.v2_occupied.fill(v2o.data());
    t.t2_virtual.fill(t2v.data());
    t.v2_virtual.fill(v2v.data());
    one.t1.fill(t1.data());
    one.v2.fill(oovv.data());
    const BlockExtents extents{o, o, o, v, v, v};
    const auto terms = triples_terms(extents, t);
    const auto singles = singles_terms(extents, one);
    EnergyEpilogue epilogue;
    for (int n = 0; n < 6; ++n) epilogue.orbital_energies[n] = n < 3 ? s.eo.data() : s.ev.data();
    epilogue.singles = singles;
    epilogue.scale = 1.0 / 36;
    const double want = ref::spin_orbital_triples(
        {s.o, s.v, s.t1.data(), s.t2.data(), s.oovv.data(), s.ovvv.data(), s.ooov.data(), s.eo.data(), s.ev.data()});
    EXPECT_NEAR(fused_energy(extents, terms, epilogue), want, 1e-12 * std::abs(want));
}

TEST(TriplesEnergy, ClosedShellBlocksSumToTheFormula) {
    Random random(9);
    const Molecule m(5, 6, random);
    const double want = ref::closed_shell_triples(m.tensors());
    ClosedShellBlock block;
    closed_shell_block(m.tensors(), {0, 0, 0}, {5, 5, 5}, block);
    EXPECT_NEAR(fused_energy(block.extents, block.terms, block.epilogue), want, 1e-12 * std::abs(want));
    // Occupied ranges 0..2 and 2..5; permuted ranges count as often as there are distinct permutations.
    double sum = 0;
    const std::int64_t begin[] = {0, 2}, extent[] = {2, 3};
    for (int k = 0; k < 2; ++k)
        for (int j = 0; j <= k; ++j)
            for (int i = 0; i <= j; ++i) {
                closed_shell_block(m.tensors(), {begin[k], begin[j], begin[i]}, {extent[k], extent[j], extent[i]},
                                   block);
                block.epilogue.scale *= k == i ? 1 : (k == j || j == i) ? 3 : 6;
                sum += fused_energy(block.extents, block.terms, block.epilogue);
            }
    EXPECT_NEAR(sum, want, 1e-11 * std::abs(want));
}

// Every tensor of the closed-shell terms must be addressable, not only the largest in most molecules.
TEST(TriplesInput, ClosedShellSizesPast64Bits) {
    const double x = 0;
    ClosedShellTensors tensors{};
    for (const double** p : {&tensors.t1, &tensors.t2, &tensors.ovov, &tensors.ovvv, &tensors.ooov,
                             &tensors.occupied_energies, &tensors.virtual_energies})
        *p = &x;
    ClosedShellBlock block;
    for (const auto& [o, v] : {std::pair{std::int64_t{1} << 31, std::int64_t{2}},
                               {std::int64_t{1} << 40, 1},
                               {std::int64_t{1} << 16, std::int64_t{1} << 16},
                               {1, std::int64_t{1} << 21}}) {
        tensors.occupied = o;
        tensors.virtuals = v;
        EXPECT_THROW(closed_shell_block(tensors, {0, 0, 0}, {1, 1, 1}, block), UserError) << o << " " << v;
    }
    tensors.occupied = tensors.virtuals = 0;
    EXPECT_THROW(closed_shell_block(tensors, {0, 0, 0}, {1, 1, 1}, block), UserError);
    tensors.occupied = tensors.virtuals = 4;
    EXPECT_THROW(closed_shell_block(tensors, {0, 3, 0}, {1, 2, 1}, block), UserError);
    EXPECT_THROW(closed_shell_block(tensors, {0, 0, -1}, {1, 1, 1}, block), UserError);
    tensors.ovvv = nullptr;
    EXPECT_THROW(closed_shell_block(tensors, {0, 0, 0}, {1, 1, 1}, block), UserError);
    EXPECT_THROW(ref::closed_shell_triples(tensors), UserError);
    EXPECT_THROW(ref::closed_shell_triples({}), UserError);
    EXPECT_THROW(ref::spin_orbital_triples({2, 2}), UserError);
}

/// Sums that no machine can hold, though every address is within 64 bits.
TEST(TriplesInput, SumsPastTheMemory) {
    Random random(12);
    Case c = eighteen({3, 2, 2, 2, 2, 2}, 2, 3, random);
    std::vector<double> out(static_cast<std::size_t>(c.volume()));
    const FusedOutput output{out.data(), packed_strides(c.extents), false};
    for (std::int64_t sum : {std::int64_t{1} << 40, std::int64_t{1} << 60, std::int64_t{INT64_MAX}}) {
        c.terms[3].sum_extent = sum;
        c.terms[3].a.sum_stride = c.terms[3].b.sum_stride = 0;
        EXPECT_THROW(fused_contract(c.extents, c.terms, output), UserError) << sum;
        EXPECT_THROW(fused_energy(c.extents, c.terms, c.epilogue(TripleWeights::spin_orbital, 1)), UserError) << sum;
    }
}

TEST(TriplesInput, DenominatorsOfZeroAreNamed) {
    Random random(13);
    for (TripleWeights weights : {TripleWeights::spin_orbital, TripleWeights::closed_shell}) {
        Case c = eighteen({3, 4, 2, 5, 5, 5}, 2, 3, random);
        const EnergyEpilogue epilogue = c.epilogue(weights, 1);
        EXPECT_NO_THROW(fused_energy(c.extents, c.terms, epilogue));
        // Whole numbers: 2 - 1 + 3 on one side, 5 - 2 + 1 on the other.
        auto set = [&](int index, std::int64_t at, double value) {
            const_cast<double*>(epilogue.orbital_energies[index])[at] = value;
        };
        set(0, 2, 2);
        set(1, 3, -1);
        set(2, 1, 3);
        set(3, 4, 5);
        set(4, 0, -2);
        set(5, 1, 1);
        try {
            fused_energy(c.extents, c.terms, epilogue);
            FAIL() << "an energy over zero";
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find("k 2, j 3, i 1, c 4, b 0, a 1 is 0"), std::string::npos) << e.what();
        }
        set(4, 3, NAN);
        EXPECT_THROW(fused_energy(c.extents, c.terms, epilogue), UserError);
    }
    const double one = 1, far = 9;
    EXPECT_THROW(check_denominators({1, 1, 1, 1, 1, 1}, {&one, &one, &one, &one, &one, &one}), UserError);
    EXPECT_NO_THROW(check_denominators({1, 1, 1, 1, 1, 1}, {&one, &one, &one, &far, &one, &one}));
    // In whatever order they are added up: rounding makes most of these denominators 1e-17 instead of 0.
    std::array<double, 3> occupied{0.1, 0.2, 0.3};
    do {
        std::array<double, 3> virtuals{0.1, 0.2, 0.3};
        do {
            Case c = eighteen({1, 1, 1, 1, 1, 1}, 1, 1, random);
            const EnergyEpilogue epilogue = c.epilogue(TripleWeights::spin_orbital, 1);
            for (int n = 0; n < 6; ++n)
                *const_cast<double*>(epilogue.orbital_energies[n]) = n < 3 ? occupied[n] : virtuals[n - 3];
            EXPECT_THROW(fused_energy(c.extents, c.terms, epilogue), UserError);
            EXPECT_THROW(ref::fused_energy(c.extents, c.terms, epilogue), UserError);
        } while (std::ranges::next_permutation(virtuals).found);
    } while (std::ranges::next_permutation(occupied).found);
    // The same far from one, where sums round to more.
    std::array<double, 3> occupied_large{1000.1, 1000.2, 1000.3};
    do {
        std::array<double, 3> virtuals{1000.1, 1000.2, 1000.3};
        do {
            EXPECT_THROW(
                check_denominators({1, 1, 1, 1, 1, 1}, {&occupied_large[0], &occupied_large[1], &occupied_large[2],
                                                        &virtuals[0], &virtuals[1], &virtuals[2]}),
                UserError);
        } while (std::ranges::next_permutation(virtuals).found);
    } while (std::ranges::next_permutation(occupied_large).found);
}

/// Against the loop over all of them: sums that meet and sums that only come near, and more of them than are stored.
TEST(TriplesInput, MeetingSumsAreFound) {
    Random random(14);
    int met = 0;
    for (int trial = 0; trial < 200; ++trial) {
        BlockExtents extents{};
        std::array<std::vector<double>, 6> lists;
        std::array<const double*, 6> energies{};
        for (int n = 0; n < 6; ++n) {
            extents[n] = pick(random, {1, 2, 3, 5});
            lists[n].resize(static_cast<std::size_t>(extents[n]));
            for (double& e : lists[n]) e = 0.01 * static_cast<double>(random() % 400) + (n < 3 ? 0 : trial % 3);
            energies[n] = lists[n].data();
        }
        double least = INFINITY;
        for (double k : lists[0])
            for (double j : lists[1])
                for (double i : lists[2])
                    for (double c : lists[3])
                        for (double b : lists[4])
                            for (double a : lists[5]) least = std::min(least, std::abs(k + j + i - c - b - a));
        const bool meets = least < 1e-10;  // they are multiples of 0.01
        met += meets ? 1 : 0;
        bool thrown = false;
        try {
            check_denominators(extents, energies);
        } catch (const UserError&) {
            thrown = true;
        }
        EXPECT_EQ(thrown, meets) << "trial " << trial << ", nearest " << least;
    }
    EXPECT_GT(met, 20);
    EXPECT_LT(met, 160);
    // Far away orbitals do not bring others together; those past all sums, null pointers and empty lists are refused.
    const double one = -0.5, parked[] = {0.5, 1e14}, huge = 1e90;
    EXPECT_NO_THROW(check_denominators({1, 1, 1, 2, 2, 2}, {&one, &one, &one, parked, parked, parked}));
    EXPECT_THROW(check_denominators({1, 1, 1, 1, 1, 1}, {&one, &one, &one, parked, parked, &huge}), UserError);
    EXPECT_THROW(check_denominators({1, 1, 1, 1, 1, 1}, {&one, &one, &one, parked, parked, nullptr}), UserError);
    EXPECT_THROW(check_denominators({1, 1, 1, 1, 0, 1}, {&one, &one, &one, parked, parked, parked}), UserError);
    // 270 virtual orbitals: 19.7 million sums, one of them the occupied one.
    std::vector<double> many(270);
    for (std::size_t n = 0; n < many.size(); ++n) many[n] = static_cast<double>(n) + 0.25;
    const double occupied[] = {100.25, 200.25, 151.3};
    const std::array<const double*, 6> lists{&occupied[0], &occupied[1], &occupied[2],
                                             many.data(),  many.data(),  many.data()};
    EXPECT_NO_THROW(check_denominators({1, 1, 1, 270, 270, 270}, lists));
    many[269] = 151.3;
    EXPECT_THROW(check_denominators({1, 1, 1, 270, 270, 270}, lists), UserError);
}

/// Orbitals that somebody put far away: padding must not be met by them.
TEST(TriplesEnergy, ParkedOrbitalsBesidePadding) {
    Random random(15);
    for (TripleWeights weights : {TripleWeights::spin_orbital, TripleWeights::closed_shell}) {
        Case c = eighteen({3, 3, 3, 3, 3, 3}, 2, 3, random);
        for (int n = 3; n < 6; ++n) c.energies[static_cast<std::size_t>(n)] = {1, 5e89, 2};
        const EnergyEpilogue epilogue = c.epilogue(weights, 1);
        const double want = ref::fused_energy(c.extents, c.terms, epilogue);
        EXPECT_NEAR(fused_energy(c.extents, c.terms, epilogue), want, 1e-12 * std::abs(want));
        for (int n = 3; n < 6; ++n) const_cast<double*>(epilogue.orbital_energies[n])[1] = 5e299;  // as far as padding
        EXPECT_THROW(fused_energy(c.extents, c.terms, epilogue), UserError);
    }
}

TEST(TriplesInput, WrongInputIsAUserError) {
    Random random(10);
    const Case good = eighteen({3, 2, 2, 2, 3, 2}, 2, 3, random);
    std::vector<double> out(static_cast<std::size_t>(good.volume()));
    const FusedOutput output{out.data(), packed_strides(good.extents), false};
    EXPECT_NO_THROW(fused_contract(good.extents, good.terms, output));
    const auto says = [](const char* why, auto&& work) {
        try {
            work();
            ADD_FAILURE() << "not refused: " << why;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
        }
    };
    auto refused = [&](const char* why, auto&& spoil) {
        Case c;
        c.extents = good.extents;
        c.terms = good.terms;
        FusedOutput o = output;
        spoil(c, o);
        says(why, [&] { fused_contract(c.extents, c.terms, o); });
        says(why, [&] { ref::fused_contract(c.extents, c.terms, o); });
    };
    refused("extent 0 of output index 2", [](Case& c, FusedOutput&) { c.extents[2] = 0; });
    refused("extent -4 of output index 5", [](Case& c, FusedOutput&) { c.extents[5] = -4; });
    refused("fused block", [](Case& c, FusedOutput&) { c.extents.fill(1LL << 20); });
    refused("summed extent 0", [](Case& c, FusedOutput&) { c.terms[3].sum_extent = 0; });
    refused("summed extent -1", [](Case& c, FusedOutput&) { c.terms[3].sum_extent = -1; });
    refused("reaches past 64 bits", [](Case& c, FusedOutput&) { c.terms[3].sum_extent = INT64_MAX; });
    refused("operand a is a null", [](Case& c, FusedOutput&) { c.terms[7].a.data = nullptr; });
    refused("operand b is a null", [](Case& c, FusedOutput&) { c.terms[8].b.data = nullptr; });
    refused("index mask 64", [](Case& c, FusedOutput&) { c.terms[0].a_indices = 64; });
    refused("reaches past 64 bits", [](Case& c, FusedOutput&) { c.terms[0].b.stride.fill(INT64_MAX / 2); });
    refused("the output is a null", [](Case&, FusedOutput& o) { o.data = nullptr; });
    const auto misplaced = [](auto* data) {
        return reinterpret_cast<decltype(data)>(reinterpret_cast<std::uintptr_t>(data) + 4);
    };
    refused("no multiple of 8", [&](Case& c, FusedOutput&) { c.terms[3].b.data = misplaced(c.terms[3].b.data); });
    refused("no multiple of 8", [&](Case&, FusedOutput& o) { o.data = misplaced(o.data); });
    refused("overlaps itself", [](Case&, FusedOutput& o) { o.stride[1] = 1; });
    refused("overlaps itself", [](Case&, FusedOutput& o) { o.stride[4] = 0; });
    refused("the output reaches past 64 bits", [](Case&, FusedOutput& o) { o.stride[5] = INT64_MAX; });
    refused("operand a overlaps", [&](Case& c, FusedOutput&) { c.terms[1].a.data = out.data() + 3; });
    refused("operand b overlaps", [&](Case& c, FusedOutput&) { c.terms[1].b.data = out.data() - 1; });
    refused("operand a overlaps", [&](Case& c, FusedOutput&) { c.terms[1].a.data = out.data() + out.size() - 1; });
    refused("in bytes", [](Case& c, FusedOutput&) { c.extents = {1LL << 20, 1LL << 20, 1LL << 20, 1, 1, 1}; });
    says("a sum over -1 virtual", [&] {
        TriplesOperands wrong;
        wrong.virtual_sum = -1;
        triples_terms(good.extents, wrong);
    });
    says("a sum over -2 occupied", [&] {
        TriplesOperands wrong;
        wrong.occupied_sum = -2;
        triples_terms(good.extents, wrong);
    });
    says("null", [&] {
        FusedTerm wrong = good.terms[0];
        wrong.b.data = nullptr;
        ref::fused_element({&wrong, 1}, {0, 0, 0, 0, 0, 0});
    });

    EnergyEpilogue epilogue = good.epilogue(TripleWeights::closed_shell, 1);
    EXPECT_THROW(fused_energy(good.extents, good.terms, epilogue), UserError);  // unequal virtual ranges
    epilogue.weights = TripleWeights::spin_orbital;
    EXPECT_NO_THROW(fused_energy(good.extents, good.terms, epilogue));
    auto singles = good.singles;
    singles[2].b.data = nullptr;
    epilogue.singles = singles;
    says("singles term 2: operand b is a null", [&] { fused_energy(good.extents, good.terms, epilogue); });
    epilogue.singles = good.singles;
    const double* energies = epilogue.orbital_energies[4];
    epilogue.orbital_energies[4] = misplaced(energies);
    EXPECT_THROW(fused_energy(good.extents, good.terms, epilogue), UserError);
    epilogue.orbital_energies[4] = nullptr;
    EXPECT_THROW(fused_energy(good.extents, good.terms, epilogue), UserError);
    EXPECT_THROW(make_term(1, "labi", out.data(), "kjl", out.data(), good.extents, 2), UserError);
    EXPECT_THROW(make_term(1, "labi", out.data(), "kjil", out.data(), good.extents, 2), UserError);
    for (const auto& [a, b] : {std::pair{"lxabi", "kjcl"},
                               {"llabi", "kjcl"},
                               {"labi", "kjcd"},
                               {"labi", "kjc"},
                               {"1abi", "kjc1"},
                               {"abi", "kjc"}})
        EXPECT_THROW(make_term(1, a, out.data(), b, out.data(), good.extents, 2), UserError) << a << " " << b;
    EXPECT_NO_THROW(make_term(1, "abi", out.data(), "kjc", out.data(), good.extents, 1));
    for (std::int64_t extent : {0, -2}) {
        BlockExtents wrong = good.extents;
        wrong[4] = extent;
        EXPECT_THROW(make_term(1, "abi", out.data(), "kjc", out.data(), wrong, 1), UserError) << extent;
        EXPECT_THROW(packed_strides(wrong), UserError) << extent;
    }
}

}  // namespace
}  // namespace tessera::kernels
