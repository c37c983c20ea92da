// Contractions against the obvious dense loop: random specs, tilings, sparsity, types; the same bits on any threads.
// Compiled a second time for a CUDA device (support/back_end.hpp).

#include "tessera/contract/contract.hpp"

#include <gtest/gtest.h>

#include <random>

#include "contract/machine_for.hpp"
#include "contract/verify.hpp"
#include "inspect/build_plan.hpp"
#include "support/back_end.hpp"
#include "support/dense_einsum.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using testing::back_end_resources;
using testing::dense_einsum;
using testing::on_device;
using testing::pick;
using testing::Random;
using testing::random_tiling;
using testing::trials;
using testing::widen;

template <Scalar T>
Tensor<T> random_tensor(Random& r, const TileGrid& grid, double occupancy) {
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (std::uniform_real_distribution<>(0, 1)(r) < occupancy)
            entries.push_back({TileOrdinal{o}, 1.0 + static_cast<double>(o % 3)});
    return Tensor<T>::random(Shape(grid, std::move(entries)), r());
}

template <Scalar T>
double tolerance() {
    return std::is_same_v<RealOf<T>, float> ? 1e-5 : 1e-13;
}

template <Scalar T>
void expect_close(const Tensor<T>& c, const testing::EinsumResult& expected, std::complex<double> alpha,
                  const std::string& what, const testing::Dense* old = nullptr, std::complex<double> beta = 0) {
    const auto got = widen(c);
    ASSERT_EQ(got.values.size(), expected.sum.values.size()) << what;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
        std::complex<double> want = alpha * expected.sum.values[i];
        double scale = std::abs(alpha) * expected.magnitude[i] + 1e-30;
        if (old) {
            want += beta * old->values[i];
            scale += std::abs(beta * old->values[i]);
        }
        ASSERT_LE(std::abs(got.values[i] - want), tolerance<T>() * scale + 1e-30) << what << " element " << i;
    }
}

/// A random spec over few labels; with all kinds of roles.
std::string random_spec(Random& r, bool reductions) {
    const std::string alphabet = "abcdefgh";
    std::string a, b, c;
    for (char l : alphabet.substr(0, static_cast<std::size_t>(pick(r, 1, 6)))) {
        switch (pick(r, 0, reductions ? 6 : 3)) {
            case 0:
                a += l, b += l, c += l;
                break;
            case 1:
                a += l, c += l;
                break;
            case 2:
                b += l, c += l;
                break;
            case 3:
                a += l, b += l;
                break;
            case 4:
                a += l;
                break;
            case 5:
                b += l, c += l, b += l;
                break;
            default:
                a += l, a += l, b += l;
                break;
        }
    }
    std::shuffle(a.begin(), a.end(), r);
    std::shuffle(b.begin(), b.end(), r);
    std::shuffle(c.begin(), c.end(), r);
    return a + "," + b + "->" + c;
}

template <class T>
class Contract : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Contract, AllScalars);

TYPED_TEST(Contract, RandomSpecsAgreeWithTheDenseLoop) {
    using T = TypeParam;
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(20);
    for (int trial = 0; trial < trials(200); ++trial) {
        const ContractionSpec spec(random_spec(r, trial % 2 == 1));
        std::map<char, Tiling> tilings;
        for (char l : spec.a() + spec.b()) tilings.try_emplace(l, random_tiling(r, 3, 3));
        std::vector<Tiling> ta, tb, tc;
        for (char l : spec.a()) ta.push_back(tilings[l]);
        for (char l : spec.b()) tb.push_back(tilings[l]);
        for (char l : spec.c()) tc.push_back(tilings[l]);
        const auto a = random_tensor<T>(r, TileGrid(ta), 0.6), b = random_tensor<T>(r, TileGrid(tb), 0.6);
        auto c = random_tensor<T>(r, TileGrid(tc), 0.5);

        auto here = back_end_resources();
        ContractOptions options;
        options.conjugate_a = trial % 3 == 1;
        options.conjugate_b = trial % 5 == 1;
        options.alpha = trial % 4 == 0 ? 1.0 : -0.75;
        if constexpr (is_complex<T>)
            if (trial % 4 == 1) options.alpha = {0.5, -0.25};
        validate(plan(spec.text(), a, b, here, options).plan());
        const auto expected = dense_einsum({spec.a(), spec.b()}, spec.c(), {widen(a), widen(b)},
                                           {options.conjugate_a, options.conjugate_b});

        std::uint64_t bits = 0;
        for (int threads : {1, 2, 3, 8}) {
            here.threads = threads;
            if (on_device && threads > 2) break;
            const auto got = contract(spec.text(), a, b, here, options);
            expect_close(got.tensor, expected, options.alpha, spec.text());
            if (threads == 1) bits = checksum(got.tensor);
            ASSERT_EQ(bits, checksum(got.tensor)) << spec.text() << " on " << threads << " threads";
        }
        const auto old = widen(c);
        options.beta = -0.5;
        contract_into<T>(spec.text(), a, b, c, here, options);
        expect_close(c, expected, options.alpha, spec.text() + " with beta", &old, options.beta);
    }
}

