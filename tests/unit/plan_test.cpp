// Plans of random problems for random machines go through validate; broken ones do not; counted work is what the
// problem has; the smallest budget that is named works.

#include "tessera/plan/plan.hpp"

#include <gtest/gtest.h>

#include <set>

#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/planned_contraction.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/problems/problem.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using testing::Case;
using testing::kAlgorithms;
using testing::many_ranks;
using testing::plan_of;
using testing::Random;
using testing::random_case;
using testing::random_shape;
using testing::random_tiling;

TEST(Plan, RandomPlansAreValidAndDeterministic) {
    Random r(5);
    for (int trial = 0; trial < 1000; ++trial) {
        auto c = random_case(r);
        const Plan plan = plan_of(c);
        ASSERT_NO_THROW(validate(plan)) << trial;
        ASSERT_TRUE(plan == plan_of(c));
        // A budget between the smallest and what the plan took without one.
        c.request.host_memory = 1;
        try {
            plan_of(c);
            ASSERT_EQ(plan.counts.peak_host_bytes, 0);
        } catch (const BudgetError& e) {
            for (const auto memory : {e.smallest_bytes(), (e.smallest_bytes() + plan.counts.peak_host_bytes) / 2}) {
                c.request.host_memory = memory;
                const Plan tight = plan_of(c);
                ASSERT_NO_THROW(validate(tight, {memory, 0})) << trial;
                ASSERT_EQ(tight.counts.flops, plan.counts.flops);
                ASSERT_EQ(tight.counts.made_tiles, plan.counts.made_tiles);
            }
        }
    }
}

TEST(Plan, RandomPlansOfManyRanksAndDevices) {
    Random r(11);
    int refused = 0, copies = 0, sends = 0, segments = 0, worst_fit = 0;
    for (int trial = 0; trial < 2500; ++trial) {
        auto c = random_case(r);
        many_ranks(r, c, trial % 50 == 0 ? 200 : 7, 4);
        Plan plan;
        try {
            plan = plan_of(c);
        } catch (const UserError&) {  // split_k without segments, replicate_b without rows
            ++refused;
            continue;
        }
        ASSERT_NO_THROW(validate(plan)) << trial << "\n" << explain(plan);
        ASSERT_TRUE(plan == plan_of(c)) << trial;
        copies += plan.counts.copied_bytes > 0;
        sends += plan.counts.sent_bytes > 0;
        segments += plan.segments > 1;
        worst_fit += plan.blocks == std::vector{Blocks::worst_fit};
        if (plan.devices_per_rank == 0 || plan.products.empty()) continue;
        // The smallest device that works, and one in between.
        c.request.how.algorithm = plan.algorithm;
        c.request.device_memory = 1;
        std::int64_t smallest = 0;
        try {
            plan_of(c);
            ASSERT_TRUE(false) << "one byte was enough";
        } catch (const BudgetError& e) {
            smallest = e.smallest_bytes();
        }
        for (const auto memory : {smallest, smallest + smallest / 2, 4 * smallest}) {
            c.request.device_memory = memory;
            const Plan tight = plan_of(c);
            ASSERT_NO_THROW(validate(tight, {0, memory})) << trial << "\n" << explain(tight);
            copies += tight.counts.copied_bytes > 0;
        }
        c.request.device_memory = smallest - 1;
        ASSERT_THROW(plan_of(c), BudgetError) << trial;
    }
    EXPECT_LT(refused, 1200);
    EXPECT_GT(copies, 100);
    EXPECT_GT(sends, 500);
    EXPECT_GT(segments, 100);
    EXPECT_GT(worst_fit, 100);
}

TEST(Plan, ThousandsOfDevices) {
    Case c;
    const auto t = Tiling::uniform(4000, 100);
    c.a = Shape::dense({t, t});
    c.b = Shape::dense({t, t});
    c.machine.ranks = 768;
    c.machine.devices_per_rank = 6;
    c.machine.device.memory = 16LL << 30;
    for (const auto algorithm : {Algorithm::stationary_b, Algorithm::outer_product, Algorithm::replicate_b}) {
        c.request.how.algorithm = algorithm;
        const Plan plan = plan_of(c);
        ASSERT_NO_THROW(validate(plan)) << name(algorithm);
        EXPECT_EQ(plan.counts.products, 64000);
    }
}

