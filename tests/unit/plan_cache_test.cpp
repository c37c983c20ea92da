// Plans that contract() keeps: found again by what they depend on and by nothing else, bounded, given up on demand, and
// used by several threads at once.

#include "contract/plan_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/parallel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/storage/memory.hpp"

namespace tessera {
namespace {

constexpr const char* kSpec = "ik,kj->ij";

struct Small {
    Tiling i{3, 4, 5}, k{6, 2};
    Shape shape_a{
        TileGrid{i, k},
        {{TileOrdinal{0}, 1}, {TileOrdinal{1}, 2}, {TileOrdinal{2}, 1}, {TileOrdinal{4}, 3}, {TileOrdinal{5}, 1}}};
    Tensor<double> a = Tensor<double>::random(shape_a, 1), b = Tensor<double>::random(Shape::dense(TileGrid{k, i}), 2);
};

/// Whether the call finds its plan.
template <class Call>
bool finds(Call&& call) {
    const auto before = kept_plans();
    call();
    const auto after = kept_plans();
    EXPECT_EQ(after.found + after.made, before.found + before.made + 1);
    return after.found > before.found;
}

TEST(PlanCache, FindsWhatDiffersInNormsAlone) {
    release_memory();
    const Small x;
    const auto first = contract(kSpec, x.a, x.b);
    EXPECT_GT(first.report.plan_seconds, 0);
    Contraction<double> again;
    EXPECT_TRUE(finds([&] { again = contract(kSpec, x.a, x.b); }));
    EXPECT_TRUE(again.tensor == first.tensor);
    EXPECT_EQ(again.report.plan_seconds, 0);
    EXPECT_EQ(again.report.flops, first.report.flops);
    EXPECT_EQ(again.report.peak_host_bytes, first.report.peak_host_bytes);
    // Other data, in a shape that was made anew.
    const Shape same{
        TileGrid{Tiling{3, 4, 5}, Tiling{6, 2}},
        {{TileOrdinal{0}, 7}, {TileOrdinal{1}, 7}, {TileOrdinal{2}, 7}, {TileOrdinal{4}, 7}, {TileOrdinal{5}, 7}}};
    const auto other = Tensor<double>::random(same, 9);
    EXPECT_TRUE(finds([&] { again = contract(kSpec, other, x.b); }));
    EXPECT_TRUE(again.tensor == execute(plan(kSpec, other, x.b), other, x.b).tensor);
    for (std::int64_t s = 0; s < again.tensor.tile_count(); ++s)
        EXPECT_EQ(again.tensor.shape().norm_of(s),
                  execute(plan(kSpec, other, x.b), other, x.b).tensor.shape().norm_of(s));
}

TEST(PlanCache, AnythingElseThatDiffersIsPlannedAnew) {
    release_memory();
    const Small x;
    contract(kSpec, x.a, x.b);
    const auto anew = [&](const char* spec, const Tensor<double>& a, const Tensor<double>& b,
                          const Resources& here = {}, const ContractOptions& options = {},
                          const PlanOptions& how = {}) {
        Contraction<double> got;
        EXPECT_FALSE(finds([&] { got = contract(spec, a, b, here, options, how); })) << spec;
        EXPECT_TRUE(got.tensor == execute(plan(spec, a, b, here, options, how), a, b).tensor) << spec;
        EXPECT_TRUE(finds([&] { contract(spec, a, b, here, options, how); })) << spec;
    };
    anew("ik,kj->ji", x.a, x.b);
    anew(kSpec, Tensor<double>::random(Shape::dense(x.a.grid()), 1), x.b);  // one tile more
    const Tiling other_k{5, 3}, other_i{4, 4, 4};                           // as many tiles, of other sizes
    const auto b = Tensor<double>::random(Shape::dense(TileGrid{other_k, x.i}), 2);
    Tensor<double> a = Tensor<double>::random(
        Shape::from_sorted(TileGrid{x.i, other_k}, {0, 1, 2, 4, 5}, std::vector<double>(5, 1.0)), 1);
    anew(kSpec, a, b);
    anew(kSpec, x.a, Tensor<double>::random(Shape::dense(TileGrid{x.k, other_i}), 2));
    anew(kSpec, x.a, x.b, {.threads = 1});
    anew(kSpec, x.a, x.b, {.memory = 1 << 20});
    anew(kSpec, x.a, x.b, {}, {.alpha = 2});
    anew(kSpec, x.a, x.b, {}, {.alpha = 0.0});
    anew(kSpec, x.a, x.b, {}, {.alpha = -0.0});
    anew(kSpec, x.a, x.b, {}, {}, {.algorithm = Algorithm::stationary_b});
    const Shape one = Shape::from_sorted(TileGrid{x.i, x.i}, {4}, {1.0}),
                two = Shape::from_sorted(one.grid(), {5}, {1.0});
    anew(kSpec, x.a, x.b, {}, {.result_shape = &one});
    anew(kSpec, x.a, x.b, {}, {.result_shape = &two});
    // Complex numbers of the same shapes, conjugated or not.
    using Z = std::complex<double>;
    const auto za = convert<Z>(x.a);
    auto zb = Tensor<Z>::random(x.b.shape(), 5);
    Contraction<Z> got;
    EXPECT_FALSE(finds([&] { got = contract(kSpec, za, zb); }));
    EXPECT_FALSE(finds([&] { got = contract(kSpec, za, zb, {}, {.conjugate_b = true}); }));
    EXPECT_TRUE(got.tensor == execute(plan(kSpec, za, zb, {}, {.conjugate_b = true}), za, zb).tensor);
    // Made on demand.
    const GeneratedTensor<double> made{
        x.b.shape(), [](const TileInfo&, std::span<double> t) { std::fill(t.begin(), t.end(), 0.25); }};
    EXPECT_FALSE(finds([&] { contract(kSpec, x.a, made); }));
    EXPECT_TRUE(finds([&] { contract(kSpec, x.a, made); }));
}

TEST(PlanCache, KnowsWhatIsAddedTo) {
    release_memory();
    const Small x;
    const TileGrid grid{x.i, x.i};
    const Tensor<double> whole = Tensor<double>::random(Shape::dense(grid), 3);
    const Tensor<double> part = Tensor<double>::random(Shape::from_sorted(grid, {0, 8}, {1.0, 1.0}), 4);
    for (const auto* start : {&whole, &part})
        for (const double beta : {0.0, 0.5}) {
            Tensor<double> expected = *start, c = *start, again = *start;
            execute_into(plan_into(kSpec, x.a, x.b, expected, {}, {.beta = beta}), x.a, x.b, expected);
            EXPECT_FALSE(finds([&] { contract_into(kSpec, x.a, x.b, c, {}, {.beta = beta}); }));
            EXPECT_TRUE(finds([&] { contract_into(kSpec, x.a, x.b, again, {}, {.beta = beta}); }));
            EXPECT_TRUE(c == expected);
            EXPECT_TRUE(again == expected);
        }
    EXPECT_THROW(contract(kSpec, x.a, x.b, {}, {.beta = 0.5}), UserError);
}

TEST(PlanCache, DoesNotServeAFilter) {
    release_memory();
    const Small x;
    for (int turn = 0; turn < 2; ++turn) {
        const auto before = kept_plans();
        const auto got = contract(kSpec, x.a, x.b, {}, {.filter = 0.7});
        EXPECT_TRUE(got.tensor == execute(plan(kSpec, x.a, x.b, {}, {.filter = 0.7}), x.a, x.b).tensor);
        EXPECT_EQ(kept_plans().found + kept_plans().made, before.found + before.made);
    }
    EXPECT_EQ(kept_plans().plans, 0);
}

TEST(PlanCache, DoesNotServeBounds) {
    release_memory();
    const Small x;
    const ContractOptions part{.bounds = {{'k', 1, 7}}};
    const auto whole = execute(plan(kSpec, x.a, x.b), x.a, x.b),
               bounded = execute(plan(kSpec, x.a, x.b, {}, part), x.a, x.b);
    EXPECT_FALSE(whole.tensor == bounded.tensor);
    for (int turn = 0; turn < 2; ++turn) {
        EXPECT_TRUE(contract(kSpec, x.a, x.b).tensor == whole.tensor);
        EXPECT_TRUE(contract(kSpec, x.a, x.b, {}, part).tensor == bounded.tensor);
    }
}

TEST(PlanCache, RefusalsAreSaidEveryTime) {
    release_memory();
    const Small x;
    for (int turn = 0; turn < 2; ++turn) {
        EXPECT_THROW(contract(kSpec, x.a, x.b, {.memory = 100}), BudgetError);
        EXPECT_THROW(contract(kSpec, x.b, x.b), UserError);
        EXPECT_THROW(contract(kSpec, x.a, x.b, {}, {.alpha = NAN}), UserError);
    }
    EXPECT_EQ(kept_plans().plans, 0);
}

TEST(PlanCache, DiagonalsAndSumsAreKeptToo) {
    release_memory();
    const Tiling i{2, 3}, k{4, 1};
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{i, i, k, k}), 3);
    const auto b = Tensor<double>::random(Shape::dense(TileGrid{k, i}), 4);
    Contraction<double> first, again;
    EXPECT_FALSE(finds([&] { first = contract("iilk,kj->ij", a, b); }));
    EXPECT_TRUE(finds([&] { again = contract("iilk,kj->ij", a, b); }));
    EXPECT_TRUE(first.tensor == again.tensor);
}