TYPED_TEST(Contract, OneOperandSpecs) {
    using T = TypeParam;
    Random r(21);
    for (const char* text : {"ab->ba", "ab->ab", "aa->", "aa->a", "abc->b", "aba->b", "abcd->dbca", "->", "a->",
                             "aab->ba", "abcabc->cb"}) {
        const ContractionSpec spec(text);
        std::map<char, Tiling> tilings;
        std::vector<Tiling> ta;
        for (char l : spec.a()) tilings.try_emplace(l, random_tiling(r, 4, 5));
        for (char l : spec.a()) ta.push_back(tilings[l]);
        const auto a = random_tensor<T>(r, TileGrid(ta), 0.7);
        const auto got = contract(text, a);
        expect_close(got.tensor, dense_einsum({spec.a()}, spec.c(), {widen(a)}, {false}), 1.0, text);
    }
}

TYPED_TEST(Contract, MadeOnDemandIsBitwiseTheSameAsStored) {
    using T = TypeParam;
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(22);
    for (int trial = 0; trial < trials(60); ++trial) {
        const ContractionSpec spec(trial % 2 ? "pcd,cdab->pab" : random_spec(r, false));
        std::map<char, Tiling> tilings;
        for (char l : spec.a() + spec.b()) tilings.try_emplace(l, random_tiling(r, 4, 4));
        std::vector<Tiling> ta, tb;
        for (char l : spec.a()) ta.push_back(tilings[l]);
        for (char l : spec.b()) tb.push_back(tilings[l]);
        const auto a = random_tensor<T>(r, TileGrid(ta), 0.6), b = random_tensor<T>(r, TileGrid(tb), 0.6);
        std::vector<std::atomic<int>> calls(static_cast<std::size_t>(b.grid().tile_total()));
        const GeneratedTensor<T> lazy_a{a.shape(), [&](const TileInfo& i, std::span<T> out) {
                                            std::ranges::copy(a.tile(*a.shape().find(i.tile)), out.begin());
                                        }};
        const GeneratedTensor<T> lazy_b{b.shape(), [&](const TileInfo& i, std::span<T> out) {
                                            ++calls[i.tile.value];
                                            std::ranges::copy(b.tile(*b.shape().find(i.tile)), out.begin());
                                        }};
        auto here = back_end_resources();
        const auto stored = contract(spec.text(), a, b, here);
        here.threads = 3;
        std::int64_t budget = 0;
        const auto same = [&](const Contraction<T>& got) {
            ASSERT_TRUE(got.tensor == stored.tensor) << spec.text() << " budget " << budget;
            ASSERT_TRUE(budget == 0 || got.report.peak_host_bytes <= budget);
        };
        const auto proved = [&](const auto& x, const auto& y) {
            validate(plan(spec.text(), x, y, here).plan(), {budget, 0});
            return contract(spec.text(), x, y, here);
        };
        same(proved(a, lazy_b));
        for (auto& c : calls) ASSERT_LE(c.exchange(0), 1) << "a tile was made twice";
        same(proved(lazy_a, b));
        same(proved(lazy_a, lazy_b));
        if (on_device) continue;
        // The smallest budget that works is named, works, and one byte less does not.
        here.memory = 1;
        try {
            contract(spec.text(), a, lazy_b, here);
            ASSERT_EQ(a.tile_count(), 0) << spec.text();  // a stored tile takes more than a byte; of B none is made
        } catch (const BudgetError& e) {
            here.memory = budget = e.smallest_bytes();
            same(proved(a, lazy_b));
            here.memory = e.smallest_bytes() - 1;
            if (here.memory > 0) {
                EXPECT_THROW(contract(spec.text(), a, lazy_b, here), BudgetError);
            }
        }
    }
}

