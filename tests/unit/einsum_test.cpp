// Einsums of any number of operands against the obvious dense loop: random specs, tilings, sparsity and types; the same
// bits on any threads and from operands that are made; the filter's bound; budgets; wrong input.

#include "tessera/contract/einsum.hpp"

#include <gtest/gtest.h>

#include "support/dense_einsum.hpp"
#include "support/random_einsum.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/arrays.hpp"

namespace tessera {
namespace {

using testing::Dense;
using testing::dense_einsum;
using testing::pick;
using testing::Random;
using testing::random_einsum;
using testing::RandomEinsum;
using testing::widen;

template <Scalar T>
double tolerance() {
    return std::is_same_v<RealOf<T>, float> ? 2e-5 : 1e-13;
}

template <Scalar T>
void expect_close(const Dense& got, const testing::EinsumResult& expected, std::complex<double> alpha,
                  const std::string& what, const Dense* old = nullptr, std::complex<double> beta = 0) {
    ASSERT_TRUE(got.extents == expected.sum.extents) << what;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
        std::complex<double> want = alpha * expected.sum.values[i];
        double scale = std::abs(alpha) * expected.magnitude[i];
        if (old) {
            want += beta * old->values[i];
            scale += std::abs(beta * old->values[i]);
        }
        ASSERT_LE(std::abs(got.values[i] - want), tolerance<T>() * scale + 1e-30) << what << " element " << i;
    }
}

template <Scalar T>
std::vector<Tensor<T>> random_tensors(Random& r, const RandomEinsum& e) {
    std::vector<Tensor<T>> out;
    for (const auto& s : e.shapes) out.push_back(Tensor<T>::random(s, r()));
    return out;
}

template <Scalar T>
std::vector<ContractOperand<T>> all_of(const std::vector<Tensor<T>>& tensors) {
    return {tensors.begin(), tensors.end()};
}

template <Scalar T>
testing::EinsumResult reference(const RandomEinsum& e, const std::vector<Tensor<T>>& x,
                                const ContractOptions& options) {
    std::vector<Dense> dense;
    std::vector<bool> conjugate;
    for (std::size_t o = 0; o < x.size(); ++o) {
        dense.push_back(widen(x[o]));
        conjugate.push_back(options.conjugates(static_cast<int>(o)));
    }
    return dense_einsum(e.operands, e.result, dense, conjugate);
}

std::string message_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const UserError& e) {
        EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
        return e.what();
    }
    return {};
}

template <class T>
class Einsum : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Einsum, AllScalars);