TEST(Plan, ProductsAndResultAreTheSameForAllAlgorithms) {
    Random r(3);
    for (int trial = 0; trial < 40; ++trial) {
        auto c = random_case(r);
        c.machine.ranks = 4;
        KeptVector<TileProduct> first;
        for (const auto algorithm : kAlgorithms) try {
                c.request.how.algorithm = algorithm;
                auto plan = plan_of(c);
                if (first.empty()) first = plan.products;
                EXPECT_EQ(plan.products, first) << name(algorithm);
            } catch (const UserError&) {
            }
    }
}

TEST(Plan, AutoTakesTheCheapest) {
    // C tiny: k is dealt out. B tiny: rows stay. The plan says what it weighed.
    Case c;
    c.machine.ranks = 4;
    c.machine.gemm = {1e10, 20};
    c.machine.network = {1e9, 1e-6};
    const auto small = Tiling::uniform(32, 32), large = Tiling::uniform(64000, 500);
    c.a = Shape::dense({small, large});
    c.b = Shape::dense({large, small});
    const auto split = plan_of(c).algorithm;
    EXPECT_TRUE(split == Algorithm::split_k || split == Algorithm::split_grid);
    c.a = Shape::dense({large, small});
    c.b = Shape::dense({small, small});
    const auto plan = plan_of(c);
    EXPECT_EQ(plan.algorithm, Algorithm::replicate_b);
    ASSERT_EQ(plan.candidates.size(), 5u);
    for (const auto& k : plan.candidates) EXPECT_EQ(k.chosen, k.algorithm == Algorithm::replicate_b);
    EXPECT_NE(explain(plan).find("weighed"), std::string::npos);
}

/// Sums over a long k with many ranks: layers of k on grids of ranks, even work, and no more sent than 2.5D products
/// do.
TEST(Plan, LongSumsOnManyRanksAreEven) {
    struct Want {
        int ranks;
        double even;  // mean over largest flops of a rank
    };
    const auto p = make_problem("synthetic:1000,1000,1000000,0.1,20,60");
    for (const Want& want : {Want{24, 0.9}, Want{100, 0.85}, Want{256, 0.75}}) {
        auto machine = read_machine("frontier").machine;
        machine.ranks = want.ranks;
        machine.devices_per_rank = 0;
        const auto planned = plan_for<double>(machine, p.spec, p.a, {p.b, SourceKind::stored}, {}, {}, {});
        const auto& plan = planned.plan();
        EXPECT_EQ(plan.algorithm, Algorithm::split_grid) << explain(planned);
        double most = 0, all = 0;
        for (const auto& n : plan.rank_counts) {
            most = std::max(most, n.flops);
            all += n.flops;
        }
        EXPECT_GE(all / want.ranks, want.even * most) << explain(planned);
        const int layers = want.ranks / (plan.grid_rows * plan.grid_cols);
        const double bound = 8.0 * (static_cast<double>(p.a.elements()) * (plan.grid_cols - 1) +
                                    static_cast<double>(p.b.elements()) * (plan.grid_rows - 1) +
                                    static_cast<double>(plan.c.elements()) * (layers - 1));
        EXPECT_LE(static_cast<double>(plan.counts.sent_bytes), bound) << explain(planned);
    }
}