TEST(ContractLarge, TilesCutForThreadsAndSegmentsGiveTheSameBits) {
    Random r(23);
    struct Case {
        const char* spec;
        std::int64_t tiles, size;
    };
    // One big tile (cut into parts), a dot product (k in segments), permuted layouts.
    for (const auto& [text, tiles, size] :
         {Case{"ik,kj->ij", 1, 300}, Case{"ik,ik->", 12, 24}, Case{"iak,kbj->jbia", 1, 24}, Case{"ikl,klj->ji", 2, 40},
          Case{"aik,ajk->aij", 1, 60}}) {
        const ContractionSpec spec(text);
        std::map<char, Tiling> tilings;
        for (char l : spec.a() + spec.b()) tilings.try_emplace(l, Tiling::uniform(tiles * size, size));
        std::vector<Tiling> ta, tb;
        for (char l : spec.a()) ta.push_back(tilings[l]);
        for (char l : spec.b()) tb.push_back(tilings[l]);
        const auto a = random_tensor<double>(r, TileGrid(ta), 1.0), b = random_tensor<double>(r, TileGrid(tb), 1.0);
        Resources here{.threads = 1};
        int parts = 0, segments = 0;
        const auto one = contract(text, a, b, here);
        for (int threads : {2, 3, 8}) {
            here.threads = threads;
            const auto planned = plan(text, a, b, here);
            validate(planned.plan());
            for (const auto& c : planned.plan().chains) parts = std::max<int>(parts, c.parts);
            segments = planned.plan().segments;
            ASSERT_TRUE(execute(planned, a, b).tensor == one.tensor) << text << " on " << threads;
        }
        EXPECT_TRUE(parts > 1 || tiles > 1 || size < 300) << text;
        EXPECT_TRUE(segments > 1 || !spec.c().empty()) << text;
        if (size < 100)
            expect_close(one.tensor, dense_einsum({spec.a(), spec.b()}, spec.c(), {widen(a), widen(b)}, {false, false}),
                         1.0, text);
    }
}

TEST(ContractFilter, WhatIsLeftOutStaysWithinTheBound) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(24);
    int dropped = 0, skipped = 0, both = 0;
    for (int trial = 0; trial < trials(200); ++trial) {
        const auto ti = random_tiling(r, 5, 4), tj = random_tiling(r, 5, 4), tk = random_tiling(r, 6, 4);
        const auto decaying = [&](const TileGrid& grid) {
            std::vector<ShapeEntry> e;
            for (std::int64_t o = 0; o < grid.tile_total(); ++o)
                e.push_back({TileOrdinal{o}, std::pow(10.0, -std::uniform_real_distribution<>(0, 6)(r))});
            return Tensor<double>::random(Shape(grid, std::move(e)), r());
        };
        const auto a = decaying({ti, tk}), b = decaying({tk, tj});
        const auto exact = contract("ik,kj->ij", a, b);
        const auto here = back_end_resources();
        ContractOptions options;
        options.filter = std::pow(10.0, -std::uniform_real_distribution<>(0, 6)(r));
        options.alpha = trial % 2 ? 1.0 : 2.5;
        validate(plan("ik,kj->ij", a, b, here, options).plan());
        const auto got = contract("ik,kj->ij", a, b, here, options);
        const double error = norm(add(1.0, got.tensor, -options.alpha.real(), exact.tensor));
        ASSERT_LE(error, got.report.left_out + 1e-14 * norm(exact.tensor)) << "filter " << options.filter;
        for (double n : got.tensor.shape().norms()) ASSERT_GE(n, options.filter);
        dropped += got.tensor.tile_count() < exact.tensor.tile_count();
        skipped += got.report.products < exact.report.products;

        // The same with a C that is added to: what is dropped of it counts together with what was skipped.
        const auto old = filter(decaying({ti, tj}), 1e-4);
        options.beta = trial % 3 ? 1.0 : -0.5;
        auto c = old;
        validate(plan_into<double>("ik,kj->ij", a, b, c, here, options).plan());
        const auto report = contract_into<double>("ik,kj->ij", a, b, c, here, options);
        const auto sum = add(options.alpha.real(), exact.tensor, options.beta.real(), old);
        ASSERT_LE(norm(add(1.0, c, -1.0, sum)), report.left_out + 1e-14 * norm(sum)) << "filter " << options.filter;
        for (double n : c.shape().norms()) ASSERT_GE(n, options.filter);
        both += report.dropped_tiles > 0 && report.products < exact.report.products;
    }
    EXPECT_GT(dropped, trials(50));
    EXPECT_GT(skipped, trials(50));
    EXPECT_GT(both, trials(50));
}