TEST(PlanCache, IsBoundedAndGivenUp) {
    release_memory();
    const Small x;
    const auto most = kept_plans();
    EXPECT_EQ(most.plans, 0);
    EXPECT_EQ(most.bytes, 0);
    for (std::int64_t n = 0; n < most.most_plans + 40; ++n) {
        contract(kSpec, x.a, x.b, {}, {.alpha = 1.0 + static_cast<double>(n)});
        const auto now = kept_plans();
        EXPECT_LE(now.plans, now.most_plans);
        EXPECT_LE(now.bytes, now.most_bytes);
    }
    EXPECT_EQ(kept_plans().plans, most.most_plans);
    // The last ones are there, the first ones are not.
    EXPECT_TRUE(finds([&] { contract(kSpec, x.a, x.b, {}, {.alpha = 100.0}); }));
    EXPECT_FALSE(finds([&] { contract(kSpec, x.a, x.b, {}, {.alpha = 1.0}); }));
    release_memory();
    EXPECT_EQ(kept_plans().plans, 0);
    EXPECT_EQ(kept_plans().bytes, 0);
    EXPECT_FALSE(finds([&] { contract(kSpec, x.a, x.b, {}, {.alpha = 100.0}); }));
}

TEST(PlanCache, IsBoundedInBytes) {
    const Small x;
    const OperandShape a = x.a.shape(), b = x.b.shape();
    const Resources here;
    const PlanOptions how;
    std::vector<ContractOptions> options(20);
    for (std::size_t i = 0; i < options.size(); ++i) options[i].alpha = static_cast<double>(i + 1);
    const auto key = [&](std::size_t i) {
        return PlanKey{kSpec, a, b, nullptr, ScalarKind::f64, here, self_communicator(), options[i], how};
    };
    PlanCache one(100, 1 << 20);
    one.keep(key(0), plan(kSpec, x.a, x.b, here, options[0]));
    const auto each = one.kept().bytes;
    EXPECT_GT(each, plan(kSpec, x.a, x.b).plan().metadata_bytes());
    PlanCache three(100, 3 * each + each / 2), none(100, each - 1);
    for (std::size_t i = 0; i < options.size(); ++i) {
        if (i > 0) {
            EXPECT_TRUE(three.find(key(0)));  // used again and again, so others go
        }
        three.keep(key(i), plan(kSpec, x.a, x.b, here, options[i]));
        none.keep(key(i), plan(kSpec, x.a, x.b, here, options[i]));
        EXPECT_LE(three.kept().bytes, three.kept().most_bytes);
    }
    EXPECT_EQ(three.kept().plans, 3);
    EXPECT_EQ(none.kept().plans, 0);
    EXPECT_TRUE(three.find(key(0)) && three.find(key(18)) && three.find(key(19)));
    EXPECT_FALSE(three.find(key(17)));
    three.clear();
    EXPECT_EQ(three.kept().bytes, 0);
}

