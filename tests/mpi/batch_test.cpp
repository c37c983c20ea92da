// Contractions in batches: the bits of one call where that can be, the same on any number of ranks always.
#include <gtest/gtest.h>

#include "support/draw.hpp"
#include "support/message.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/batch.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

using testing::Draw;
using testing::message;

template <class T>
struct Batch : ::testing::Test {
    Communicator& ranks = mpi_world();
    const Tiling i{3, 4, 2, 5}, k{4, 4, 1, 6, 3, 2}, j{5, 2, 6};
    struct Matrices {
        Tensor<T> a, b, c;
    };
    /// On the ranks, or on one of them.
    Matrices matrices(Draw& draw, bool here) {
        const auto one = [&](const TileGrid& grid, std::uint64_t seed) {
            const auto shape = draw.shape(grid, 0.7);
            const auto d = draw.distribution(grid, ranks.size());
            return Tensor<T>::random(shape, seed, 0, here ? Placement() : Placement(ranks, d));
        };
        auto a = one({i, k}, 1), b = one({k, j}, 2), c = one({i, j}, 3);
        return {std::move(a), std::move(b), std::move(c)};
    }
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Batch, Scalars);

TYPED_TEST(Batch, AscendingRangesHaveTheBitsOfOneCall) {
    for (unsigned seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed), again(seed);
        auto [a, b, c] = this->matrices(draw, false);
        auto [a1, b1, c1] = this->matrices(again, true);
        const double beta = seed % 3 ? 0.5 : 0.0;
        contract_into("ik,kj->ij", a1, b1, c1, {}, {.alpha = 1.5, .beta = beta, .conjugate_b = seed % 2 == 0});
        BatchOptions options;
        options.alpha = 1.5;
        options.beta = beta;
        options.conjugate_b = seed % 2 == 0;
        options.whole_a = &a.shape();
        options.whole_b = &b.shape();
        auto steps = batch("ik,kj->ij", c, {}, options);
        const auto before = checksum(c);
        // Cut anywhere, also within tiles, once with the rows in two parts.
        std::int64_t from = 0;
        for (const std::int64_t to : {std::int64_t{4}, std::int64_t{8 + draw.below(8)}, std::int64_t{20}}) {
            if (seed == 5) {
                steps.add(a, b, {{'k', from, to}, {'i', 0, 7}});
                steps.add(a, b, {{'k', from, to}, {'i', 7, 14}});
            } else {
                steps.add(a, b, {{'k', from, to}});
            }
            from = to;
        }
        EXPECT_EQ(checksum(c), before);
        const auto report = steps.finish();
        EXPECT_TRUE(report.as_one_call) << report.why_not;
        EXPECT_EQ(report.batches, seed == 5 ? 6 : 3);
        if (beta != 0.0) {  // else the C that was there is replaced
            EXPECT_EQ(c.shape(), c1.shape());
        }
        EXPECT_EQ(checksum(c), checksum(c1));
    }
}

TYPED_TEST(Batch, AnyOtherOrderIsTheSameOnAllRanks) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(seed);
        std::uint64_t bits[2];
        for (const bool here : {false, true}) {
            Draw draw(seed);
            auto [a, b, c] = this->matrices(draw, here);
            BatchOptions options;
            options.whole_a = &a.shape();
            options.whole_b = &b.shape();
            auto steps = batch("ik,kj->ij", c, {}, options);
            for (const auto& [lo, hi] : {std::pair{8, 20}, {0, 4}, {4, 8}}) steps.add(a, b, {{'k', lo, hi}});
            const auto report = steps.finish(0.5);
            EXPECT_FALSE(report.as_one_call);
            EXPECT_EQ(report.why_not, "contracted ranges do not come in ascending order");
            EXPECT_GT(report.left_out, 0);
            for (const double n : c.shape().norms()) EXPECT_GE(n, 0.5);
            bits[here] = checksum(c);
        }
        EXPECT_EQ(bits[0], bits[1]);
    }
    // C small beside A and B: sums in segments, in each batch.
    std::uint64_t bits[2];
    const TileGrid long_a{Tiling{4}, Tiling::uniform(4000, 50)}, long_b{Tiling::uniform(4000, 50), Tiling{4}};
    for (const bool here : {false, true}) {
        const auto place = [&](const TileGrid& grid) {
            return here ? Placement() : Placement(this->ranks, Distribution::even(grid, this->ranks.size()));
        };
        const auto a = Tensor<T>::random(Shape::dense(long_a), 1, 0, place(long_a));
        const auto b = Tensor<T>::random(Shape::dense(long_b), 2, 0, place(long_b));
        Tensor<T> c(Shape(TileGrid{Tiling{4}, Tiling{4}}), place(TileGrid{Tiling{4}, Tiling{4}}));
        BatchOptions options;
        options.whole_a = &a.shape();
        options.whole_b = &b.shape();
        auto steps = batch("ik,kj->ij", c, {}, options);
        steps.add(a, b, {{'k', 0, 2000}});
        steps.add(a, b, {{'k', 2000, 4000}});
        const auto report = steps.finish();
        EXPECT_FALSE(report.as_one_call);
        EXPECT_NE(report.why_not.find("segments"), std::string::npos);
        bits[here] = checksum(c);
    }
    EXPECT_EQ(bits[0], bits[1]);
}

