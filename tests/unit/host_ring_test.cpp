// Tiles of other ranks pass through a ring in host memory: which are there when, and plans of ranks whose hosts have no
// room for all they need.

#include "inspect/host_ring.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using testing::Case;
using testing::many_ranks;
using testing::plan_of;
using testing::Random;
using testing::random_case;

std::int64_t bytes_of_turn(const std::vector<RingUse>& turn) {
    return std::accumulate(turn.begin(), turn.end(), std::int64_t{0}, [](auto sum, auto& u) { return sum + u.bytes; });
}

/// Every turn finds its tiles whole, none in the place of another that is used in it or, as `after` says, before it.
void check_ring(const std::vector<std::vector<RingUse>>& turns, const RingPlan& plan, std::int64_t capacity) {
    struct There {
        std::int64_t offset, bytes;
        std::int32_t last;
    };
    std::map<std::pair<Operand, std::int32_t>, There> there;
    std::vector<There> gone;
    ASSERT_EQ(plan.turns.size(), turns.size());
    EXPECT_LE(plan.bytes, capacity);
    for (std::size_t t = 0; t < turns.size(); ++t) {
        const auto now = static_cast<std::int32_t>(t);
        for (const auto& r : plan.turns[t]) {
            ASSERT_GE(r.offset, 0);
            ASSERT_LE(r.offset + r.bytes, plan.bytes);
            ASSERT_LE(r.after, std::max(-1, now - 1 - plan.lookahead));
            if (const auto it = there.find({r.operand, r.slot}); it != there.end()) {
                gone.push_back(it->second);
                there.erase(it);
            }
            for (auto it = there.begin(); it != there.end();) {
                const auto& x = it->second;
                if (x.offset < r.offset + r.bytes && r.offset < x.offset + x.bytes) {
                    ASSERT_LT(x.last, now) << "two tiles of turn " << t << " share a place";
                    gone.push_back(x);
                    it = there.erase(it);
                } else {
                    ++it;
                }
            }
            for (const auto& x : gone) {
                const bool same_place = x.offset < r.offset + r.bytes && r.offset < x.offset + x.bytes;
                ASSERT_TRUE(!same_place || r.after >= x.last) << "turn " << t;
            }
            there[{r.operand, r.slot}] = {r.offset, r.bytes, now};
        }
        for (const auto& u : turns[t]) {
            const auto it = there.find({u.operand, u.slot});
            ASSERT_TRUE(it != there.end()) << "turn " << t << " misses tile " << u.slot;
            ASSERT_EQ(it->second.bytes, u.bytes);
            it->second.last = now;
        }
        for (const auto& r : plan.turns[t])
            ASSERT_TRUE(std::any_of(turns[t].begin(), turns[t].end(),
                                    [&](auto& u) { return u.operand == r.operand && u.slot == r.slot; }));
    }
}

std::int64_t received(const RingPlan& plan) {
    std::int64_t sum = 0;
    for (const auto& turn : plan.turns)
        for (const auto& r : turn) sum += r.bytes;
    return sum;
}

TEST(HostRing, EveryTurnFindsItsTiles) {
    Random r(3);
    for (int trial = 0; trial < 300; ++trial) {
        const bool even = trial % 3 == 0;
        const int tiles = 1 + static_cast<int>(r() % 40);
        std::vector<RingUse> all;
        for (int i = 0; i < tiles; ++i)
            all.push_back({r() % 2 ? Operand::a : Operand::b, i, 64 * (even ? 4 : 1 + static_cast<int>(r() % 30))});
        std::vector<std::vector<RingUse>> turns(r() % 60);
        std::int64_t least = 0, once = 0;
        std::set<std::int32_t> seen;
        for (auto& turn : turns) {
            for (const auto& u : all)
                if (r() % 6 == 0) turn.push_back(u);
            least = std::max(least, bytes_of_turn(turn));
            for (const auto& u : turn)
                if (seen.insert(u.slot).second) once += u.bytes;
        }
        for (const auto capacity : {least, least + (once - least) / 128 * 64, once}) {
            const auto plan = plan_ring(turns, capacity);
            check_ring(turns, plan, capacity);
            EXPECT_GE(received(plan), once);
            if (capacity == once) {
                EXPECT_EQ(received(plan), once);
            }
        }
        if (least > 0) {
            EXPECT_THROW(plan_ring(turns, least - 64), InternalError);
        }
    }
}

