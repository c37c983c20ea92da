// Every parameter that can be set steers the plan, within its limits, and nothing else changes; what is weighed on one
// rank with devices, and why one way won.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <sstream>
#include <string>

#include "inspect/algorithms.hpp"
#include "inspect/rank_costs.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using testing::Case;
using testing::many_ranks;
using testing::plan_of;
using testing::Random;
using testing::random_case;

double uniform(Random& r, double low, double high) { return std::uniform_real_distribution<>(low, high)(r); }
int pick(Random& r, int low, int high) { return std::uniform_int_distribution<>(low, high)(r); }

struct Parameter {
    const char* name;
    std::function<void(Random&, PlanParameters&)> set;
    std::function<bool(const PlanParameters& given, const PlanParameters& used)> within;
};

const Parameter kParameters[] = {
    {"block share", [](Random& r, PlanParameters& p) { p.block_share = uniform(r, 0.05, 1); },
     [](const auto& g, const auto& u) { return *u.block_share <= *g.block_share; }},
    {"chunk share", [](Random& r, PlanParameters& p) { p.chunk_share = uniform(r, 0.02, 1); },
     [](const auto& g, const auto& u) { return *u.chunk_share <= *g.chunk_share; }},
    {"block rows", [](Random& r, PlanParameters& p) { p.block_rows = pick(r, 1, 4); },
     [](const auto& g, const auto& u) { return *u.block_rows <= *g.block_rows; }},
    {"block columns", [](Random& r, PlanParameters& p) { p.block_cols = pick(r, 1, 4); },
     [](const auto& g, const auto& u) { return *u.block_cols <= *g.block_cols; }},
    {"depth", [](Random& r, PlanParameters& p) { p.depth = pick(r, 1, 3); },
     [](const auto& g, const auto& u) { return *u.depth <= *g.depth; }},
    {"lookahead", [](Random& r, PlanParameters& p) { p.lookahead = pick(r, 0, 4); },
     [](const auto& g, const auto& u) { return *u.lookahead <= *g.lookahead; }},
};

Case device_case(Random& r) {
    auto c = random_case(r);
    many_ranks(r, c, 4, 3);
    c.request.how.algorithm = r() % 2 ? Algorithm::stationary_b : Algorithm::outer_product;
    if (c.machine.devices_per_rank == 0) c.machine.devices_per_rank = 1;
    c.machine.device.memory = 1LL << 40;
    return c;
}

/// The smallest budget that the planner names; 0 where there is nothing to do.
std::int64_t smallest_budget(Case& c) {
    c.request.device_memory = 1;
    try {
        plan_of(c);
    } catch (const BudgetError& e) {
        return e.smallest_bytes();
    }
    return 0;
}

TEST(PlanParameters, EachSteersThePlanWithinItsLimit) {
    for (const auto& parameter : kParameters) {
        Random r(21);
        int steered = 0, planned = 0;
        for (int trial = 0; trial < 150; ++trial) {
            auto c = device_case(r);
            const auto plain_budget = smallest_budget(c);
            if (plain_budget == 0) continue;
            c.request.device_memory = 8 * plain_budget;
            const Plan plain = plan_of(c);
            parameter.set(r, c.request.how.parameters);
            std::int64_t least = 0;
            try {
                least = smallest_budget(c);
            } catch (const UserError&) {  // rows of a block where columns are whole
                continue;
            }
            for (const auto budget : {least, 2 * least, std::max(least, 8 * plain_budget)}) {
                c.request.device_memory = budget;
                const Plan plan = plan_of(c);
                ASSERT_NO_THROW(validate(plan, {0, budget})) << parameter.name << " " << trial << "\n" << explain(plan);
                EXPECT_TRUE(parameter.within(plan.given.parameters, plan.used)) << parameter.name << "\n"
                                                                                << explain(plan);
                ASSERT_EQ(plan.products, plain.products);
                if (budget == 8 * plain_budget)
                    steered += !(plan.steps == plain.steps && plan.arrivals == plain.arrivals);
                ++planned;
            }
            c.request.device_memory = least - 1;
            EXPECT_THROW(plan_of(c), BudgetError) << parameter.name << " " << trial;
        }
        EXPECT_GT(planned, 100) << parameter.name;
        EXPECT_GT(steered, 15) << parameter.name;
    }
}

