// A valid plan broken in one way, and the check that has to find it: each by the words of its refusal.

#include <gtest/gtest.h>

#include <functional>

#include "machine/device_layout.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using testing::Case;
using testing::plan_of;
using testing::Random;
using testing::random_shape;

void expect_refused(const Plan& plan, const std::string& words, const PlanBudget& budget = {}) {
    try {
        validate(plan, budget);
        ADD_FAILURE() << "not refused; expected: " << words;
    } catch (const InternalError& e) {
        EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what() << "\nexpected: " << words;
    }
}

/// Ranks that send, devices that load and copy in several chunks, B stored or made.
Case device_case(SourceKind source_b = SourceKind::stored) {
    Case c;
    const auto t = Tiling::uniform(840, 70), odd = Tiling::uniform(231, 33);
    c.a = Shape::dense({odd, t});
    c.b = Shape::dense({t, odd});
    c.machine.ranks = 2;
    c.machine.devices_per_rank = 2;
    c.machine.device.memory = 768 << 10;
    c.request.source_b = source_b;
    c.request.how.algorithm = Algorithm::outer_product;
    return c;
}

/// Long sums into a small result: several segments on two ranks.
Case segment_case(int devices) {
    Case c;
    const auto small = Tiling::uniform(24, 12), large = Tiling::uniform(8000, 100);
    c.a = Shape::dense({small, large});
    c.b = Shape::dense({large, small});
    c.machine.ranks = 2;
    c.machine.devices_per_rank = devices;
    c.machine.device.memory = 64 << 20;
    c.request.how.algorithm = Algorithm::split_k;
    return c;
}

TEST(Validate, TilesOnADeviceTakeTheirPadding) {
    Case c;
    const auto t = Tiling::uniform(14, 7), u = Tiling::uniform(6, 3);
    c.a = Shape::dense({t, t});
    c.b = Shape::dense({t, u});
    c.machine.devices_per_rank = 1;
    c.machine.device.memory = 1 << 20;
    Plan plan = plan_of(c);
    validate(plan);
    // 7 x 3 doubles are 192 bytes on the host and 256 on the device, whose rows have four.
    std::vector<PlanSum*> sums;
    for (auto& s : plan.sums)
        if (s.device == 0) sums.push_back(&s);
    ASSERT_EQ(sums.size(), 4u);
    Plan moved = plan;
    for (auto& s : moved.sums)
        if (s.device == 0 && s.offset == sums[0]->offset + 256) s.offset -= 64;
    expect_refused(moved, "writes over");
    for (const auto change : {-128, 128}) {
        Plan bad = plan;
        for (auto& s : bad.steps)
            if (s.kind == StepKind::load) bad.arrivals[s.begin].bytes += change;
        expect_refused(bad, "bytes for a tile of");
    }
}

TEST(Validate, WhatTheFilterLeavesOutIsDerived) {
    Random r(3);
    Case c;
    const auto t = Tiling::uniform(80, 8);
    std::vector<ShapeEntry> a, b;
    for (std::int64_t i = 0; i < 100; ++i) {
        a.push_back({TileOrdinal{i}, std::pow(10.0, -static_cast<double>(r() % 6))});
        b.push_back({TileOrdinal{i}, std::pow(10.0, -static_cast<double>(r() % 6))});
    }
    c.a = Shape({t, t}, a);
    c.b = Shape({t, t}, b);
    c.request.screening = {1e-3, 2.0, nullptr};
    const Plan plan = plan_of(c);
    validate(plan);
    ASSERT_GT(plan.products.size(), 100u);
    ASSERT_LT(plan.products.size(), 900u);
    Plan fewer = plan;  // one that the filter lets through is dropped as well
    for (auto& chain : fewer.chains)
        if (chain.products > 0 && chain.parts == 1 &&
            chain.first_product + chain.products == static_cast<std::int64_t>(fewer.products.size())) {
            --chain.products;
            fewer.products.pop_back();
            fewer.places.resize(std::min(fewer.places.size(), fewer.products.size()));
            --fewer.counts.products;
            break;
        }
    ASSERT_LT(fewer.products.size(), plan.products.size());
    expect_refused(fewer, "follow from the shapes");
    Plan bad = plan;
    bad.filter = 5e-3;
    expect_refused(bad, "");
    bad = plan;
    bad.alpha_magnitude = 1;
    expect_refused(bad, "");
    bad = plan;
    bad.counts.left_out_bound /= 2;
    expect_refused(bad, "left out");
    bad = plan;
    bad.skipped[0] += 1;
    expect_refused(bad, "skipped");
    // Tiles that nobody gave cannot be missing.
    const Shape all = plan.c;
    std::vector<ShapeEntry> some;
    for (std::int64_t s = 0; s < all.tile_count(); s += 2) some.push_back({all.tile(s), 1.0});
    c.given = Shape({t, t}, some);
    c.has_given = true;
    c.request.screening = {};
    bad = plan_of(c);
    validate(bad);
    bad.shape_given = false;
    expect_refused(bad, "");
}