/// Tiles that pass by once come in time: with room for four turns nobody waits for the turn before.
TEST(HostRing, WhatPassesByOnceComesAhead) {
    std::vector<std::vector<RingUse>> turns;
    for (std::int32_t t = 0; t < 20; ++t) turns.push_back({{Operand::a, 2 * t, 640}, {Operand::b, 2 * t + 1, 640}});
    EXPECT_EQ(plan_ring(turns, 2 * 640).lookahead, 0);
    EXPECT_EQ(plan_ring(turns, 4 * 640).lookahead, 1);
    EXPECT_EQ(plan_ring(turns, 8 * 640).lookahead, 3);
    EXPECT_EQ(received(plan_ring(turns, 2 * 640)), 40 * 640);
}

/// A cyclic walk over ten tiles with room for five: the furthest use goes, so that some stay for every round.
TEST(HostRing, TheTileThatIsUsedLastGoes) {
    std::vector<std::vector<RingUse>> turns;
    for (int round = 0; round < 10; ++round)
        for (std::int32_t t = 0; t < 10; ++t) turns.push_back({{Operand::b, t, 64}});
    const auto plan = plan_ring(turns, 5 * 64);
    check_ring(turns, plan, 5 * 64);
    EXPECT_LT(received(plan), 90 * 64);  // the oldest would go each time: all 100
}

TEST(HostRing, RandomPlansOfRanksWithSmallHosts) {
    Random r(41);
    int streamed = 0, again = 0, made = 0, devices = 0, segments = 0;
    for (int trial = 0; trial < 600; ++trial) {
        auto c = random_case(r);
        many_ranks(r, c, 6, trial % 2 ? 3 : 0);
        if (trial % 4 == 0 && c.machine.devices_per_rank > 0) c.machine.device.memory = 4 << 20;
        Plan whole;
        try {
            whole = plan_of(c);
        } catch (const UserError&) {
            continue;  // the algorithm cannot do it
        } catch (const BudgetError&) {
            continue;  // the devices
        }
        c.request.host_memory = 1;
        std::int64_t least = 0;
        try {
            ASSERT_EQ(plan_of(c).counts.peak_host_bytes, 0);
            continue;
        } catch (const BudgetError& e) {
            least = e.smallest_bytes();
        }
        const auto most = whole.counts.peak_host_bytes;
        if (c.request.how.algorithm == Algorithm::automatic) {
            c.request.how.algorithm = whole.algorithm;
            try {
                plan_of(c);
            } catch (const BudgetError& e) {
                least = e.smallest_bytes();
            }
        }
        ASSERT_LE(least, most) << trial;
        for (const auto memory : {least, least + (most - least) / 3, least + (most - least) * 3 / 4}) {
            c.request.host_memory = memory;
            const Plan plan = plan_of(c);
            ASSERT_NO_THROW(validate(plan, {memory, 0})) << trial << " with " << memory;
            EXPECT_EQ(plan.counts.flops, whole.counts.flops);
            EXPECT_EQ(plan.streams.once_a, whole.streams.once_a);
            EXPECT_EQ(plan.streams.once_b, whole.streams.once_b);
            EXPECT_GE(plan.counts.sent_bytes, whole.counts.sent_bytes);
            ASSERT_TRUE(plan == plan_of(c)) << trial;
            if (plan.streams.ranks == 0) continue;
            ASSERT_NO_THROW(simulate(plan, c.machine)) << trial;
            ++streamed;
            again += plan.counts.sent_bytes > whole.counts.sent_bytes;
            made += plan.source_a != SourceKind::stored || plan.source_b != SourceKind::stored;
            devices += plan.devices_per_rank > 0;
            segments += plan.segments > 1;
        }
    }
    EXPECT_GT(streamed, 200);
    EXPECT_GT(again, 30);
    EXPECT_GT(made, 50);
    EXPECT_GT(devices, 50);
    EXPECT_GT(segments, 20);
}