TEST(ContractFilter, WhatIsThereMayKeepATile) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const TileGrid one{Tiling{1}, Tiling{1}};
    const std::vector<double> x{0.6}, y{1.0};
    const auto a = Tensor<double>::from_dense(one, x), b = Tensor<double>::from_dense(one, y);
    auto c = a;
    const auto planned = plan_into<double>("ik,kj->ij", a, b, c, back_end_resources(), {.beta = 1, .filter = 1});
    validate(planned.plan());
    const auto report = execute_into<double>(planned, a, b, c);
    ASSERT_EQ(c.tile_count(), 1);  // 0.6 alone would go, 0.6 + 0.6 stays
    EXPECT_DOUBLE_EQ(c.tile(0)[0], 1.2);
    EXPECT_EQ(report.left_out, 0);
}

TEST(ContractFilter, DropsOldTilesWhenNoProductIsLeft) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const TileGrid g{Tiling{2, 3}, Tiling{2, 3}};
    const auto a = Tensor<double>::random(Shape::dense(g), 1), b = Tensor<double>::random(Shape::dense(g), 2);
    auto c = Tensor<double>::random(Shape::dense(g), 3);
    const double old = norm(c);
    const auto planned = plan_into<double>("ik,kj->ij", a, b, c, back_end_resources(), {.beta = 0.5, .filter = 1e3});
    validate(planned.plan());
    const auto report = execute_into<double>(planned, a, b, c);
    EXPECT_EQ(c.tile_count(), 0);
    EXPECT_GE(report.left_out, 0.5 * old);
}

TEST(ContractVerify, CancellationIsNoError) {
    // Rows of a rotation times its transpose: the result is the identity, off the diagonal only rounding is left.
    const TileGrid g{Tiling{1, 1}, Tiling{2}};
    const auto q = Tensor<double>::from_dense(g, std::vector{0.6, 0.8, -0.8, 0.6});
    const auto c = contract("ik,jk->ij", q, q);
    EXPECT_LT(verify_sample<double>("ik,jk->ij", q, q, c.tensor).max_relative_error, 1e-15);
    auto wrong = c.tensor;
    wrong.update_tiles([](const TileInfo&, std::span<double> t) { t[0] += 1e-9; });
    EXPECT_GT(verify_sample<double>("ik,jk->ij", q, q, wrong).max_relative_error, 1e-10);
    const std::vector<double> none{NAN};
    const auto not_a_number = [&](std::int64_t) { return std::span<const double>(none); };
    EXPECT_EQ(verify_tiles<double>("ik,jk->ij", q, q, wrong.shape(), not_a_number, {}).max_relative_error, HUGE_VAL);
    const auto large = Tensor<double>::from_dense(g, std::vector{1e160, 1e160, 1e160, 1e160});
    EXPECT_EQ(verify_tiles<double>("ik,jk->ij", large, large, wrong.shape(), not_a_number, {}).max_relative_error,
              HUGE_VAL);
}

TEST(ContractBudget, HoldsForOneOperand) {
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{Tiling{8}, Tiling{8}}), 1);
    Resources here;
    here.memory = 1023;
    EXPECT_THROW(contract("ij->ji", a, here), BudgetError);
    here.memory = 1024;
    EXPECT_EQ(contract("ij->ji", a, here).tensor.tile_count(), 1);
    here.memory = -1;
    EXPECT_THROW(contract("ij->ji", a, here), UserError);
    here = {};
    here.devices = {0};
    EXPECT_THROW(contract("ij->ji", a, here), UserError);
}

