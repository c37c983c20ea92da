// Plans of random problems go through validate; broken ones do not; counted work is what the problem has.

#include "tessera/plan/plan.hpp"

#include <gtest/gtest.h>

#include <random>

#include "inspect/build_plan.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using Random = std::mt19937_64;

Shape random_shape(Random& r, const TileGrid& grid, double occupancy) {
    std::vector<ShapeEntry> e;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (std::uniform_real_distribution<>(0, 1)(r) < occupancy) e.push_back({TileOrdinal{o}, 1.0});
    return Shape(grid, std::move(e));
}

Tiling random_tiling(Random& r, int most_tiles, int most) {
    std::vector<std::int64_t> sizes(1 + r() % static_cast<unsigned>(most_tiles));
    for (auto& s : sizes) s = 1 + static_cast<std::int64_t>(r() % static_cast<unsigned>(most));
    return Tiling::from_sizes(sizes);
}

struct Case {
    ContractionSpec spec{"pk,kq->pq"};
    Shape a, b;
    PlanRequest request;
    MachineModel machine;
};

Case random_case(Random& r) {
    Case c;
    const auto p = random_tiling(r, 6, 400), q = random_tiling(r, 6, 400), k = random_tiling(r, 8, 400);
    c.a = random_shape(r, {p, k}, 0.5);
    c.b = random_shape(r, {k, q}, 0.5);
    c.machine.threads_per_rank = 1 + static_cast<int>(r() % 16);
    c.request.source_a = r() % 3 == 0 ? SourceKind::host_made : SourceKind::stored;
    c.request.source_b = r() % 2 == 0 ? SourceKind::host_made : SourceKind::stored;
    return c;
}

Plan plan_of(Case& c) {
    c.request.spec = &c.spec;
    c.request.a = &c.a;
    c.request.b = &c.b;
    return build_plan(c.request, c.machine);
}

TEST(Plan, RandomPlansAreValidAndDeterministic) {
    Random r(5);
    for (int trial = 0; trial < 1500; ++trial) {
        auto c = random_case(r);
        const Plan plan = plan_of(c);
        ASSERT_NO_THROW(validate(plan)) << trial;
        ASSERT_TRUE(plan == plan_of(c));
        // A budget between the smallest and what the plan took without one.
        c.request.memory = 1;
        try {
            plan_of(c);
            ASSERT_EQ(plan.counts.peak_host_bytes, 0);
        } catch (const BudgetError& e) {
            for (const auto memory : {e.smallest_bytes(), (e.smallest_bytes() + plan.counts.peak_host_bytes) / 2}) {
                c.request.memory = memory;
                const Plan tight = plan_of(c);
                ASSERT_NO_THROW(validate(tight, memory)) << trial;
                ASSERT_EQ(tight.counts.flops, plan.counts.flops);
                ASSERT_EQ(tight.counts.made_tiles, plan.counts.made_tiles);
            }
        }
    }
}

TEST(Plan, CountsAreTheProblems) {
    Random r(6);
    auto c = random_case(r);
    c.request.source_a = c.request.source_b = SourceKind::stored;
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
    const Plan plan = plan_of(c);
    EXPECT_EQ(plan.counts.products, products);
    EXPECT_DOUBLE_EQ(plan.counts.flops, flops);
    const auto text = explain(plan);
    EXPECT_NE(text.find("outer_product"), std::string::npos);
    std::size_t width = 0, at = 0;
    for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        width = std::max(width, end - at);
    EXPECT_LE(width, 100u);
    EXPECT_NE(explain_json(plan).find("\"products\":" + std::to_string(products)), std::string::npos);
}

TEST(Plan, ValidateCatchesWhatIsBroken) {
    Random r(7);
    int caught[6] = {};
    for (int trial = 0; trial < 200; ++trial) {
        auto c = random_case(r);
        c.request.source_a = SourceKind::stored;
        c.request.source_b = SourceKind::host_made;
        c.request.memory = 1;
        try {
            plan_of(c);
            continue;
        } catch (const BudgetError& e) {
            c.request.memory = e.smallest_bytes();
        }
        const Plan good = plan_of(c);
        if (good.products.size() < 4 || good.stages < 2) continue;
        const auto breaks = [&](int kind, auto&& change) {
            Plan bad = good;
            change(bad);
            if (bad == good) return;
            EXPECT_THROW(validate(bad), InternalError) << "kind " << kind << " trial " << trial;
            ++caught[kind];
        };
        breaks(0, [](Plan& p) { p.chains.back().products -= p.chains.back().products > 0; });
        breaks(1, [](Plan& p) { p.made_tiles.pop_back(), p.steps.pop_back(); });
        breaks(2, [](Plan& p) {
            for (auto& s : p.steps)
                if (s.kind == StepKind::compute) s.dependencies = 0;
        });
        breaks(3, [](Plan& p) { p.chains.front().finishes = !p.chains.front().finishes; });
        breaks(4, [](Plan& p) { p.made_tiles.front().offset = p.counts.arena_bytes; });
        breaks(5, [](Plan& p) {
            for (auto& s : p.steps)
                if (s.kind == StepKind::make) s.dependencies = 0;
        });
    }
    for (int kind = 0; kind < 6; ++kind) EXPECT_GT(caught[kind], 5) << "kind " << kind;
}

}  // namespace
}  // namespace tessera