/// On one rank the algorithms send nothing and load the same: all are listed with their figures, and why one is taken.
TEST(Plan, OneRankListsEveryAlgorithm) {
    for (const int devices : {0, 1, 3})
        for (const auto source : {SourceKind::stored, SourceKind::host_made}) {
            Case c;
            const auto t = Tiling::uniform(2000, 100);
            c.a = c.b = Shape::dense({t, t});
            c.machine.gemm = {1e10, 0};
            c.machine.make_bytes_per_second = 1e9;
            c.machine.devices_per_rank = devices;
            c.machine.device = {8 << 20, {1e12, 0}, 0, 0};
            c.machine.host_to_device = c.machine.device_to_host = {1e9, 0};
            c.request.source_b = source;
            const Plan plan = plan_of(c);
            std::set<Algorithm> listed;
            int chosen = 0;
            for (const auto& k : plan.candidates) {
                listed.insert(k.algorithm);
                chosen += k.chosen;
                EXPECT_EQ(k.bytes_sent, 0);
                EXPECT_GT(k.seconds_predicted, 0);
                EXPECT_EQ(k.bytes_loaded > 0, devices > 0);
                if (k.chosen) {
                    EXPECT_EQ(k.algorithm, plan.algorithm);
                }
                // What the others are said to cost is what their own plans come to.
                if (k.algorithm == plan.algorithm || !k.possible) continue;
                auto other = c;
                other.request.how.algorithm = k.algorithm;
                const Plan theirs = plan_of(other);
                EXPECT_EQ(theirs.counts.loaded_bytes, plan.counts.loaded_bytes) << name(k.algorithm);
                EXPECT_EQ(theirs.counts.made_tiles, plan.counts.made_tiles) << name(k.algorithm);
                EXPECT_NEAR(simulate(theirs, c.machine).seconds, simulate(plan, c.machine).seconds,
                            0.05 * simulate(plan, c.machine).seconds)
                    << name(k.algorithm) << " " << devices;
            }
            EXPECT_EQ(listed.size(), 5u);
            EXPECT_EQ(chosen, 1);
            EXPECT_NE(explain(plan).find("because"), std::string::npos);
        }
}

/// A grid that is asked for is the plan's, or the algorithm says that it has another.
TEST(Plan, AGivenGridIsTakenOrRefused) {
    Case c;
    const auto t = Tiling::uniform(800, 50), small = Tiling::uniform(24, 12), large = Tiling::uniform(8000, 100);
    c.machine.ranks = 4;
    c.request.how.grid_rows = c.request.how.grid_cols = 2;
    c.a = c.b = Shape::dense({t, t});
    for (const auto algorithm : {Algorithm::automatic, Algorithm::stationary_b, Algorithm::outer_product}) {
        c.request.how.algorithm = algorithm;
        const Plan plan = plan_of(c);
        EXPECT_EQ(std::pair(plan.grid_rows, plan.grid_cols), std::pair(2, 2)) << name(algorithm);
        EXPECT_TRUE(plan.given.grid_rows > 0);
        for (const auto& k : plan.candidates)
            if (k.algorithm == Algorithm::replicate_b) {
                EXPECT_FALSE(k.possible);
                EXPECT_NE(k.reason.find("4 x 1"), std::string::npos) << k.reason;
            }
    }
    c.request.how.algorithm = Algorithm::replicate_b;
    EXPECT_THROW(plan_of(c), UserError);
    c.request.how.grid_rows = 4;
    c.request.how.grid_cols = 1;
    EXPECT_EQ(plan_of(c).grid_rows, 4);
    c.a = Shape::dense({small, large});
    c.b = Shape::dense({large, small});
    c.request.how.algorithm = Algorithm::split_k;
    EXPECT_THROW(plan_of(c), UserError);
    c.request.how.grid_rows = 1;
    c.request.how.grid_cols = 4;
    EXPECT_EQ(plan_of(c).grid_cols, 4);
    // Nobody has this one: a vector has no columns to deal.
    c.spec = ContractionSpec("pk,k->p");
    c.a = Shape::dense({t, t});
    c.b = Shape::dense({t});
    c.request.how.algorithm = Algorithm::automatic;
    c.request.how.grid_rows = c.request.how.grid_cols = 2;
    try {
        const Plan plan = plan_of(c);
        EXPECT_EQ(std::pair(plan.grid_rows, plan.grid_cols), std::pair(2, 2));
    } catch (const UserError& e) {
        EXPECT_NE(std::string(e.what()).find("2 x 2"), std::string::npos) << e.what();
    }
}