TEST(PlanParameters, AllAtOnce) {
    Random r(22);
    int planned = 0;
    for (int trial = 0; trial < 400; ++trial) {
        auto c = device_case(r);
        for (const auto& p : kParameters)
            if (r() % 2) p.set(r, c.request.how.parameters);
        try {
            const auto least = smallest_budget(c);
            if (least == 0) continue;
            for (const auto budget : {least, least + least / 2, 6 * least}) {
                c.request.device_memory = budget;
                const Plan plan = plan_of(c);
                ASSERT_NO_THROW(validate(plan, {0, budget})) << trial << "\n" << explain(plan);
                for (const auto& p : kParameters) {
                    PlanParameters all = plan.used;  // those that were not given hold by themselves
                    const auto& g = plan.given.parameters;
                    if (g.block_share) all.block_share = g.block_share;
                    if (g.chunk_share) all.chunk_share = g.chunk_share;
                    if (g.block_rows) all.block_rows = g.block_rows;
                    if (g.block_cols) all.block_cols = g.block_cols;
                    if (g.depth) all.depth = g.depth;
                    if (g.lookahead) all.lookahead = g.lookahead;
                    EXPECT_TRUE(p.within(all, plan.used)) << p.name << "\n" << explain(plan);
                }
                ++planned;
            }
            c.request.device_memory = least - 1;
            EXPECT_THROW(plan_of(c), BudgetError) << trial;
        } catch (const UserError&) {  // rows of a block where columns are whole
        }
    }
    EXPECT_GT(planned, 300);
}

TEST(PlanParameters, WrongOnesAreRefusedByValue) {
    Random r(23);
    auto c = device_case(r);
    while (c.machine.ranks > 1 || c.request.source_b != SourceKind::stored) c = device_case(r);
    c.request.distribution_a = c.request.distribution_b = c.request.distribution_c = {};
    const auto refused = [&](const PlanParameters& p, const std::string& word) {
        c.request.how.parameters = p;
        try {
            plan_of(c);
            ADD_FAILURE() << word;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
        }
    };
    refused({.block_share = 0.0}, "block share 0");
    refused({.block_share = 1.5}, "block share 1.5");
    refused({.block_share = NAN}, "block share nan");
    refused({.chunk_share = -0.25}, "chunk share -0.25");
    refused({.block_rows = 0}, "block rows 0");
    refused({.block_cols = -3}, "block columns -3");
    refused({.depth = 0}, "depth 0");
    refused({.lookahead = -1}, "lookahead -1");
    refused({.lookahead = 100}, "lookahead 100");
    c.machine.devices_per_rank = 0;
    refused({.depth = 2}, "no devices");
}

/// Published: two chunks on their way need the room of three.
TEST(PlanParameters, ALookaheadHasItsBuffers) {
    Case c;
    const auto t = Tiling::uniform(3000, 100);
    c.a = c.b = Shape::dense({t, t});
    c.request.how.algorithm = Algorithm::outer_product;
    c.machine.devices_per_rank = 1;
    c.machine.device.memory = 16 << 20;
    for (const int lookahead : {0, 1, 2, 5}) {
        c.request.how.parameters = {.chunk_share = 0.05, .lookahead = lookahead};
        const Plan plan = plan_of(c);
        validate(plan, {0, c.machine.device.memory});
        EXPECT_EQ(plan.used.lookahead, lookahead);
        // The n-th chunk comes when the one that had its place is done: computes and evictions in turn.
        int computes = 0, most = 0, evictions = 0;
        for (const auto& s : plan.steps) {
            computes += s.kind == StepKind::compute;
            evictions += s.kind == StepKind::evict;
            most = std::max(most, evictions - computes);
        }
        EXPECT_GT(evictions, 10);
        EXPECT_LE(most, 0);
        EXPECT_EQ(computes - evictions, lookahead + 1);
    }
}

TEST(PlanCandidates, OneRankWithDevicesWeighsItsWays) {
    Case c;
    const auto t = Tiling::uniform(6000, 100);
    c.a = c.b = Shape::dense({t, t});
    c.machine.devices_per_rank = 1;
    c.machine.device.gemm.flops_per_second = 1e13;
    c.machine.host_to_device.bytes_per_second = 1e9;
    const struct {
        std::int64_t memory;
        MemoryCase fits;
        Blocks blocks;
    } cases[] = {{1LL << 40, MemoryCase::all_fits, Blocks::automatic},
                 {640 << 20, MemoryCase::all_fits, Blocks::automatic},
                 {640 << 20, MemoryCase::c_fits, Blocks::columns},
                 {40 << 20, MemoryCase::nothing_fits, Blocks::automatic}};
    for (const auto& k : cases) {
        c.request.how.blocks = k.blocks;
        c.machine.device.memory = k.memory;
        const Plan plan = plan_of(c);
        validate(plan, {0, k.memory});
        EXPECT_EQ(plan.memory_case, k.fits) << k.memory << explain(plan);
        ASSERT_FALSE(plan.candidates.empty());
        const PlanCandidate* chosen = nullptr;
        for (const auto& x : plan.candidates)
            if (x.chosen) chosen = &x;
        ASSERT_NE(chosen, nullptr);
        for (const auto& x : plan.candidates) {
            EXPECT_GT(x.seconds_predicted, 0);
            EXPECT_GT(x.bytes_loaded, 0);
            EXPECT_LE(chosen->seconds_predicted, 1.05 * x.seconds_predicted + 1e-12);
        }
        EXPECT_TRUE(chosen->simulated);
        EXPECT_EQ(chosen->bytes_loaded, plan.counts.loaded_bytes);
        EXPECT_DOUBLE_EQ(chosen->seconds_predicted, simulate(plan, c.machine).seconds);
        EXPECT_FALSE(plan.decided.empty());
    }
    c.request.how.blocks = Blocks::automatic;
    // Whole columns of C, long and thin: B passes once, A for every block.
    const auto k = Tiling::uniform(1200, 100);
    c.a = Shape::dense({Tiling::uniform(400, 100), k});
    c.b = Shape::dense({k, t});
    c.machine.device.memory = 4 << 20;
    const Plan thin = plan_of(c);
    EXPECT_EQ(thin.memory_case, MemoryCase::b_fits) << explain(thin);
    EXPECT_NE(explain(thin).find("B columns fit"), std::string::npos);
}