TYPED_TEST(Einsum, RandomSpecsAgreeWithTheDenseLoop) {
    using T = TypeParam;
    Random r(70);
    int shared_by_three = 0;
    for (int trial = 0; trial < (std::is_same_v<T, double> ? 120 : 45); ++trial) {
        const auto e = random_einsum(r, 1 + trial % 9, 6, 2, trial % 4 == 0 ? 1 : 2, 0.75, 20);
        for (char l = 'a'; l < 'g'; ++l)
            shared_by_three += std::count_if(e.operands.begin(), e.operands.end(),
                                             [&](const auto& o) { return o.find(l) != std::string::npos; }) > 2;
        const auto x = random_tensors<T>(r, e);
        ContractOptions options;
        options.alpha = trial % 3 == 0 ? 1.0 : -0.75;
        options.conjugate_a = trial % 4 == 1;
        if (x.size() > 2 && trial % 3 == 1) options.conjugate = {2};
        if constexpr (is_complex<T>)
            if (trial % 3 == 2) options.alpha = {0.5, -0.25};
        const auto expected = reference(e, x, options);
        Resources here{.threads = 1};
        const auto one = contract(e.text(), all_of(x), here, options);
        expect_close<T>(widen(one.tensor), expected, options.alpha, e.text());
        for (int threads : {2, 3}) {
            here.threads = threads;
            ASSERT_TRUE(contract(e.text(), all_of(x), here, options).tensor == one.tensor) << e.text();
        }
        // Some operands made on demand, by a plan that is kept.
        std::vector<GeneratedTensor<T>> lazy;
        for (const auto& t : x)
            lazy.push_back({t.shape(), [&t](const TileInfo& i, std::span<T> out) {
                                std::ranges::copy(t.tile(*t.shape().find(i.tile)), out.begin());
                            }});
        std::vector<ContractOperand<T>> mixed;
        for (std::size_t o = 0; o < x.size(); ++o)
            mixed.push_back(pick(r, 0, 1) ? ContractOperand<T>(lazy[o]) : ContractOperand<T>(x[o]));
        ASSERT_TRUE(contract(e.text(), mixed, here, options).tensor == one.tensor) << e.text();
        if (x.size() > 1) {
            const auto planned = plan(e.text(), all_of(x), here, options);
            EXPECT_NE(explain(planned).find(planned.tree()), std::string::npos);
            EXPECT_EQ(planned.steps().size(), x.size() - 1);
            for (int time = 0; time < 2; ++time) {
                const auto got = execute(planned, all_of(x));
                ASSERT_TRUE(got.tensor == one.tensor) << e.text();
                EXPECT_EQ(got.report.flops, planned.flops() * kFlopsPerMultiplyAdd<T> / 2) << e.text();
                EXPECT_EQ(got.report.peak_host_bytes, planned.peak_host_bytes()) << e.text();
            }
        }
        auto c = Tensor<T>::random(testing::random_tiles(r, one.tensor.grid(), 0.5), r());
        const auto old = widen(c);
        options.beta = -0.5;
        contract_into(e.text(), all_of(x), c, here, options);
        expect_close<T>(widen(c), expected, options.alpha, e.text() + " with beta", &old, options.beta);
    }
    EXPECT_GT(shared_by_three, 20);
}

TYPED_TEST(Einsum, ArraysAgreeWithTheDenseLoop) {
    using T = TypeParam;
    Random r(71);
    for (int trial = 0; trial < (std::is_same_v<T, double> ? 120 : 45); ++trial) {
        const auto e = random_einsum(r, 1 + trial % 9, 6, 2, trial % 4 == 0 ? 1 : 2, 1.0);
        const auto x = random_tensors<T>(r, e);
        std::vector<std::vector<T>> dense;
        std::vector<ArrayView<const T>> views;
        for (const auto& t : x) dense.push_back(t.to_dense());
        for (std::size_t o = 0; o < x.size(); ++o) views.emplace_back(dense[o].data(), x[o].grid().extents());
        ContractOptions options;
        options.alpha = -0.75;
        options.conjugate_a = trial % 4 == 1;
        if (x.size() > 2) options.conjugate = {2};
        const auto expected = reference(e, x, options);
        Resources here{.threads = 1};
        const auto one = contract(e.text(), views, here, options);
        const auto wide = [](std::span<const T> values, const IndexVector& extents) {
            Dense d{extents, {}};
            for (const auto& v : values) d.values.emplace_back(v);
            return d;
        };
        expect_close<T>(wide(one.array.elements(), one.array.extents()), expected, options.alpha, e.text());
        here.threads = 2;
        const auto two = contract(e.text(), views, here, options);
        ASSERT_TRUE(std::ranges::equal(one.array.elements(), two.array.elements())) << e.text();
        auto sum = contract(e.text(), views, here, options).array;
        const auto old = wide(sum.elements(), sum.extents());
        options.beta = 2;
        contract_into(e.text(), views, sum.view(), here, options);
        expect_close<T>(wide(sum.elements(), sum.extents()), expected, options.alpha, e.text() + " with beta", &old, 2);
    }
}