/// A result that is handed over takes no room, operands and what cores make of B for a device do.
TEST(ContractBudget, TheHostHasRoomForWhatIsNotHandedOver) {
    testing::SquareProduct product(64, 8);
    product.made_for_devices(1 << 20);
    const Plan plan = product.plan();
    const std::int64_t tensor = 64 * 64 * 8, needed = plan.rank_counts[0].peak_bytes - tensor;
    EXPECT_GT(needed, tensor);
    EXPECT_NO_THROW(require_host_room(plan, Nodes{{0}, {needed}, needed, 1}, true));
    EXPECT_THROW(require_host_room(plan, Nodes{{0}, {needed - 1}, needed - 1, 1}, true), MachineError);
    EXPECT_THROW(require_host_room(plan, Nodes{{0}, {needed}, needed, 1}, false), MachineError);
    EXPECT_NO_THROW(require_host_room(plan, Nodes{{0}, {needed + tensor}, needed + tensor, 1}, false));
}

/// Ranks of one node share its memory, however unevenly; those of others have their own.
TEST(ContractBudget, RanksOfANodeShareItsMemory) {
    testing::SquareProduct product(60, 6);
    product.machine.ranks = product.machine.ranks_per_node = 5;
    const Plan plan = product.plan();
    const auto of = [&](std::size_t begin, std::size_t end) {
        std::int64_t sum = 0;
        for (auto r = begin; r < end; ++r) sum += plan.rank_counts[r].peak_bytes;
        return sum;
    };
    for (const auto& [ranks, most] :
         {std::pair{5, of(0, 5)}, {2, std::max({of(0, 2), of(2, 4), of(4, 5)})}, {3, std::max(of(0, 3), of(3, 5))}}) {
        const auto nodes = [&, each = ranks](std::int64_t memory) {
            Nodes out{{}, {}, memory, each};
            for (int r = 0; r < 5; ++r) out.of_rank.push_back(r / each);
            out.memory.assign(static_cast<std::size_t>(4 / each + 1), memory);
            return out;
        };
        EXPECT_NO_THROW(require_host_room(plan, nodes(most), false)) << ranks;
        EXPECT_THROW(require_host_room(plan, nodes(most - 1), false), MachineError) << ranks;
    }
    // Ranks dealt to the nodes in turn, and a node that has less than the other.
    const auto even = of(0, 1) + of(2, 3) + of(4, 5), odd = of(1, 2) + of(3, 4);
    EXPECT_NO_THROW(require_host_room(plan, {{0, 1, 0, 1, 0}, {even, odd}, odd, 3}, false));
    EXPECT_THROW(require_host_room(plan, {{0, 1, 0, 1, 0}, {even, odd - 1}, odd - 1, 3}, false), MachineError);
    EXPECT_THROW(require_host_room(plan, {{0, 1, 0, 1, 0}, {even - 1, odd}, odd, 3}, false), MachineError);
}

/// What is made for a diagonal counts, and is not made where it does not fit.
TEST(ContractBudget, HoldsForADiagonalOfWhatIsMade) {
    const Tiling t{4, 4}, k{8};
    const auto b = Tensor<double>::random(Shape::dense(TileGrid{k, t}), 2);
    int made = 0;
    const GeneratedTensor<double> a{Shape::dense(TileGrid{t, t, k}), [&](const TileInfo& info, std::span<double> tile) {
                                        ++made;
                                        std::ranges::fill(tile, static_cast<double>(info.tile.value));
                                    }};
    Resources here{.threads = 1};
    const std::int64_t whole = 8 * 8 * 8 * 8, diagonal = 8 * 8 * 8;
    for (std::int64_t memory : {std::int64_t{1}, b.tile_bytes() + whole + diagonal - 1}) {
        here.memory = memory;
        try {
            contract<double>("iik,kj->ij", a, b, here);
            ADD_FAILURE() << memory;
        } catch (const BudgetError& e) {
            EXPECT_EQ(e.smallest_bytes(), b.tile_bytes() + whole + diagonal);
        }
        EXPECT_EQ(made, 0);
    }
    here.memory = b.tile_bytes() + whole + diagonal;
    const auto fits = contract<double>("iik,kj->ij", a, b, here);
    EXPECT_EQ(fits.report.peak_host_bytes, here.memory);
    EXPECT_TRUE(fits.tensor == contract<double>("iik,kj->ij", a, b).tensor);
    // Both: the first one's diagonal is there while the second is made.
    here.memory = 2 * diagonal + whole - 1;
    made = 0;
    EXPECT_THROW(contract<double>("iik,jjk->ij", a, a, here), BudgetError);
    EXPECT_EQ(made, 0);
    ++here.memory;
    EXPECT_EQ(contract<double>("iik,jjk->ij", a, a, here).report.peak_host_bytes, here.memory);
}

