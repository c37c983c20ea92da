// Plan, then execute: the plan is the one that contract uses, serves other data of the same shapes and no other.

#include "tessera/contract/planned_contraction.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "support/back_end.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/problems/problem.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {
namespace {

using testing::back_end_resources;

void expect_refused(const std::function<void()>& call, const std::vector<std::string>& words) {
    try {
        call();
        FAIL() << "no error, expected one with: " << words[0];
    } catch (const UserError& e) {
        for (const auto& w : words) EXPECT_NE(std::string(e.what()).find(w), std::string::npos) << e.what();
    }
}

/// Three by two tiles of A, two by three of B; tile (1, 1) of A is zero.
struct Small {
    Tiling i{3, 4, 5}, k{6, 2};
    Shape shape_a{
        TileGrid{i, k},
        {{TileOrdinal{0}, 1}, {TileOrdinal{1}, 2}, {TileOrdinal{2}, 1}, {TileOrdinal{4}, 3}, {TileOrdinal{5}, 1}}};
    Shape shape_b = Shape::dense(TileGrid{k, i});
    Tensor<double> a = Tensor<double>::random(shape_a, 1), b = Tensor<double>::random(shape_b, 2);
};
constexpr const char* kSpec = "ik,kj->ij";

TEST(Planned, FromShapesItIsThePlanOfTheOperands) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Small x;
    const auto here = back_end_resources();
    const auto shapes = plan<double>(kSpec, x.shape_a, x.shape_b, here);
    // Norms of the data are below those of the shapes; a plan without a filter looks at neither.
    Tensor<double> a = x.a, b = x.b;
    const auto operands = plan(kSpec, a, b, here);
    EXPECT_EQ(shapes.plan().products, operands.plan().products);
    EXPECT_EQ(shapes.plan().steps, operands.plan().steps);
    EXPECT_EQ(shapes.plan().counts, operands.plan().counts);
    // From shapes with the same norms: the same in everything.
    EXPECT_EQ(plan<double>(kSpec, a.shape(), b.shape(), here).plan(), operands.plan());
    EXPECT_EQ(explain(plan<double>(kSpec, a.shape(), b.shape(), here)), explain(operands));
    // With a filter too.
    const ContractOptions filtered{.filter = 0.5};
    EXPECT_EQ(plan<double>(kSpec, a.shape(), b.shape(), here, filtered).plan(),
              plan(kSpec, a, b, here, filtered).plan());
}

TEST(Planned, TheCountsAreThoseOfContract) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Small x;
    const auto here = back_end_resources();
    for (const double filter : {0.0, 0.7}) {
        const auto planned = plan(kSpec, x.a, x.b, here, {.filter = filter});
        const auto report = contract(kSpec, x.a, x.b, here, {.filter = filter}).report;
        EXPECT_EQ(planned.counts().flops, report.flops);
        EXPECT_EQ(planned.counts().products, report.products);
        EXPECT_EQ(planned.counts().bytes_c, report.bytes_c);
        EXPECT_EQ(planned.counts().loaded_bytes, report.loaded_bytes);
    }
}

TEST(Planned, ExecutedTwiceItGivesTheBitsOfContract) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Small x;
    const auto here = back_end_resources();
    const auto planned = plan(kSpec, x.a, x.b, here);
    const auto expected = contract(kSpec, x.a, x.b, here);
    EXPECT_TRUE(execute(planned, x.a, x.b).tensor == expected.tensor);
    EXPECT_TRUE(execute(planned, x.a, x.b).tensor == expected.tensor);
    // Other data of the same tiles.
    const auto other = Tensor<double>::random(x.shape_a, 7);
    const auto again = execute(planned, other, x.b);
    EXPECT_TRUE(again.tensor == contract(kSpec, other, x.b, here).tensor);
    EXPECT_EQ(again.report.plan_seconds, 0);
    EXPECT_FALSE(again.tensor == expected.tensor);
}