/// Herault et al., ScalA 2019, section III.B: with X x Y blocks of C on each rank of a p x q grid, and nothing kept
/// from one to the next, A is sent Y times and B X times.
TEST(HostRing, DenseBlocksAreThoseOfThePublishedFormula) {
    const auto t = Tiling::uniform(32 * 16, 16);
    Case c;
    c.a = c.b = Shape::dense({t, t});
    c.machine.ranks = 4;
    c.request.how.algorithm = Algorithm::outer_product;
    const Plan whole = plan_of(c);
    const std::int64_t tile = 16 * 16 * 8, all = 32 * 32 * tile;
    EXPECT_EQ(whole.streams.once_a, all);  // half of A is sent to the other rank of each row, 4 ranks get a quarter
    EXPECT_EQ(whole.streams.sent_a, whole.streams.once_a);
    const auto own = 3 * all / 4;
    // Ranks on the diagonal need tiles of A and B for the same places along k: 32 at a time for all of C, the
    // others 16.
    for (const auto& [room, x, y] : {std::tuple{8 * 32 * tile, 1.0, 1.0},
                                     {2 * 32 * tile, 1.0, 1.0},
                                     {2 * 24 * tile, 1.5, 1.0},
                                     {2 * 16 * tile, 1.5, 1.5},
                                     {2 * tile, 16.0, 16.0}}) {
        c.request.host_memory = own + room;
        const Plan plan = plan_of(c);
        validate(plan, {own + room, 0});
        EXPECT_EQ(static_cast<double>(plan.streams.blocks_a), y * static_cast<double>(whole.streams.once_a))
            << room / tile;
        EXPECT_EQ(static_cast<double>(plan.streams.blocks_b), x * static_cast<double>(whole.streams.once_b))
            << room / tile;
        EXPECT_LE(plan.streams.sent_a, plan.streams.blocks_a);
        EXPECT_LE(plan.streams.sent_b, plan.streams.blocks_b);
        EXPECT_NE(explain(plan).find("streams"), std::string::npos);
    }
    c.request.host_memory = own;
    try {
        plan_of(c);
        ADD_FAILURE();
    } catch (const BudgetError& e) {
        EXPECT_EQ(e.smallest_bytes(), own + 2 * tile);
    }
}

/// A sixteenth of the published case c2 across ranks: C does not fit the devices beside its chunks, A and B of others
/// do not fit the host.
TEST(HostRing, DevicesAcrossRanksBehindASmallHost) {
    auto machine = read_machine("summit").machine;
    const auto t = Tiling::uniform(76'800, 1024);
    Case c;
    c.a = c.b = Shape::dense({t, t});
    c.machine = machine;
    c.machine.ranks = 16;
    c.machine.device.memory /= 16;
    c.machine.host_memory = 16'000'000'000;
    c.request.host_memory = c.machine.host_memory;
    c.request.how.algorithm = Algorithm::outer_product;
    const Plan plan = plan_of(c);
    validate(plan, {c.request.host_memory, 0});
    EXPECT_EQ(plan.streams.ranks, 16);
    EXPECT_EQ(plan.memory_case, MemoryCase::nothing_fits);
    EXPECT_GT(plan.streams.sent_b + plan.streams.sent_a, plan.streams.once_b + plan.streams.once_a);
    EXPECT_LT(plan.streams.sent_b + plan.streams.sent_a, plan.streams.blocks_b + plan.streams.blocks_a);
    EXPECT_GE(plan.streams.lookahead, 1);
    // With room for everything it is little faster.
    c.request.host_memory = 0;
    const Plan roomy = plan_of(c);
    EXPECT_EQ(roomy.streams.ranks, 0);
    EXPECT_LT(simulate(plan, c.machine).seconds, 1.2 * simulate(roomy, c.machine).seconds);
}

}  // namespace
}  // namespace tessera