TEST(ContractShape, AGivenShapeIsComputedAndNothingElse) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(25);
    const Tiling t{3, 4, 5};
    const auto a = random_tensor<double>(r, {t, t}, 0.7), b = random_tensor<double>(r, {t, t}, 0.7);
    const auto here = back_end_resources();
    ContractOptions options;
    const auto all = contract("ik,kj->ij", a, b, here);
    const Shape wanted(TileGrid{t, t}, {{TileOrdinal{8}, 1}, {TileOrdinal{0}, 1}, {TileOrdinal{5}, 1}});
    options.result_shape = &wanted;
    const auto some = contract("ik,kj->ij", a, b, here, options);
    ASSERT_TRUE(std::ranges::equal(some.tensor.shape().ordinals(), wanted.ordinals()));
    for (std::int64_t s = 0; s < 3; ++s) {
        const auto slot = all.tensor.shape().find(wanted.tile(s));
        for (std::size_t i = 0; i < some.tensor.tile(s).size(); ++i)
            ASSERT_EQ(some.tensor.tile(s)[i], slot ? all.tensor.tile(*slot)[i] : 0.0);
    }
}

void expect_user_error(const std::function<void()>& call, const std::vector<std::string>& words) {
    try {
        call();
        FAIL() << "no error, expected one with: " << words[0];
    } catch (const UserError& e) {
        for (const auto& w : words) EXPECT_NE(std::string(e.what()).find(w), std::string::npos) << e.what();
    }
}

TEST(ContractInto, OneOperand) {
    const TileGrid g{Tiling{2, 3}, Tiling{4}}, t{Tiling{4}, Tiling{2, 3}};
    const auto a = Tensor<double>::random(Shape::dense(g), 1);
    const auto old = Tensor<double>::random(Shape(t, {{TileOrdinal{1}, 1.0}}), 2);
    ContractOptions o;
    Resources here;
    o.alpha = 2;
    o.beta = -0.5;
    auto c = old;
    const auto report = contract_into<double>("ij->ji", a, c, here, o);
    EXPECT_EQ(c, add(2.0, contract("ij->ji", a).tensor, -0.5, old));
    // The budget holds A, C, the permuted A and the sum; what is too small leaves C alone.
    auto kept = old;
    here.memory = 1;
    std::int64_t smallest = 0;
    try {
        contract_into<double>("ij->ji", a, kept, here, o);
    } catch (const BudgetError& e) {
        smallest = e.smallest_bytes();
    }
    EXPECT_GE(smallest, report.peak_host_bytes);
    EXPECT_EQ(kept, old);
    here.memory = smallest;
    contract_into<double>("ij->ji", a, kept, here, o);
    EXPECT_EQ(kept, c);
    here.memory = 0;
    auto wrong = a;
    expect_user_error([&] { contract_into<double>("ij->ji", a, wrong, here, o); },
                      {"'j'", "index 0 of C", "5 in", "4 in"});
    expect_user_error([&] { contract("ij->ji", a, here, o); }, {"beta is -0.5"});
}