TEST(Planned, DiagonalsAndSumsOfAnOperandArePlannedFromShapesToo) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Tiling i{2, 3}, k{4, 1};
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{i, i, k, k}), 3);
    const auto b = Tensor<double>::random(Shape::dense(TileGrid{k, i}), 4);
    const auto here = back_end_resources();
    const auto planned = plan<double>("iilk,kj->ij", a.shape(), b.shape(), here);
    validate(planned.plan());
    EXPECT_EQ(planned.spec(), "iilk,kj->ij");
    const auto expected = contract("iilk,kj->ij", a, b, here);
    EXPECT_TRUE(execute(planned, a, b).tensor == expected.tensor);
    // The result's norms are within the bounds that the plan has.
    for (std::int64_t s = 0; s < expected.tensor.tile_count(); ++s)
        EXPECT_LE(expected.tensor.shape().norm_of(s), planned.plan().c.norm_of(s));
    expect_refused([&] { plan("iilk,kj->ij", a, b, here, {.filter = 1e-3}); }, {"filter 0.001", "diagonal"});
    EXPECT_NO_THROW(contract("iilk,kj->ij", a, b, here, {.filter = 1e-3}));
    // A plan for tiles that are made has no room for a whole stored operand beside its diagonal, nor the other way
    // round.
    const GeneratedTensor<double> made{a.shape(),
                                       [](const TileInfo&, std::span<double> t) { std::ranges::fill(t, 1.0); }};
    expect_refused([&] { execute(plan("iilk,kj->ij", made, b, here), a, b); }, {"A is stored"});
    expect_refused([&] { execute(planned, made, b); }, {"A is made on demand"});
    EXPECT_NO_THROW(execute(plan("iilk,kj->ij", made, b, here), made, b));
}

TEST(Planned, AFilterBindsItToTheNorms) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Small x;
    const auto here = back_end_resources();
    const auto planned = plan(kSpec, x.a, x.b, here, {.filter = 0.7});
    EXPECT_TRUE(execute(planned, x.a, x.b).tensor == contract(kSpec, x.a, x.b, here, {.filter = 0.7}).tensor);
    const auto other = Tensor<double>::random(x.shape_a, 7);
    expect_refused([&] { execute(planned, other, x.b); }, {"A: tile (0, 0) has norm", "filter"});
}

TEST(Planned, OtherOperandsAreRefusedByTheFirstTileThatDiffers) {
    const Small x;
    const auto planned = plan(kSpec, x.a, x.b);
    expect_refused([&] { execute(planned, Tensor<double>::random(Shape::dense(x.a.grid()), 1), x.b); },
                   {"A has tile (1, 1)", "not among the 5 tiles"});
    const auto fewer = filter(x.b, x.b.shape().norm_of(0) * 1.0000001);
    ASSERT_LT(fewer.tile_count(), x.b.tile_count());
    expect_refused([&] { execute(planned, x.a, fewer); }, {"B has no tile (", "among the 6 tiles"});
    const Tensor<double> tiled(Shape::dense(TileGrid{Tiling{12}, x.k}));
    expect_refused([&] { execute(planned, tiled, x.b); }, {"A: index 0 is 12 in 1 tile", "12 in 3 tiles"});
    expect_refused([&] { execute(planned, Tensor<double>(Shape::dense(TileGrid{x.i})), x.b); }, {"A has rank 1"});
    expect_refused([&] { execute(planned, Tensor<float>(x.shape_a), Tensor<float>(x.shape_b)); },
                   {"float32", "float64"});
    const GeneratedTensor<double> made{x.shape_b,
                                       [](const TileInfo&, std::span<double> t) { std::ranges::fill(t, 1.0); }};
    expect_refused([&] { execute(planned, x.a, made); }, {"B is made on demand", "stored"});
    expect_refused([&] { execute(plan(kSpec, x.a, made), x.a, x.b); }, {"B is stored"});
    auto c = Tensor<double>(Shape::dense(TileGrid{x.i, x.i}));
    expect_refused([&] { execute_into<double>(planned, x.a, x.b, c); }, {"plan_into"});
}