/// On one rank with devices every way to form blocks has the bytes and the time of its own plan, or by counting alone
/// it could not be the one.
TEST(PlanCandidates, BlocksOfOneRankAreSimulated) {
    Random r(51);
    int simulated = 0, left_out = 0, chosen_by[4] = {};
    for (int trial = 0; trial < 600; ++trial) {
        auto c = random_case(r);
        c.machine.devices_per_rank = 1 + static_cast<int>(r() % 3);
        c.machine.device.gemm = {1e10 * static_cast<double>(1 + r() % 100), 50};
        c.machine.host_to_device = c.machine.device_to_host = {1e8 * static_cast<double>(1 + r() % 20), 1e-6};
        c.machine.device_to_device = {1e10, 1e-6};
        c.machine.device.memory = 1;
        try {
            plan_of(c);
            continue;  // nothing to do
        } catch (const BudgetError& e) {
            c.machine.device.memory = e.smallest_bytes() * static_cast<std::int64_t>(1 + r() % 8);
        }
        const Plan plan = plan_of(c);
        validate(plan);
        double shortest = INFINITY;
        for (const auto& x : plan.candidates)
            if (x.simulated) shortest = std::min(shortest, x.seconds_predicted);
        for (const auto& x : plan.candidates) {
            if (!x.possible || x.same_plan) continue;
            left_out += !x.simulated;
            if (!x.simulated) {
                EXPECT_GT(x.seconds_predicted, 1.01 * shortest) << explain(plan);
            }
            const auto blocks = x.blocks.front();
            if (blocks == Blocks::stay || blocks == Blocks::strips) continue;
            auto one = c;
            one.request.how.blocks = blocks;
            const Plan own = plan_of(one);
            EXPECT_EQ(own.blocks, x.blocks);
            const auto seconds = simulate(own, c.machine).seconds;
            if (x.simulated) {
                EXPECT_EQ(x.bytes_loaded, own.counts.loaded_bytes) << explain(plan);
                EXPECT_DOUBLE_EQ(x.seconds_predicted, seconds) << explain(plan);
                ++simulated;
            } else {
                EXPECT_GT(seconds, 1.01 * shortest) << explain(plan) << explain(own);
            }
            if (x.chosen) ++chosen_by[blocks == Blocks::columns ? 0 : blocks == Blocks::patches ? 1 : 2];
        }
    }
    EXPECT_GT(simulated, 200);
    EXPECT_GE(left_out, 5);
    for (int i = 0; i < 3; ++i) EXPECT_GT(chosen_by[i], 5) << i;
}

/// A plan that takes long to write is not written for a way that counting tells is worse; and explain says so.
TEST(PlanCandidates, OfManyProductsTheWorseByCountingIsNotSimulated) {
    Case c;
    const auto t = Tiling::uniform(4900, 100);  // 49^3 products
    c.a = c.b = Shape::dense({t, t});
    c.machine.devices_per_rank = 1;
    c.machine.device = {std::int64_t{200} << 20, {1e12, 0}, 0, 0};
    c.machine.host_to_device = c.machine.device_to_host = {1e9, 0};
    const Plan plan = plan_of(c);
    const auto worst = std::find_if(plan.candidates.begin(), plan.candidates.end(),
                                    [](const PlanCandidate& x) { return x.blocks.front() == Blocks::worst_fit; });
    ASSERT_NE(worst, plan.candidates.end());
    EXPECT_FALSE(worst->simulated);
    EXPECT_NE(explain(plan).find("not simulated: by counting"), std::string::npos) << explain(plan);
}