TYPED_TEST(Batch, PlansAreKeptAndSparsityToo) {
    using T = TypeParam;
    Draw draw(7);
    auto [a, b, c] = this->matrices(draw, false);
    const auto tiles = std::vector<std::int64_t>(c.shape().ordinals().begin(), c.shape().ordinals().end());
    const Tensor<T> old = c;
    BatchOptions options;
    options.retain_sparsity = true;
    auto steps = batch("ik,kj->ij", c, {}, options);
    for (int n = 0; n < 3; ++n) steps.add(a, b);  // the same tiles again and again
    steps.add(Tensor<T>(a), Tensor<T>(b));        // given up when they are used
    const auto report = steps.finish();
    EXPECT_EQ(report.plans, 1);
    EXPECT_EQ(report.batches, 4);
    EXPECT_FALSE(report.as_one_call);
    EXPECT_EQ(report.why_not, "the whole operands were not declared");
    EXPECT_TRUE(std::ranges::equal(c.shape().ordinals(), tiles));
    auto wanted = old;
    contract_into("ik,kj->ij", a, b, wanted, {}, {.alpha = 4, .beta = 1, .result_shape = &old.shape()});
    const double eps = std::is_same_v<RealOf<T>, float> ? 1e-5 : 1e-13;
    EXPECT_LT(norm(add(T(1), c, T(-1), wanted)), eps * norm(wanted));
    // It is empty now.
    const auto before = c;
    EXPECT_EQ(steps.finish().batches, 0);
    EXPECT_TRUE(before == c);
}

TEST(BatchErrors, LeaveCAsItWas) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling{2, 3}, Tiling{2, 3}}, other{Tiling{2, 3}, Tiling{5}};
    const auto on = [&](const TileGrid& g) {
        return Tensor<double>::random(Shape::dense(g), 1, 0, {ranks, Distribution::even(g, ranks.size())});
    };
    const auto a = on(grid), x = on(other);
    auto c = on(grid);
    const auto before = checksum(c);
    EXPECT_EQ(message([&] { batch("ij->ij", c); }), "batch 'ij->ij': has one operand, two are needed");
    EXPECT_EQ(message([&] { batch("ik,k->i", c); }), "batch 'ik,k->i': C has rank 2, but the result's labels 'i'");
    auto steps = batch("ik,kj->ij", c);
    EXPECT_NE(message([&] { steps.add(a, a, {{'k', 0, 9}}); }).find("bounds 0..9 of label 'k'"), std::string::npos);
    EXPECT_NE(message([&] { steps.add(a, x); }).find("label 'j' is 5 in 2 tiles of 2..3 at index 1 of C"),
              std::string::npos);
    steps.add(a, a);
    EXPECT_NE(message([&] { steps.finish(-1); }).find("filter -1 is not a finite number"), std::string::npos);
    EXPECT_EQ(checksum(c), before);
    if (ranks.size() == 1) {  // a failure at work ends all ranks, where there are several
        auto huge = a;
        scale(huge, 1e160);
        auto more = batch("ik,kj->ij", c);
        EXPECT_NE(message([&] { more.add(huge, huge); }).find("holds NaN or infinity"), std::string::npos);
        EXPECT_NE(message([&] { more.add(a, a); }).find("an earlier batch has failed"), std::string::npos);
        EXPECT_NE(message([&] { more.finish(); }).find("an earlier batch has failed"), std::string::npos);
        EXPECT_EQ(checksum(c), before);
    }
}

}  // namespace
}  // namespace tessera