TEST(EinsumFilter, WhatIsLeftOutStaysWithinTheBound) {
    Random r(72);
    int dropped = 0, intermediate = 0;
    for (int trial = 0; trial < 200; ++trial) {
        auto e = random_einsum(r, 2 + trial % 5, 5, 4, 3, 0.9);
        std::vector<Tensor<double>> x;
        for (const auto& s : e.shapes) {
            std::vector<double> norms;
            for (std::int64_t i = 0; i < s.tile_count(); ++i)
                norms.push_back(std::pow(10.0, -std::uniform_real_distribution<>(0, 4)(r)));
            x.push_back(Tensor<double>::random(
                Shape::from_sorted(s.grid(), {s.ordinals().begin(), s.ordinals().end()}, std::move(norms)), r()));
        }
        ContractOptions options;
        options.alpha = -2;
        auto exact = contract(e.text(), all_of(x), {}, options).tensor;
        if (norm(exact) == 0) continue;
        options.filter = std::pow(10.0, -std::uniform_real_distribution<>(1, 4)(r)) * norm(exact);
        const auto got = contract(e.text(), all_of(x), {.threads = 2}, options);
        const double scale = norm(exact);
        axpy(-1.0, got.tensor, exact);
        ASSERT_LE(norm(exact), got.report.left_out * (1 + 1e-10) + 1e-12 * scale) << e.text();
        for (std::int64_t s = 0; s < got.tensor.tile_count(); ++s)
            ASSERT_GE(got.tensor.shape().norm_of(s), options.filter) << e.text();
        dropped += got.report.left_out > 0;
        for (std::size_t s = 0; s + 1 < got.report.steps.size(); ++s) intermediate += got.report.steps[s].left_out > 0;
        if (x.size() > 1) {
            const auto planned = plan(e.text(), all_of(x), {.threads = 1}, options);
            EXPECT_TRUE(planned.steps().empty());
            ASSERT_TRUE(execute(planned, all_of(x)).tensor == got.tensor) << e.text();
        }
    }
    EXPECT_GT(dropped, 60);
    EXPECT_GT(intermediate, 40);
}

TEST(EinsumBudget, TheSmallestThatWorksIsNamedBeforeAnyWork) {
    Random r(73);
    int refused = 0;
    for (int trial = 0; trial < 60; ++trial) {
        const auto e = random_einsum(r, 3 + trial % 3, 5, 3, 4, 0.8);
        const auto x = random_tensors<double>(r, e);
        const auto free = contract(e.text(), all_of(x));
        Resources here{.threads = 1, .memory = 1};
        try {
            contract(e.text(), all_of(x), here);
        } catch (const BudgetError& error) {
            ++refused;
            here.memory = error.smallest_bytes();
            const auto got = contract(e.text(), all_of(x), here);
            EXPECT_TRUE(got.tensor == free.tensor) << e.text();
            EXPECT_LE(got.report.peak_host_bytes, here.memory) << e.text();
            --here.memory;
            EXPECT_THROW(contract(e.text(), all_of(x), here), BudgetError) << e.text();
        }
    }
    EXPECT_GT(refused, 40);
}

/// As if elements outside were zero, with a filter too.
TEST(EinsumBounds, OperandsAreZeroOutside) {
    Random r(74);
    for (int trial = 0; trial < 80; ++trial) {
        const auto e = random_einsum(r, 3 + trial % 3, 5, 3, 4, 0.9);
        const auto x = random_tensors<double>(r, e);
        const char label = e.operands[0][0];
        const auto extent = e.shapes[0].grid().tiling(0).extent();
        const auto lo = pick(r, 0, extent), hi = pick(r, lo, extent);
        std::vector<Tensor<double>> cut = x;
        for (std::size_t o = 0; o < x.size(); ++o)
            cut[o].update_tiles([&](const TileInfo& info, std::span<double> tile) {
                const auto strides = row_major_strides(info.extents);
                for (std::size_t i = 0; i < tile.size(); ++i)
                    for (std::size_t d = 0; d < e.operands[o].size(); ++d) {
                        const int n = static_cast<int>(d);
                        const auto at = info.begin[n] + static_cast<std::int64_t>(i) / strides[n] % info.extents[n];
                        if (e.operands[o][d] == label && (at < lo || at >= hi)) tile[i] = 0;
                    }
            });
        const auto expected = reference(e, cut, {});
        ContractOptions options{.bounds = {{label, lo, hi}}};
        const auto got = contract(e.text(), all_of(x), {}, options);
        expect_close<double>(widen(got.tensor), expected, 1, e.text());
        options.filter = 0.05 * norm(got.tensor);
        auto filtered = contract(e.text(), all_of(x), {}, options);
        axpy(-1.0, got.tensor, filtered.tensor);
        EXPECT_LE(norm(filtered.tensor), filtered.report.left_out * (1 + 1e-10) + 1e-12 * norm(got.tensor)) << e.text();
    }
}