/// Any blocks asked for, rows beyond what there is among them: planned or refused, never more than 100 columns of text.
TEST(PlanParameters, AnyBlocksAskedForAreExplainedInAHundredColumns) {
    Random r(41);
    int planned = 0, split = 0;
    for (int trial = 0; trial < 600; ++trial) {
        auto c = random_case(r);
        many_ranks(r, c, 5, 3);
        if (c.machine.devices_per_rank > 0) {
            c.request.how.blocks =
                std::array{Blocks::automatic, Blocks::columns, Blocks::patches, Blocks::worst_fit}[r() % 4];
            if (r() % 2) c.request.how.parameters.block_rows = pick(r, 1, 12);
            if (r() % 2) c.request.how.parameters.block_cols = pick(r, 1, 12);
        }
        try {
            const Plan plan = plan_of(c);
            validate(plan);
            ++planned;
            split += plan.algorithm == Algorithm::split_k;
            std::istringstream lines(explain(plan));
            for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
        } catch (const UserError&) {  // what cannot go together
        }
    }
    EXPECT_GT(planned, 300);
    EXPECT_GT(split, 10);
}

/// What is counted of ranks before a plan is written is what the plan then says.
TEST(PlanCandidates, BytesCountedAcrossRanksAreThePlans) {
    Random r(31);
    int counted = 0;
    for (int trial = 0; trial < 300; ++trial) {
        auto c = random_case(r);
        many_ranks(r, c, 6, 0);
        if (c.machine.ranks == 1) continue;
        c.request.how.algorithm = Algorithm::automatic;
        plan_of(c);
        const Inspection in(c.request, c.machine);
        for (const auto& row : algorithms()) {
            const auto how = row.assign(in);
            if (!how.possible) continue;
            const auto costs = rank_costs(in, how);
            ASSERT_TRUE(costs);
            const Plan plan = write_plan(in, how);
            std::int64_t most = 0;
            for (const auto& k : plan.rank_counts) most = std::max({most, k.sent_bytes, k.received_bytes});
            if (in.product.segments > 1) {  // partial sums of a tile may meet on their way: bounds
                EXPECT_LE(costs->sent_bytes, plan.counts.sent_bytes);
            } else {
                EXPECT_EQ(costs->sent_bytes, plan.counts.sent_bytes) << name(how.algorithm);
                EXPECT_EQ(costs->most_moved_bytes, most) << name(how.algorithm);
            }
            ++counted;
        }
    }
    EXPECT_GT(counted, 300);
}

TEST(PlanCandidates, AcrossRanksOfManyProductsOnlyTheBestByCountingIsWritten) {
    Case c;
    const auto t = Tiling::uniform(4900, 100);
    c.a = c.b = Shape::dense({t, t});
    c.machine.ranks = 4;
    c.machine.gemm = {1e10, 0};
    c.machine.network = {1e9, 1e-6};
    const Plan plan = plan_of(c);
    const auto simulated = std::count_if(plan.candidates.begin(), plan.candidates.end(),
                                         [](const PlanCandidate& x) { return x.simulated; });
    EXPECT_LT(simulated, 3);
    for (const auto& x : plan.candidates)
        if (x.possible && !x.simulated) {
            EXPECT_GE(x.bytes_sent, plan.counts.sent_bytes);
            auto other = c;
            other.request.how.algorithm = x.algorithm;
            const Plan written = plan_of(other);
            EXPECT_EQ(written.counts.sent_bytes, x.bytes_sent) << name(x.algorithm);
            EXPECT_GE(1.05 * simulate(written, c.machine).seconds, simulate(plan, c.machine).seconds)
                << name(x.algorithm);
        }
    EXPECT_NE(explain(plan).find("not simulated: by counting"), std::string::npos) << explain(plan);
}

TEST(PlanCandidates, TheTieRuleIsSaid) {
    Case c;
    c.machine.ranks = 4;
    c.machine.gemm = {1e9, 0};
    c.machine.network = {1e15, 0};  // messages cost nothing: all take the same time
    const auto t = Tiling::uniform(800, 50);
    c.a = c.b = Shape::dense({t, t});
    const Plan plan = plan_of(c);
    const PlanCandidate* chosen = nullptr;
    for (const auto& x : plan.candidates)
        if (x.chosen) chosen = &x;
    ASSERT_NE(chosen, nullptr);
    for (const auto& x : plan.candidates)
        if (x.possible) {
            EXPECT_LE(chosen->bytes_sent, x.bytes_sent);
        }
    EXPECT_NE(explain(plan).find("within 5 % of the least time"), std::string::npos) << explain(plan);
    // A slow network: time decides.
    c.machine.network = {1e6, 1e-3};
    c.machine.network_tile_seconds = 0.01;
    const Plan slow = plan_of(c);
    EXPECT_FALSE(slow.decided.empty());
}

}  // namespace
}  // namespace tessera