/// With devices the host has a budget too: named, kept at exactly the smallest, and shown.
TEST(Plan, TheHostHasABudgetBesideDevices) {
    Random r(31);
    int refused = 0;
    for (int trial = 0; trial < 120; ++trial) {
        auto c = random_case(r);
        many_ranks(r, c, 4, 3);
        if (c.machine.devices_per_rank == 0) c.machine.devices_per_rank = 1;
        c.machine.device.memory = 1LL << 40;
        c.request.how.algorithm = r() % 2 ? Algorithm::stationary_b : Algorithm::outer_product;
        c.request.host_memory = 1;
        std::int64_t least = 0;
        try {
            ASSERT_EQ(plan_of(c).counts.peak_host_bytes, 0);
            continue;
        } catch (const BudgetError& e) {
            EXPECT_EQ(e.budget_bytes(), 1);
            EXPECT_NE(std::string(e.what()).find("host memory"), std::string::npos);
            least = e.smallest_bytes();
            ++refused;
        }
        c.request.host_memory = least;
        const Plan plan = plan_of(c);
        ASSERT_NO_THROW(validate(plan, {least, 0})) << trial;
        EXPECT_EQ(plan.budget, (PlanBudget{least, 1LL << 40}));
        EXPECT_NE(
            explain_json(plan).find("\"budget_bytes\":{\"device\":1099511627776,\"host\":" + std::to_string(least)),
            std::string::npos);
        c.request.host_memory = least - 1;
        EXPECT_THROW(plan_of(c), BudgetError);
    }
    EXPECT_GT(refused, 80);
    // Too little on the devices of every candidate: their budget is named, not the host's.
    Case c;
    const auto t = Tiling::uniform(800, 200);
    c.a = c.b = Shape::dense({t, t});
    c.machine.ranks = 4;
    c.machine.devices_per_rank = 1;
    c.machine.device.memory = 300 << 10;
    c.request.host_memory = 1LL << 40;
    try {
        plan_of(c);
        ADD_FAILURE();
    } catch (const BudgetError& e) {
        EXPECT_EQ(e.budget_bytes(), 300 << 10);
        EXPECT_NE(std::string(e.what()).find("device memory"), std::string::npos) << e.what();
    }
}

/// Links one by one: what all, the largest and the mean rank or device move.
TEST(Plan, LinksAreShownOneByOne) {
    Case c;
    const auto t = Tiling::uniform(800, 50);
    c.a = c.b = Shape::dense({t, t});
    c.machine.ranks = 3;
    c.machine.devices_per_rank = 2;
    c.machine.device.memory = 2 << 20;
    c.request.how.algorithm = Algorithm::outer_product;
    const Plan plan = plan_of(c);
    const auto text = explain(plan), json = explain_json(plan);
    for (const auto* link : {"network in", "network out", "host to device", "device to host", "device to device"})
        EXPECT_NE(text.find(std::string("transfers  ") + link), std::string::npos) << text;
    std::int64_t largest = 0, total = 0;
    for (const auto& n : plan.rank_counts) {
        largest = std::max(largest, n.received_bytes);
        total += n.received_bytes;
    }
    EXPECT_EQ(total, plan.counts.sent_bytes);
    EXPECT_NE(json.find("\"network_in\":{\"largest\":" + std::to_string(largest)), std::string::npos) << json;
}

TEST(Plan, CountsAreTheProblems) {
    Random r(6);
    Case c;
    c.a = random_shape(r, {random_tiling(r, 6, 400), Tiling::uniform(900, 150)}, 0.5);
    c.b = random_shape(r, {Tiling::uniform(900, 150), random_tiling(r, 6, 400)}, 0.5);
    double flops = 0;
    std::int64_t products = 0;
    for (auto x : c.a.ordinals())
        for (auto y : c.b.ordinals()) {
            const auto ca = c.a.grid().coordinates(TileOrdinal{x}), cb = c.b.grid().coordinates(TileOrdinal{y});
            if (ca[1] != cb[0]) continue;
            ++products;
            flops += 2.0 * static_cast<double>(c.a.grid().tile_elements(TileOrdinal{x}) *
                                               c.b.grid().tile_extents(TileOrdinal{y})[1]);
        }
    c.machine.ranks = 3;
    c.machine.devices_per_rank = 2;
    c.machine.device.memory = 1 << 24;
    const Plan plan = plan_of(c);
    EXPECT_EQ(plan.counts.products, products);
    EXPECT_DOUBLE_EQ(plan.counts.flops, flops);
    const auto text = explain(plan);
    std::size_t width = 0, at = 0;
    for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        width = std::max(width, end - at);
    EXPECT_LE(width, 100u) << text;
    EXPECT_NE(explain_json(plan).find("\"products\":" + std::to_string(products)), std::string::npos);
}