TEST(PlanCache, SeveralThreadsAtOnce) {
    release_memory();
    const Small x;
    std::vector<Tensor<double>> expected;
    for (int n = 0; n < 8; ++n)
        expected.push_back(execute(plan(kSpec, x.a, x.b, {.threads = 2}, {.alpha = 1.0 + n}), x.a, x.b).tensor);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int turn = 0; turn < 100; ++turn) {
                const int n = (turn + t) % 8;
                const auto got = contract(kSpec, x.a, x.b, {.threads = 2}, {.alpha = 1.0 + n});
                if (!(got.tensor == expected[static_cast<std::size_t>(n)])) ++wrong;
                if (turn % 37 == 0) release_memory();
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(SmallWork, IsDoneByOneThread) {
    const Small x;
    EXPECT_EQ(contract(kSpec, x.a, x.b, {.threads = 8}).report.threads, 1);
    // And large work by all, the same bits.
    const auto big =
        Tensor<double>::random(Shape::dense(TileGrid{Tiling::uniform(400, 50), Tiling::uniform(400, 50)}), 1);
    const auto all = contract(kSpec, big, big, {.threads = 4}), alone = contract(kSpec, big, big, {.threads = 1});
    EXPECT_EQ(all.report.threads, 4);
    EXPECT_EQ(alone.report.threads, 1);
    EXPECT_TRUE(all.tensor == alone.tensor);
}

}  // namespace
}  // namespace tessera
