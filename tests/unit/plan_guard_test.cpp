// Figures that plans were once good for, by counting: they may get better, never worse.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/plan_cases.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera {
namespace {

using testing::Case;
using testing::plan_of;

double loads_of_a(const Plan& plan) {
    double bytes = 0;
    for (const auto& d : plan.device_counts) bytes += static_cast<double>(d.loaded_a);
    return bytes / static_cast<double>(plan.a.elements() * bytes_of(plan.scalar));
}

TEST(PlanGuard, AlkaneOnOneDeviceLoadsTAtMostFourTimes) {
    const auto problem = make_problem("alkane:65:v1");
    const ContractionSpec spec(problem.spec);
    auto machine = read_machine("summit").machine;
    machine.devices_per_rank = 1;
    PlanRequest request;
    request.spec = &spec;
    request.a = &problem.a;
    request.b = &problem.b;
    request.source_b = SourceKind::device_made;
    request.screening.given = problem.c ? &*problem.c : nullptr;
    request.device_memory = 16LL << 30;
    const Plan plan = build_plan(request, machine);
    EXPECT_LE(loads_of_a(plan), 4);
    EXPECT_GE(loads_of_a(plan), 1 - 1e-9);
    EXPECT_LE(plan.counts.peak_device_bytes, request.device_memory);
    EXPECT_LE(plan.counts.made_tiles, plan.b.tile_count());  // each once, on the device, if it is needed
    // The published way was weighed, and lost: it needs about 45.
    ASSERT_GT(plan.candidates.size(), 1u);
    for (const auto& c : plan.candidates) {
        if (c.algorithm != plan.algorithm) continue;
        EXPECT_EQ(c.chosen, c.blocks != std::vector{Blocks::worst_fit});
        if (c.blocks == std::vector{Blocks::worst_fit}) {
            EXPECT_GT(c.bytes_loaded, 10 * plan.counts.loaded_bytes);
        }
    }
}

std::int64_t bytes_of_dense(const Shape& s) { return s.elements() * 8; }

/// Sivkov et al. 2019, equations 2 and 4: what each of P ranks handles. A P-th of that is with it from the start where
/// tiles lie as evenly as these, so P ranks together send P - 1 times as much.
TEST(PlanGuard, SplitKAndReplicateBSendWhatTheirFormulasSay) {
    const auto small = Tiling::uniform(64, 16), large = Tiling::uniform(64 * 64, 16);
    for (const int p : {2, 4, 8}) {
        const Distribution::Axis cyclic{p};
        Case c;
        c.machine.ranks = p;
        c.request.how.algorithm = Algorithm::split_k;
        c.a = Shape::dense({small, large});
        c.b = Shape::dense({large, small});
        // In their own places only C moves.
        Plan plan = plan_of(c);
        const auto s_a = bytes_of_dense(plan.a), s_b = bytes_of_dense(plan.b), s_c = bytes_of_dense(plan.c);
        EXPECT_EQ(plan.counts.sent_bytes, (p - 1) * s_c) << p;
        // From anywhere else A and B move as well.
        c.request.distribution_a = Distribution(p, {{1}, cyclic});
        c.request.distribution_b = Distribution(p, {cyclic, {1}});
        plan = plan_of(c);
        validate(plan);
        EXPECT_EQ(plan.counts.sent_bytes, (p - 1) * ((s_a + s_b) / p + s_c)) << p;
        c.request.how.algorithm = Algorithm::automatic;  // what was published stands next to what was counted
        EXPECT_NE(explain(plan_of(c)).find("published: (P-1) [(S_A + S_B)/P + S_C] = "), std::string::npos);
        EXPECT_NE(explain_json(plan_of(c)).find(fmt::format("\"bytes_published\":{}.0", plan.counts.sent_bytes)),
                  std::string::npos)
            << explain_json(plan_of(c));
        c.request.how.algorithm = Algorithm::split_k;
    }
    for (const int p : {2, 4, 8}) {
        const Distribution::Axis cyclic{p};
        Case c;
        c.machine.ranks = p;
        c.request.how.algorithm = Algorithm::replicate_b;
        c.a = Shape::dense({large, small});
        c.b = Shape::dense({small, small});
        Plan plan = plan_of(c);
        const auto s_a = bytes_of_dense(plan.a), s_b = bytes_of_dense(plan.b), s_c = bytes_of_dense(plan.c);
        EXPECT_EQ(plan.counts.sent_bytes, (p - 1) * s_b) << p;
        c.request.distribution_a = Distribution(p, {cyclic, {1}});
        c.request.distribution_c = Distribution(p, {cyclic, {1}});
        plan = plan_of(c);
        validate(plan);
        // B goes straight to all from where it is: the formula's S_B / P for laying it out first falls away.
        EXPECT_EQ(plan.counts.sent_bytes, (p - 1) * ((s_a + s_c) / p + s_b)) << p;
    }
}

}  // namespace
}  // namespace tessera