TEST(EinsumSpecs, ImplicitResultsAndEllipsesAreNumPys) {
    const Tiling two{2}, three{1, 2}, four{2, 2}, one{1};
    const auto a = Tensor<double>::random(Shape::dense({two, three}), 1);
    const auto b = Tensor<double>::random(Shape::dense({three, four}), 2);
    const auto c = Tensor<double>::random(Shape::dense({four, two}), 3);
    EXPECT_TRUE(einsum("ij,jk", a, b) == einsum("ij,jk->ik", a, b));
    EXPECT_TRUE(einsum("bj,ja", a, b) == einsum("bj,ja->ab", a, b));
    EXPECT_TRUE(einsum("ba", a) == einsum("ba->ab", a));
    EXPECT_TRUE(einsum("ij,jk,ki", a, b, c) == einsum("ij,jk,ki->", a, b, c));
    EXPECT_TRUE(einsum("ij,jk,kB", a, b, c) == einsum("ij,jk,kB->Bi", a, b, c));
    EXPECT_TRUE(einsum("i...->...i", a) == einsum("ij->ji", a));
    EXPECT_TRUE(einsum("...j,jk->...k", a, b) == einsum("ij,jk->ik", a, b));
    EXPECT_TRUE(einsum("...j,jk,k...", a, b, c) == einsum("ij,jk,ki->i", a, b, c));
    EXPECT_TRUE(einsum("... , jk -> ...", Tensor<double>::from_dense({}, std::vector{1.0}), b) ==
                einsum(",jk->", Tensor<double>::from_dense({}, std::vector{1.0}), b));

    const auto batch = Tensor<double>::random(Shape::dense({four, two, three}), 4);
    const auto alone = Tensor<double>::random(Shape::dense({one, two, three}), 5);
    EXPECT_TRUE(einsum("...ij,...jk->...ik", batch, b) == einsum("nij,jk->nik", batch, b));
    // An index of one element meets any.
    EXPECT_TRUE(einsum("...ij,...ij->...i", batch, alone) == einsum("nij,sij->ni", batch, alone));
    EXPECT_TRUE(einsum("...,...,...", batch, alone, a) == einsum("nij,sij,ij->nij", batch, alone, a));
    EXPECT_TRUE(einsum("...,...", alone, alone) == einsum("sij,sij->sij", alone, alone));
}