TEST(Planned, OtherSymmetryIsRefused) {
    const Tiling t = Tiling::uniform(12, 4);
    const auto square = Shape::dense({t, t});
    const auto a = Tensor<double>::random(square, 1), b = Tensor<double>::random(square, 2);
    const auto whole = add(1.0, a, 1.0, permute(a, Permutation{1, 0}));
    const auto half = with_symmetry(whole, "ij=ji");
    expect_refused([&] { execute(plan("ij,jk->ik", whole, b), half, b); },
                   {"A has the symmetry 'ij=ji'", "no symmetry"});
    expect_refused([&] { execute(plan("ij,jk->ik", half, b), whole, b); }, {"A has no symmetry", "'ij=ji'"});
    const auto within = plan("ij,jk->ik", whole, b, {}, {.bounds = {{'j', 1, 9}}});
    expect_refused([&] { execute(within, half, b); }, {"A has the symmetry 'ij=ji'"});
    for (const double beta : {0.0, 1.0}) {
        auto c = half;
        expect_refused([&] { execute_into(plan_into("ij,jk->ik", a, b, whole, {}, {.beta = beta}), a, b, c); },
                       {"C has the symmetry 'ij=ji'", "no symmetry"});
        EXPECT_TRUE(c == half);
        auto plain = whole;
        const ContractOptions symmetric{.beta = beta, .result_symmetry = "ij=ji"};
        expect_refused([&] { execute_into(plan_into("ij,kj->ik", a, a, half, {}, symmetric), a, a, plain); },
                       {"C has no symmetry", "'ij=ji'"});
        EXPECT_TRUE(plain == whole);
    }
    // The stored tiles are the same, the symmetry is not.
    const auto diagonal = Shape::from_coordinates({t, t}, {{0, 0}, {1, 1}, {2, 2}});
    const auto d = Tensor<double>::random(diagonal, 3);
    const auto d_half = with_symmetry(add(1.0, d, 1.0, permute(d, Permutation{1, 0})), "ij=ji");
    expect_refused([&] { execute(plan("ij,jk->ik", d, b), d_half, b); }, {"A has the symmetry 'ij=ji'"});
}

TEST(Planned, AnOperandThatWasMovedFromIsRefused) {
    Small x;
    const auto planned = plan(kSpec, x.a, x.b);
    const auto taken = std::move(x.a);
    expect_refused([&] { execute(planned, x.a, x.b); }, {"moved from"});
    expect_refused([&] { plan(kSpec, x.a, x.b); }, {"moved from"});
}

TEST(Planned, IntoAddsToTheCThatIsThere) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Small x;
    const auto here = back_end_resources();
    const ContractOptions options{.alpha = -0.5, .beta = 2};
    const auto old = Tensor<double>::random(Shape::dense(TileGrid{x.i, x.i}), 9);
    const auto planned = plan_into<double>(kSpec, x.shape_a, x.shape_b, old.shape(), here, options);
    auto one = old, two = old;
    execute_into<double>(planned, x.a, x.b, one);
    contract_into<double>(kSpec, x.a, x.b, two, here, options);
    EXPECT_TRUE(one == two);
    // Again, on what came out, as iterations do.
    execute_into<double>(planned, x.a, x.b, one);
    contract_into<double>(kSpec, x.a, x.b, two, here, options);
    EXPECT_TRUE(one == two);
    expect_refused([&] { execute(planned, x.a, x.b); }, {"execute_into"});
    expect_refused([&] { plan(kSpec, x.a, x.b, here, options); }, {"beta is 2", "plan_into"});
    // A C with a tile that the plan does not have, and one with other tilings.
    const Shape one_tile(TileGrid{x.i, x.k}, {{TileOrdinal{0}, 1}});
    const auto narrow = Tensor<double>::random(one_tile, 5);
    const auto few = plan_into<double>(kSpec, narrow.shape(), x.shape_b, Shape(TileGrid{x.i, x.i}), here, options);
    auto more = old;
    expect_refused([&] { execute_into<double>(few, narrow, x.b, more); }, {"C has tile (1, 0)"});
    EXPECT_TRUE(more == old);
    auto other = Tensor<double>(Shape::dense(TileGrid{x.k, x.i}));
    expect_refused([&] { execute_into<double>(planned, x.a, x.b, other); }, {"index 0 of C"});
}

TEST(Planned, ASinkTakesTheTiles) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Small x;
    const auto planned = plan(kSpec, x.a, x.b, back_end_resources());
    const auto expected = execute(planned, x.a, x.b).tensor;
    std::mutex lock;
    std::map<std::int64_t, std::vector<double>> tiles;
    const auto sink = [&](std::int64_t slot, std::span<const double> tile, double norm) {
        const std::lock_guard held(lock);
        EXPECT_EQ(norm, expected.shape().norm_of(slot));
        EXPECT_TRUE(tiles.emplace(slot, std::vector<double>(tile.begin(), tile.end())).second) << "twice";
    };
    const auto handed = execute(planned, x.a, x.b, sink);
    EXPECT_EQ(handed.shape, expected.shape());
    ASSERT_EQ(static_cast<std::int64_t>(tiles.size()), expected.tile_count());
    for (const auto& [slot, tile] : tiles) EXPECT_TRUE(std::ranges::equal(tile, expected.tile(slot)));
    tiles.clear();
    EXPECT_EQ(contract(kSpec, x.a, x.b, sink, back_end_resources()).shape, expected.shape());
    EXPECT_EQ(static_cast<std::int64_t>(tiles.size()), expected.tile_count());
    expect_refused([&] { execute(plan(kSpec, x.a, x.b, {}, {.filter = 1e-3}), x.a, x.b, sink); }, {"filter 0.001"});
}