/// Where A and B fit beside some of C nothing is loaded twice, and C leaves in blocks while others are worked on.
TEST(Plan, WhatFitsStaysOnTheDevice) {
    Random r(12);
    const auto m = Tiling::uniform(20'000, 500), n = Tiling::uniform(30'000, 600), k = Tiling::uniform(9'000, 700);
    Case c;
    c.a = random_shape(r, {m, k}, 0.4);
    c.b = random_shape(r, {k, n}, 0.4);
    const auto bytes = [](const Shape& s) { return s.elements() * 8; };
    const auto all_c = Shape::dense({m, n}).elements() * 8, operands = bytes(c.a) + bytes(c.b);
    const std::int64_t plenty = std::int64_t{64} << 30, some = (operands + all_c * 2 / 3) * 33 / 32;
    struct Want {
        int devices;
        std::int64_t memory;
        Blocks blocks, cut;
    };
    for (const Want& want :
         {Want{1, plenty, Blocks::automatic, Blocks::stay}, Want{1, some, Blocks::automatic, Blocks::stay},
          Want{1, (operands + all_c / 4) * 33 / 32, Blocks::automatic, Blocks::stay},
          Want{1, plenty, Blocks::patches, Blocks::patches}, Want{2, plenty, Blocks::automatic, Blocks::patches}}) {
        c.machine.devices_per_rank = want.devices;
        c.machine.device.memory = want.memory;
        c.machine.device.gemm = {50e12, 200};
        c.machine.host_to_device = c.machine.device_to_host = {50e9, 1e-5};
        c.request.how.blocks = want.blocks;
        const Plan plan = plan_of(c);
        validate(plan, {0, want.memory});
        EXPECT_EQ(plan.blocks, std::vector{want.cut}) << explain(plan);
        std::int64_t loaded = 0;
        for (const auto& d : plan.device_counts) {
            if (want.cut == Blocks::stay) {
                EXPECT_GE(d.blocks, 4);
                EXPECT_LT(d.peak_bytes, plan.counts.bytes_a + plan.counts.bytes_b + plan.counts.bytes_c / 2);
            }
            loaded += d.loaded_bytes + d.copied_bytes;
        }
        if (want.cut != Blocks::stay) continue;
        // Rows of tiles are padded on the device; several devices need some of the tiles each.
        EXPECT_LE(loaded, (plan.counts.bytes_a + plan.counts.bytes_b) * want.devices * 101 / 100);
        EXPECT_GE(loaded, plan.counts.bytes_a / 2);
        // Most of C is on its way before the last products are done.
        std::int64_t early = 0;
        std::size_t last = 0;
        for (std::size_t i = 0; i < plan.steps.size(); ++i)
            if (plan.steps[i].kind == StepKind::compute) last = i;
        for (std::size_t i = 0; i < last; ++i)
            if (plan.steps[i].kind == StepKind::store) early += plan.steps[i].end - plan.steps[i].begin;
        EXPECT_GT(early, plan.c.tile_count() * 3 / 4);
    }
}

/// Products start with the first tiles and are not held up by loads, though all of the smaller operand comes first.
TEST(Plan, FirstStripIsAsLongAsItsLoads) {
    Case c;
    const auto m = Tiling::uniform(24'000, 1000), n = Tiling::uniform(48'000, 1000), k = Tiling::uniform(12'000, 1000);
    c.a = Shape::dense({m, k});
    c.b = Shape::dense({k, n});
    c.machine.devices_per_rank = 1;
    c.machine.device.memory = std::int64_t{64} << 30;
    c.machine.device.gemm = {50e12, 0};
    c.machine.host_to_device = c.machine.device_to_host = {50e9, 0};
    const Plan plan = plan_of(c);
    validate(plan, {0, c.machine.device.memory});
    EXPECT_EQ(plan.blocks, std::vector{Blocks::strips});
    const auto run = simulate(plan, c.machine);
    // 27.6 Tflop at 50 TF/s; the first chunk of 128 MiB before, the last sums behind.
    const double products = plan.counts.flops / 50e12;
    EXPECT_GT(run.seconds, products);
    EXPECT_LT(run.seconds, products + 0.03);
}

TEST(Plan, ValidateCatchesWhatIsBroken) {
    Random r(7);
    constexpr int kKinds = 18;
    int caught[kKinds] = {};
    for (int trial = 0; trial < 300; ++trial) {
        auto c = random_case(r);
        many_ranks(r, c, 4, trial % 2 ? 3 : 0);
        c.request.how.algorithm = trial % 3 ? Algorithm::stationary_b : Algorithm::outer_product;
        Plan good;
        try {
            c.request.device_memory = c.request.host_memory = c.machine.devices_per_rank > 0 ? 0 : 1;
            if (c.machine.devices_per_rank > 0) c.request.device_memory = 1;
            good = plan_of(c);
        } catch (const BudgetError& e) {
            (c.machine.devices_per_rank > 0 ? c.request.device_memory : c.request.host_memory) = e.smallest_bytes();
            good = plan_of(c);
        }
        if (good.products.size() < 4) continue;
        const auto breaks = [&](int kind, auto&& change) {
            Plan bad = good;
            if (!change(bad)) return;
            EXPECT_THROW(validate(bad), InternalError) << "kind " << kind << " trial " << trial;
            ++caught[kind];
        };
        breaks(0, [](Plan& p) { return p.chains.back().products > 0 && p.chains.back().products--; });
        breaks(1, [](Plan& p) { return p.arrivals.empty() ? false : (p.arrivals.pop_back(), true); });
        breaks(2, [](Plan& p) {
            bool any = false;
            for (auto& s : p.steps)
                if (s.kind == StepKind::compute && s.dependencies > 0) s.dependencies = 0, any = true;
            return any;
        });
        breaks(3, [](Plan& p) { return p.chains.front().finishes = !p.chains.front().finishes, true; });
        breaks(4, [](Plan& p) {
            if (p.arrivals.empty()) return false;
            p.arrivals.front().offset = 1LL << 50;
            return true;
        });
        breaks(5, [](Plan& p) {  // a message that nobody sends
            for (auto& s : p.steps)
                if (s.kind == StepKind::send) return s.kind = StepKind::join, s.begin = s.end = 0, true;
            return false;
        });
        breaks(6, [](Plan& p) { return p.rank_counts[0].sent_bytes += 8, true; });
        breaks(7, [](Plan& p) {
            if (p.finish_sums.empty()) return false;
            p.finish_sums.back() =
                p.finish_sums.front() == p.finish_sums.back() ? p.finish_sums.back() + 1 : p.finish_sums.front();
            return p.finish_sums.back() < static_cast<std::int32_t>(p.sums.size());
        });
        breaks(8, [](Plan& p) {  // what is loaded writes over what is in use
            for (auto& s : p.steps)
                if (s.kind == StepKind::evict) return s.dependencies = 0, true;
            return false;
        });
        breaks(9, [](Plan& p) {
            for (auto& at : p.places)
                if (at.a >= 0) return at.a = -1, p.source_a == SourceKind::host_made || p.devices_per_rank > 0;
            return false;
        });
        breaks(10, [](Plan& p) {  // a product that nobody knows of
            for (auto& chain : p.chains)
                if (p.filter == 0 && chain.parts == 1 && chain.products > 1 &&
                    chain.first_product + chain.products == static_cast<std::int64_t>(p.products.size()))
                    return --chain.products, p.products.pop_back(), --p.counts.products,
                           p.places.resize(std::min(p.places.size(), p.products.size())), true;
            return false;
        });
        breaks(11, [](Plan& p) {  // one twice, another never
            return p.filter == 0 && (p.products[1].a = p.products[0].a, p.products[1].b = p.products[0].b, true);
        });
        breaks(12, [](Plan& p) {  // another order of summation
            for (const auto& chain : p.chains)
                if (chain.products > 1)
                    return std::swap(p.products[chain.first_product], p.products[chain.first_product + 1]), true;
            return false;
        });
        breaks(13, [](Plan& p) { return p.rank_counts[0].peak_bytes > 0 && (p.rank_counts[0].peak_bytes = 0, true); });
        breaks(14, [](Plan& p) { return p.counts.sent_bytes += 8, true; });
        breaks(15, [](Plan& p) { return p.rank_counts[0].stored_c > 0 && (p.rank_counts[0].stored_c = 0, true); });
        breaks(16, [](Plan& p) { return !p.device_counts.empty() && (p.device_counts[0].stored_bytes += 16, true); });
        breaks(17, [](Plan& p) { return p.counts.flops *= 2, p.filter == 0; });
    }
    for (int kind = 0; kind < kKinds; ++kind) EXPECT_GT(caught[kind], 5) << "kind " << kind;
}

}  // namespace
}  // namespace tessera