TEST(ContractBadInput, SaysWhatAndWhere) {
    const Tiling t3{3}, t4{4}, t22{2, 2};
    const Tensor<double> a(Shape::dense({t3, t4})), b(Shape::dense({t4, t3})), wrong(Shape::dense({t22, t3}));
    Tensor<double> c(Shape::dense({t4, t4}));
    expect_user_error([&] { contract("ik,kj->ij", a, wrong); },
                      {"'k'", "4 in 1 tile of 4", "4 in 2 tiles of 2", "index 1 of A", "index 0 of B"});
    expect_user_error([&] { contract("ikl,kj->ij", a, b); }, {"operand A", "rank 2", "'ikl'"});
    expect_user_error([&] { contract("ik->kj->ij", a, b); }, {"more than one '->'"});
    expect_user_error([&] { contract("ik,kj->im", a, b); }, {"'m'"});
    expect_user_error([&] { contract("ik,kj->ii", a, b); }, {"'i'", "twice"});
    expect_user_error([&] { contract("i1,kj->ij", a, b); }, {"'1'", "position 2"});
    expect_user_error([&] { contract("ij->ji", a, b); }, {"one operand"});
    expect_user_error([&] { contract("ij,jk->ik", a); }, {"two operands"});
    const Shape result = Shape::dense({t4, t3});
    expect_user_error([&] { contract("ij->ji", a, {}, {.result_shape = &result}); }, {"one operand", "no shape"});
    expect_user_error(
        [&] {
            contract("ij->ji", a, {}, {.result_distribution = Distribution(1, {{}, {}})});
        },
        {"one operand", "distribution"});
    expect_user_error([&] { contract("ij->ji", a, {}, {.conjugate_b = true}); }, {"no B to conjugate"});
    expect_user_error([&] { contract_into<double>("ik,kj->ij", a, b, c); },
                      {"label 'i' is 4 in", "index 0 of C", "3 in"});
    ContractOptions o;
    o.alpha = {0, 1};
    expect_user_error([&] { contract("ik,kj->ij", a, b, {}, o); }, {"alpha", "imaginary"});
    o = {};
    o.filter = -1;
    expect_user_error([&] { contract("ik,kj->ij", a, b, {}, o); }, {"filter -1"});
    expect_user_error([&] { contract("ik,kj->ij", a, b, {.device_memory = -1}); }, {"device memory", "-1"});
    expect_user_error([&] { contract("ik,kj->ij", a, b, {.device_memory = 7}); }, {"device memory budget 7", "no dev"});
    expect_user_error([&] { contract("ik,kj->ij", a, b, {}, {}, {.blocks = Blocks::patches}); },
                      {"blocks 'patches'", "no devices"});
    o = {};
    o.beta = 2;
    expect_user_error([&] { contract("ik,kj->ij", a, b, {}, o); }, {"beta", "contract_into"});
    expect_user_error([&] { parse_algorithm("fast"); }, {"'fast'", "stationary_b"});
    expect_user_error([&] { parse_blocks("stay"); }, {"'stay'", "worst_fit"});
    const Shape other = Shape::dense({t4, t4});
    o = {};
    o.result_shape = &other;
    expect_user_error([&] { contract("ik,kj->ij", a, b, {}, o); },
                      {"index 0", "given result shape", "4 in 1 tile", "3 in 1 tile"});
    const GeneratedTensor<double> thrower{b.shape(),
                                          [](const TileInfo&, std::span<double>) { throw UserError("no tile today"); }};
    expect_user_error([&] { contract("ik,kj->ij", a, thrower); }, {"no tile today"});
    expect_user_error(
        [&] {
            contract("ik,kj->ij", a, GeneratedTensor<double>{b.shape(), {}});
        },
        {"operand B", "no function"});
    expect_user_error([&] { contract_each<double>("ik,kj->ij", a, b, TileConsumer<double>{}); }, {"no function"});
    const GeneratedTensor<double> bad{b.shape(),
                                      [](const TileInfo&, std::span<double> x) { std::ranges::fill(x, std::nan("")); }};
    const auto ones =
        Tensor<double>::generate(a.shape(), [](const TileInfo&, std::span<double> x) { std::ranges::fill(x, 1.0); });
    expect_user_error([&] { contract("ik,kj->ij", ones, bad); }, {"NaN", "(0, 0)"});
    const GeneratedTensor<double> larger{Shape::dense({t4, t3}),
                                         [](const TileInfo&, std::span<double> x) { std::ranges::fill(x, 7.0); }};
    o = {};
    o.filter = 1e-3;
    expect_user_error([&] { contract("ik,kj->ij", ones, larger, {}, o); },
                      {"made on demand has norm 24.2", "at most 1"});
    for (int threads : {-5, 100000}) {
        expect_user_error([&] { contract("ik,kj->ij", a, b, {.threads = threads}); },
                          {"threads", std::to_string(threads)});
    }
}

}  // namespace
}  // namespace tessera