TEST(Planned, SeveralThreadsExecuteOne) {
    const Small x;
    const auto planned = plan(kSpec, x.a, x.b, {.threads = 2});
    const auto expected = execute(planned, x.a, x.b).tensor;
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, copy = planned] {
            for (int n = 0; n < 50; ++n) wrong += !(execute(copy, x.a, x.b).tensor == expected);
        });
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Planned, ABudgetIsRefusedBeforeThereIsData) {
    const Small x;
    const auto free = plan<double>(kSpec, x.shape_a, x.shape_b);
    const auto needed = free.counts().peak_host_bytes;
    EXPECT_NO_THROW(plan<double>(kSpec, x.shape_a, x.shape_b, {.memory = needed}));
    try {
        plan<double>(kSpec, x.shape_a, x.shape_b, {.memory = needed - 1});
        ADD_FAILURE();
    } catch (const BudgetError& e) {
        EXPECT_EQ(e.smallest_bytes(), needed);
    }
}

TEST(Planned, ForAMachineThatIsNotHere) {
    const Problem p = make_problem("blocks:20,64,0.4");
    auto machine = read_machine("summit").machine;
    machine.ranks = 4;
    const auto planned = plan_for<double>(machine, p.spec, p.a, p.b);
    EXPECT_EQ(planned.plan().ranks, 4);
    EXPECT_EQ(planned.plan().devices_per_rank, machine.devices_per_rank);
    EXPECT_GT(simulate(planned, planned.machine()).seconds, 0);
    EXPECT_EQ(simulate(planned, "summit").seconds, simulate(planned, machine).seconds);
    const auto a = Tensor<double>::generate(p.a, p.make_a), b = Tensor<double>::generate(p.b, p.make_b);
    expect_refused([&] { execute(planned, a, b); }, {"described"});
}

TEST(Planned, AResultThatTheHostHasNoRoomForIsForASink) {
    const Tiling t = Tiling::uniform(512, 64);
    const Shape a = Shape::dense({t, t}), b = Shape::dense({t, t}), c = Shape::dense({t, t});
    const std::int64_t tensor = 512 * 512 * 8;
    auto machine = read_machine("summit").machine;
    machine.ranks = 1;
    const auto planned = [&](std::int64_t host, const Shape* given) {
        return plan_for<double>(machine, kSpec, a, {b, SourceKind::device_made}, {host, 0}, {.result_shape = given});
    };
    // With a given shape it is known before planning that the result does not fit.
    for (const Shape* given : {static_cast<const Shape*>(nullptr), &c}) {
        EXPECT_TRUE(planned(2 * tensor, given).result_fits());
        const auto handed = planned(2 * tensor - 1, given);
        EXPECT_FALSE(handed.result_fits());
        validate(handed.plan());
        EXPECT_NE(explain(handed).find("handed over"), std::string::npos);
        EXPECT_FALSE(planned(tensor, given).result_fits());
        EXPECT_THROW(planned(tensor - 1, given), BudgetError);
    }
}

TEST(Planned, AMachineFileGivesTheRates) {
    const Small x;
    const auto usual = plan(kSpec, x.a, x.b), given = plan(kSpec, x.a, x.b, {.machine = "laptop"});
    EXPECT_NE(usual.machine().gemm, given.machine().gemm);
    EXPECT_EQ(given.machine().gemm, read_machine("laptop").machine.gemm);
    // Threads and memory stay those at hand.
    EXPECT_EQ(usual.machine().threads_per_rank, given.machine().threads_per_rank);
    EXPECT_EQ(usual.machine().host_memory, given.machine().host_memory);
    EXPECT_TRUE(execute(usual, x.a, x.b).tensor == execute(given, x.a, x.b).tensor);
    expect_refused([&] { plan(kSpec, x.a, x.b, {.machine = "no-such-machine"}); }, {"no-such-machine"});
}

}  // namespace
}  // namespace tessera