TEST(EinsumSpecs, WrongInputIsOneLine) {
    const Tiling two{2}, three{3}, other{1, 2};
    const auto a = Tensor<double>::random(Shape::dense({two, three}), 1);
    const auto b = Tensor<double>::random(Shape::dense({three, two}), 2);
    const auto c = Tensor<double>::random(Shape::dense({other, two}), 3);
    const auto says = [](const std::string& message, const std::function<void()>& act) {
        EXPECT_NE(message_of(act).find(message), std::string::npos) << message << " is not in: " << message_of(act);
    };
    says("operand 3 has rank 2, but its labels 'k' have 1", [&] { einsum("ij,jk,k->i", a, b, a); });
    says("has 3 operands, but 2 were given", [&] { contract("ij,jk,k->i", operands(a, b)); });
    says("has 2 operands, but 3 were given", [&] { einsum("ij,jk->ik", a, b, a); });
    says("at index 1 of operand 1, but 3 in 2 tiles of 1..2 at index 0 of operand 3",
         [&] { einsum("ij,jk,jl->ikl", a, b, c); });
    says("label 'i' stands twice in the result", [&] { einsum("ij,jk,kl->ii", a, b, a); });
    says("label 'z' of the result stands in no operand", [&] { einsum("ij,jk,kl->z", a, b, a); });
    says("'...' does not broadcast: index 1 of operand 1 has 3 elements, index 1 of operand 2 has 2",
         [&] { einsum("...,...,...", a, b, a); });
    says("'...' does not broadcast: index 1 of A has 3 elements, index 1 of B has 2", [&] { einsum("...,...", a, b); });
    says("'...' stands for 1 index, but the result has no '...'", [&] { einsum("i...,i...->i", a, a); });
    says("has more than one '...'", [&] { einsum("...i...->i", a); });
    says("operand A has rank 2, but its labels '...ijk' have 3", [&] { einsum("...ijk->i...", a); });
    says("'.' at position 1 is not a letter", [&] { einsum("..i->i", a); });
    says("there is neither a label nor '->'", [&] { einsum("", a); });
    says("operand 4 is to be conjugated, but there are 3",
         [&] { contract("ij,jk,kl->il", operands(a, b, a), {}, {.conjugate = {3}}); });
    says("operand 2 is to be conjugated, but there is 1", [&] { contract("ij", a, {}, {.conjugate = {1}}); });
    says("bounds are given of label 'z'", [&] {
        contract("ij,jk,kl->il", operands(a, b, a), {}, {.bounds = {{'z', 0, 1}}});
    });
    says("filter -1", [&] { contract("ij,jk,kl->il", operands(a, b, a), {}, {.filter = -1}); });
    says("beta is 1", [&] { contract("ij,jk,kl->il", operands(a, b, a), {}, {.beta = 1}); });
    says("C has rank 2", [&] {
        auto d = a;
        contract_into("ij,jk,kl->i", operands(a, b, a), d);
    });
    std::string long_spec = "...";
    for (char l = 'a'; l <= 'o'; ++l) long_spec += l;
    const auto wide = [&](const std::string& named) {
        std::string spec;
        for (int i = 0; i < 4; ++i) {
            for (int d = 0; d < 13; ++d) spec += static_cast<char>(i < 2 ? 'a' + 13 * i + d : 'A' + 13 * (i - 2) + d);
            spec += ",";
        }
        return spec + named;
    };
    const std::vector<Tiling> ones(13, Tiling{1});
    const auto x = Tensor<double>::random(Shape::dense(TileGrid(ones)), 1);
    says("more than 52 labels", [&] { einsum(wide("...->..."), x, x, x, x, a); });
    EXPECT_EQ(einsum(wide("->"), x, x, x, x, Tensor<double>::from_dense({}, std::vector{1.0})).rank(), 0);

    std::vector<double> values(6, 1.0);
    const ArrayView<double> u(values.data(), {2, 3}), v(values.data(), {3, 2});
    Array<double> out({2, 2});
    says("label 'k' has 2 elements in operand 2 and 3 in operand 3",
         [&] { contract_into("ij,jk,lk->il", operands(u, v, u), out.view()); });
    says("operand 3 and the result share memory", [&] {
        std::vector<double> w(6, 1.0);
        contract_into("ij,jk,lk->il", operands(u, v, ArrayView<double>(w.data(), {2, 2})),
                      ArrayView<double>(w.data(), {2, 2}));
    });
    says("operand 2 has rank 2, but its labels 'j' have 1", [&] { contract("ij,j,jk->ik", operands(u, v, v)); });
}

TEST(EinsumPlan, RefusesOtherOperandsByNumber) {
    const Tiling t{2, 3};
    const auto a = Tensor<double>::random(Shape::dense({t, t}), 1);
    const auto some = Tensor<double>::random(Shape::from_coordinates({t, t}, {{0, 0}, {1, 1}}), 2);
    const auto planned = plan<double>("ij,jk,kl->il", {a.shape(), some.shape(), a.shape()});
    EXPECT_TRUE(execute(planned, operands(a, some, a)).tensor == einsum("ij,jk,kl->il", a, some, a));
    EXPECT_NE(message_of([&] { execute(planned, operands(a, a, a)); }).find("operand 2 has tile (0, 1)"),
              std::string::npos);
    EXPECT_NE(message_of([&] { execute(planned, operands(a, some)); }).find("2 operands, but the plan is for 3"),
              std::string::npos);
    EXPECT_EQ(explain_json(planned).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tessera