TEST(Validate, PartialSumsAreJoinedByTheFixedTree) {
    for (const int devices : {0, 2}) {
        auto c = segment_case(devices);
        const Plan plan = plan_of(c);
        validate(plan);
        ASSERT_GT(plan.segments, 3);
        // Two merges into one sum, in the other order.
        int swapped = 0;
        for (const auto& s : plan.steps) {
            if (s.kind != StepKind::merge || swapped >= 20) continue;
            for (auto m = s.begin; m < s.end; ++m)
                for (auto n = m + 1; n < s.end; ++n)
                    if (plan.moves[m].to == plan.moves[n].to) {
                        Plan bad = plan;
                        std::swap(bad.moves[m].from, bad.moves[n].from);
                        expect_refused(bad, "order of summation");
                        ++swapped;
                    }
        }
        EXPECT_GT(swapped, 2);
        Plan bad = plan;
        bad.segments *= 2;
        expect_refused(bad, "segments");
    }
}

TEST(Validate, EveryTileThatComesIsUsed) {
    auto c = device_case();
    const Plan plan = plan_of(c);
    validate(plan);
    Plan bad = plan;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        auto s = plan.steps[i];
        if (s.kind != StepKind::load) continue;
        bad.arrivals.push_back(plan.arrivals[s.begin]);
        s.begin = static_cast<std::int64_t>(bad.arrivals.size()) - 1;
        s.end = s.begin + 1;
        s.dependencies = 0;
        bad.steps.push_back(s);
        break;
    }
    expect_refused(bad, "nobody uses");
    bad = plan;
    int evictions = 0;
    for (auto& s : bad.steps)
        if (s.kind == StepKind::evict && evictions++ == 0) s.device = static_cast<std::int16_t>(1 - s.device);
    ASSERT_GT(evictions, 0);
    expect_refused(bad, "evicts from elsewhere");
    bad = plan;
    for (auto& s : bad.steps)
        if (s.kind == StepKind::evict) s.dependencies = 0;
    expect_refused(bad, "evicts what step");
    bad = plan;
    std::int64_t first = -1;
    for (auto& s : bad.steps)
        if (s.kind == StepKind::evict) {
            if (first >= 0 && s.device == 0 && s.rank == 0) s.begin = first;
            if (s.device == 0 && s.rank == 0) first = s.begin;
        }
    expect_refused(bad, "evict");
}

TEST(Validate, EveryCountIsThatOfTheSteps) {
    const std::pair<const char*, std::function<void(Plan&)>> wrong[] = {
        {"flops", [](Plan& p) { p.rank_counts[1].flops *= 1.001; }},
        {"products", [](Plan& p) { ++p.rank_counts[1].products; }},
        {"tiles made", [](Plan& p) { ++p.rank_counts[1].made_tiles; }},
        {"bytes made", [](Plan& p) { p.rank_counts[0].made_bytes += 64; }},
        {"bytes sent", [](Plan& p) { p.rank_counts[0].sent_bytes += 8; }},
        {"bytes received", [](Plan& p) { p.rank_counts[0].received_bytes -= 8; }},
        {"bytes of A", [](Plan& p) { p.rank_counts[0].stored_a += 64; }},
        {"bytes of C", [](Plan& p) { p.rank_counts[1].stored_c -= 64; }},
        {"bytes at most", [](Plan& p) { p.rank_counts[1].peak_bytes += 64; }},
        {"bytes at most", [](Plan& p) { p.other_bytes += 64; }},
        {"device 3: ", [](Plan& p) { p.device_counts[3].flops *= 0.999; }},
        {"bytes loaded", [](Plan& p) { p.device_counts[0].loaded_bytes += 128; }},
        {"bytes copied", [](Plan& p) { p.device_counts[1].copied_bytes += 128; }},
        {"bytes stored", [](Plan& p) { p.device_counts[1].stored_bytes += 128; }},
        {"bytes of A that came", [](Plan& p) { p.device_counts[2].loaded_a -= 128; }},
        {"bytes of B that came", [](Plan& p) { p.device_counts[2].loaded_b += 128; }},
        {"device 1: ", [](Plan& p) { ++p.device_counts[1].made_tiles; }},
        {"device 1: ", [](Plan& p) { p.device_counts[1].made_bytes += 128; }},
        {"totals", [](Plan& p) { p.counts.loaded_bytes += 1; }},
        {"totals", [](Plan& p) { p.counts.stored_bytes += 1; }},
        {"totals", [](Plan& p) { p.counts.copied_bytes += 1; }},
        {"totals", [](Plan& p) { p.counts.made_tiles += 1; }},
        {"totals", [](Plan& p) { p.counts.bytes_b += 1; }},
        {"totals", [](Plan& p) { p.counts.arena_bytes += 1; }},
        {"totals", [](Plan& p) { p.counts.peak_device_bytes += 1; }},
    };
    for (const auto source : {SourceKind::stored, SourceKind::host_made, SourceKind::device_made}) {
        auto c = device_case(source);
        const Plan plan = plan_of(c);
        validate(plan, {0, c.machine.device.memory});
        for (const auto& [words, change] : wrong) {
            Plan bad = plan;
            change(bad);
            expect_refused(bad, words);
        }
    }
}

TEST(Validate, ADevicesReserveIsNotForTiles) {
    auto c = device_case();
    const Plan plan = plan_of(c);
    const auto peak = plan.counts.peak_device_bytes;
    ASSERT_GT(peak, 0);
    validate(plan, {0, device_budget_for(peak)});
    expect_refused(plan, "without its reserve", {0, device_budget_for(peak) - 1});
    expect_refused(plan, "without its reserve", {0, peak});
    validate(plan, {plan.counts.peak_host_bytes, 0});
    expect_refused(plan, "of a budget of", {plan.counts.peak_host_bytes - 1, 0});
}

}  // namespace
}  // namespace tessera
