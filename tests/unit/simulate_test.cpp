// Small plans made by hand, whose times are known: what runs at once, what waits, what shares a link.

#include "tessera/simulate/simulate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "inspect/build_plan.hpp"
#include "simulate/shared_links.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/machine/machine_file.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera {
namespace {

/// A plan of square tiles of 1000: 8 MB and 2 Gflop each.
class HandMade {
  public:
    explicit HandMade(int ranks = 1, int devices = 0, int threads = 1) {
        const Tiling t = Tiling::uniform(8000, 1000);
        plan.spec = "mk,kn->mn";
        plan.a = plan.b = plan.c = Shape::dense(TileGrid{t, t});
        plan.ranks = ranks;
        plan.devices_per_rank = devices;
        plan.threads = threads;
        machine.gemm.flops_per_second = 1e9 * threads;
        machine.device.gemm.flops_per_second = 1e12;
        machine.host_to_device = machine.device_to_host = {1e9, 0};
        machine.device_to_device = {4e9, 0};
        machine.network = {2e9, 0};
        machine.make_bytes_per_second = 1e9 * threads;
        machine.copy_bytes_per_second = 4e9 * threads;
    }

    std::int32_t step(StepKind kind, int rank, int device, std::int64_t begin, std::int64_t end,
                      const std::vector<std::int32_t>& after = {}, int peer = -1) {
        PlanStep s;
        s.kind = kind;
        s.rank = rank;
        s.device = static_cast<std::int16_t>(device);
        s.peer = peer;
        s.begin = begin;
        s.end = end;
        s.first_dependency = static_cast<std::int64_t>(plan.dependencies.size());
        s.dependencies = static_cast<std::int32_t>(after.size());
        plan.dependencies.insert(plan.dependencies.end(), after.begin(), after.end());
        plan.steps.push_back(s);
        return static_cast<std::int32_t>(plan.steps.size()) - 1;
    }

    /// n tiles come into a memory: made, loaded, copied or received there.
    std::int32_t arrive(StepKind kind, int rank, int device, int n, const std::vector<std::int32_t>& after = {},
                        int peer = -1) {
        const auto begin = static_cast<std::int64_t>(plan.arrivals.size());
        for (int i = 0; i < n; ++i) plan.arrivals.push_back({Operand::a, i, -1, 0, 8'000'000});
        return step(kind, rank, device, begin, begin + n, after, peer);
    }

    /// n tiles from one rank to another; {send, receive}.
    std::pair<std::int32_t, std::int32_t> message(int from, int to, int n,
                                                  const std::vector<std::int32_t>& after_send = {},
                                                  const std::vector<std::int32_t>& after_receive = {}) {
        const auto begin = static_cast<std::int64_t>(plan.arrivals.size());
        const auto s = step(StepKind::send, from, -1, begin, begin + n, after_send, to);
        return {s, arrive(StepKind::receive, to, -1, n, after_receive, from)};
    }

    /// n products, each 2 Gflop, of one result tile.
    std::int32_t compute(int rank, int device, int n, const std::vector<std::int32_t>& after = {}, int parts = 1) {
        PlanChain chain;
        chain.sum = static_cast<std::int32_t>(plan.sums.size());
        chain.first_product = static_cast<std::int64_t>(plan.products.size());
        chain.products = n;
        chain.parts = static_cast<std::uint16_t>(parts);
        plan.sums.push_back({0, rank, static_cast<std::int16_t>(device), 0});
        for (int i = 0; i < n; ++i) plan.products.push_back({i, i});
        plan.counts.flops += 2e9 * n / parts;
        plan.chains.push_back(chain);
        const auto at = static_cast<std::int64_t>(plan.chains.size());
        return step(StepKind::compute, rank, device, at - 1, at, after);
    }

    double seconds() const { return simulate(plan, machine).seconds; }

    Plan plan;
    MachineModel machine;
};

/// Spans of one rank's devices, in any order, as an executor records them.
TEST(Trace, ShareOfTransfersThatIsHidden) {
    Trace t;
    EXPECT_EQ(device_overlap(t).transfer_seconds, 0);
    t.lanes = {{0, LaneKind::load, 0},    {0, LaneKind::store, 0}, {0, LaneKind::copy, 1}, {0, LaneKind::compute, 0},
               {0, LaneKind::compute, 1}, {0, LaneKind::core, 0},  {0, LaneKind::core, 1}, {0, LaneKind::make, 0}};
    const auto span = [&](int lane, double start, double end) {
        t.spans.push_back({lane, 0, StepKind::join, start, end, 0});
    };
    span(0, 0, 4);  // loads: 0..4, and 10..12
    span(0, 10, 12);
    span(1, 3, 6);  // a store: 3..6
    span(3, 1, 2);  // work: 1..2 and 5..11
    span(3, 5, 8);
    span(4, 7, 11);  // of another device, while the first works
    span(5, 0, 20);  // the cores pack tiles: no work that hides anything
    span(2, 20, 20);
    span(7, 13, 14);  // a device makes tiles
    for (const auto& [lane, start, end] : {std::tuple{5, 15.0, 17.0}, {6, 16.0, 18.0}, {3, 19.0, 19.0}})
        t.spans.push_back({lane, 0, StepKind::make, start, end, 0});  // the cores make tiles: 15..18
    auto o = device_overlap(t);
    EXPECT_DOUBLE_EQ(o.transfer_seconds, 8);  // 0..6, 10..12
    EXPECT_DOUBLE_EQ(o.hidden_seconds, 3);    // 1..2, 5..6, 10..11
    EXPECT_DOUBLE_EQ(o.work_seconds, 8);      // 1..2, 5..11, 13..14
    EXPECT_DOUBLE_EQ(o.make_seconds, 3);      // 15..18
    std::reverse(t.spans.begin(), t.spans.end());
    o = device_overlap(t);
    EXPECT_DOUBLE_EQ(o.transfer_seconds, 8);
    EXPECT_DOUBLE_EQ(o.hidden_seconds, 3);
    EXPECT_DOUBLE_EQ(o.work_seconds, 8);
    EXPECT_DOUBLE_EQ(o.make_seconds, 3);
}

/// Tiles of B that cores make for a device: with room for two halves of the ring one is made while the other is sent.
TEST(Simulate, TilesAreMadeWhileOthersAreSent) {
    testing::SquareProduct product(512, 16);
    product.made_for_devices(6 << 20);
    product.request.how.algorithm = Algorithm::stationary_b;
    product.request.how.blocks = Blocks::columns;
    auto& machine = product.machine;
    machine.threads_per_rank = 4;
    machine.make_bytes_per_second = machine.host_to_device.bytes_per_second = 1e9;
    machine.device_to_host.bytes_per_second = 1e12;
    machine.device.gemm = {1e15, 0};
    const Plan two = product.plan();
    product.request.host_memory = two.rank_counts[0].peak_bytes - 1;
    const Plan one = product.plan();
    EXPECT_EQ(two.rank_counts[0].arena_bytes, 2 * one.rank_counts[0].arena_bytes);
    EXPECT_EQ(two.counts.loaded_bytes, one.counts.loaded_bytes);
    const auto with_two = simulate(two, machine, {.trace = true}), with_one = simulate(one, machine, {.trace = true});
    const double made = 512 * 512 * 8 / 1e9;
    EXPECT_LT(with_two.seconds, with_one.seconds - made / 4);
    EXPECT_NEAR(device_overlap(with_two.trace).make_seconds, made, 0.2 * made);
}

TEST(Simulate, NothingTakesNoTime) {
    HandMade h;
    EXPECT_EQ(h.seconds(), 0);
    h.step(StepKind::join, 0, -1, 0, 0);
    EXPECT_EQ(h.seconds(), 0);
    EXPECT_EQ(simulate(h.plan, h.machine).overlap, 1);
}

TEST(Simulate, ThreadsShareComputeSteps) {
    HandMade h(1, 0, 2);
    for (int i = 0; i < 3; ++i) h.compute(0, -1, 1);  // 2 s each on one thread
    EXPECT_NEAR(h.seconds(), 4, 1e-9);
    const auto s = simulate(h.plan, h.machine);
    EXPECT_NEAR(s.busy.cores, 6.0 / 8, 1e-9);
    EXPECT_NEAR(s.tflops, 6e9 / 4 * 1e-12, 1e-12);
    EXPECT_EQ(s.tflops_per_device, 0);
}

TEST(Simulate, PartsOfATileAreSharesOfItsWork) {
    HandMade h(1, 0, 2);
    h.compute(0, -1, 4, {}, 2);
    h.compute(0, -1, 4, {}, 2);
    EXPECT_NEAR(h.seconds(), 4, 1e-9);
}

TEST(Simulate, SmallTilesAreSlower) {
    HandMade h;
    h.compute(0, -1, 1);
    h.machine.gemm.half_size = 500;  // size 1000: two thirds of the peak
    EXPECT_NEAR(h.seconds(), 3, 1e-5);
}

TEST(Simulate, ComplexIsFourTimesTheWorkAndSingleTwiceTheRate) {
    HandMade h;
    h.compute(0, -1, 1);
    h.plan.scalar = ScalarKind::c128;
    EXPECT_NEAR(h.seconds(), 8, 1e-9);
    h.plan.scalar = ScalarKind::f32;
    EXPECT_NEAR(h.seconds(), 1, 1e-9);
}

TEST(Simulate, TilesAreMadeByAllThreads) {
    HandMade h(1, 0, 4);
    const auto made = h.arrive(StepKind::make, 0, -1, 8);  // 64 MB at 4 GB/s
    EXPECT_NEAR(h.seconds(), 0.016, 1e-9);
    h.compute(0, -1, 1, {made});
    EXPECT_NEAR(h.seconds(), 2.016, 1e-9);
}

TEST(Simulate, LoadsHideBehindComputing) {
    HandMade h(1, 1);
    const auto first = h.arrive(StepKind::load, 0, 0, 1);   // 8 ms
    h.compute(0, 0, 10, {first});                           // 20 ms
    const auto second = h.arrive(StepKind::load, 0, 0, 2);  // 16 ms, from 8 to 24
    h.compute(0, 0, 5, {second});                           // 10 ms, from 28
    const auto s = simulate(h.plan, h.machine);
    EXPECT_NEAR(s.seconds, 0.038, 1e-9);
    EXPECT_NEAR(s.busy.device, 30.0 / 38, 1e-9);
    EXPECT_NEAR(s.overlap, 16.0 / 24, 1e-9);
    EXPECT_NEAR(s.busy.host_link, 24.0 / 38, 1e-9);
    EXPECT_NEAR(s.tflops_per_device, 30e9 / 0.038 * 1e-12, 1e-9);
}

TEST(Simulate, AStreamTakesItsStepsInOrder) {
    HandMade h(1, 1, 1);
    const auto made = h.arrive(StepKind::make, 0, -1, 1);  // 8 ms on the core
    h.arrive(StepKind::load, 0, 0, 1, {made});             // waits
    h.arrive(StepKind::load, 0, 0, 1);                     // could go, but stands behind
    EXPECT_NEAR(h.seconds(), 0.024, 1e-9);
}

TEST(Simulate, TwoLoadsShareTheHostLink) {
    HandMade h(1, 2);
    h.machine.host_link_bytes_per_second = 1e9;  // half of what the two could do
    h.arrive(StepKind::load, 0, 0, 1);
    h.arrive(StepKind::load, 0, 1, 2);
    // Both at half the rate for 16 ms, then 8 MB at the full rate.
    EXPECT_NEAR(h.seconds(), 0.024, 1e-9);
    h.machine.host_link_bytes_per_second = 0;
    EXPECT_NEAR(h.seconds(), 0.016, 1e-9);
    // Loads and stores go different ways.
    h.machine.host_link_bytes_per_second = 1e9;
    const auto begin = static_cast<std::int64_t>(h.plan.moves.size());
    h.plan.sums.assign(2, PlanSum{});
    h.plan.moves.assign(3, PlanMove{0, 1});
    h.step(StepKind::store, 0, 1, begin, begin + 3);
    EXPECT_NEAR(h.seconds(), 0.024, 1e-9);
}

TEST(Simulate, FarDevicesShareTheWayToTheOtherSocket) {
    HandMade h(1, 3);
    h.machine.near_devices = 1;
    h.machine.far_link_bytes_per_second = 1e9;
    for (int d = 0; d < 3; ++d) h.arrive(StepKind::load, 0, d, 1);
    EXPECT_NEAR(h.seconds(), 0.016, 1e-9);
    // A copy from a near device to a far one crosses as well; one between far devices does not.
    HandMade g(1, 3);
    g.machine.near_devices = 1;
    g.machine.far_link_bytes_per_second = 1e9;
    g.arrive(StepKind::copy, 0, 2, 1, {}, 1);
    EXPECT_NEAR(g.seconds(), 0.002, 1e-9);
    g.arrive(StepKind::copy, 0, 1, 1, {}, 0);
    EXPECT_NEAR(g.seconds(), 0.008, 1e-9);
}

TEST(Simulate, DevicesOfOneGpuShareIt) {
    HandMade h(1, 3);
    h.compute(0, 0, 5);  // 10 ms each of a GPU of their own
    h.compute(0, 1, 5);
    h.compute(0, 2, 10);
    EXPECT_NEAR(h.seconds(), 0.020, 1e-9);
    h.machine.devices_per_gpu = 3;  // a third of the GPU each for 30 ms, then the longest has all of it
    EXPECT_NEAR(h.seconds(), 0.040, 1e-9);
    h.machine.devices_per_gpu = 2;  // the last one has a GPU of its own
    EXPECT_NEAR(h.seconds(), 0.020, 1e-9);

    // So do loads, which are 8 ms each alone; stores go the other way, and copies stay on the GPU.
    HandMade g(1, 3);
    for (int d = 0; d < 3; ++d) g.arrive(StepKind::load, 0, d, 1);
    EXPECT_NEAR(g.seconds(), 0.008, 1e-9);
    g.machine.devices_per_gpu = 3;
    EXPECT_NEAR(g.seconds(), 0.024, 1e-9);
    EXPECT_NEAR(simulate(g.plan, g.machine).busy.host_link, 1, 1e-9);
    g.arrive(StepKind::copy, 0, 2, 1, {}, 1);
    EXPECT_NEAR(g.seconds(), 0.024, 1e-9);
    // A slower link of the rank still counts.
    g.machine.host_link_bytes_per_second = 0.5e9;
    EXPECT_NEAR(g.seconds(), 0.048, 1e-9);
    // Work and loads do not slow each other down.
    g.machine.host_link_bytes_per_second = 0;
    for (int d = 0; d < 3; ++d) g.compute(0, d, 4);
    EXPECT_NEAR(g.seconds(), 0.024, 1e-9);
}

TEST(Simulate, MaxMinSharesAreFair) {
    SharedLinks links({10, 0, 3, 0});
    links.add(0, 0, 30, 100, SharedLinks::host_in);
    links.add(0, 1, 15, 100, SharedLinks::host_in | SharedLinks::far_in);
    links.add(0, 2, 15, 100, SharedLinks::host_in | SharedLinks::far_in);
    // The two far ones have 1.5 each; the near one has the other 7.
    EXPECT_NEAR(links.next_end(), 30.0 / 7, 1e-9);
    EXPECT_EQ(links.take_finished(30.0 / 7), std::vector<std::int32_t>{0});
    EXPECT_NEAR(links.next_end(), 10, 1e-9);
    EXPECT_EQ(links.take_finished(10), (std::vector<std::int32_t>{1, 2}));
}

TEST(Simulate, AMessageWaitsForBothSides) {
    HandMade h(2);
    const auto made = h.arrive(StepKind::make, 0, -1, 1);             // rank 0: 8 ms
    const auto busy = h.arrive(StepKind::make, 1, -1, 2);             // rank 1: 16 ms
    const auto [send, receive] = h.message(0, 1, 2, {made}, {busy});  // 16 MB at 2 GB/s
    h.compute(1, -1, 1, {receive});
    EXPECT_NEAR(h.seconds(), 0.016 + 0.008 + 2, 1e-9);
    h.machine.network.latency = 0.5;
    EXPECT_NEAR(h.seconds(), 0.016 + 0.008 + 2.5, 1e-9);
    EXPECT_NEAR(simulate(h.plan, h.machine).rank_seconds[0], 0.024, 1e-9);
}

TEST(Simulate, ANodeSendsAndReceivesOneAtATime) {
    HandMade h(4);
    h.message(0, 1, 1);
    h.message(0, 2, 1);
    h.message(3, 2, 1);
    h.message(1, 3, 1);
    EXPECT_NEAR(h.seconds(), 0.008, 1e-9);
    // Two ranks a node share the way out: 0 -> 2 and 1 -> 3 now follow each other, and so do all that come in there.
    h.machine.ranks_per_node = 2;
    h.machine.node_link = {8e9, 0};
    HandMade g(4);
    g.machine = h.machine;
    g.message(0, 2, 1);
    g.message(1, 3, 1);
    EXPECT_NEAR(g.seconds(), 0.008, 1e-9);
    g.message(2, 3, 8);  // within the node: 64 MB at 8 GB/s, beside the others
    EXPECT_NEAR(g.seconds(), 0.008, 1e-9);
    EXPECT_NEAR(simulate(g.plan, g.machine).busy.network, 1, 1e-9);
}

TEST(Simulate, SendersSpreadOverFreeReceivers) {
    // All to all, posted receiver by receiver: no link has to wait for another.
    HandMade h(5);
    for (int to = 0; to < 5; ++to)
        for (int from = 0; from < 5; ++from)
            if (from != to) h.message(from, to, 10);
    EXPECT_LE(h.seconds(), 0.040 * 5 * 1.3);
    EXPECT_GE(h.seconds(), 0.040 * 4);
}

TEST(Simulate, SumsAreStoredSentMergedAndFinished) {
    HandMade h(2, 1);
    h.plan.sums.assign(4, PlanSum{});
    h.plan.moves.assign(3, PlanMove{0, 1});
    h.plan.finish_sums = {1};
    const auto store = h.step(StepKind::store, 0, 0, 0, 1);  // 8 ms
    h.step(StepKind::send_sums, 0, -1, 1, 2, {store}, 1);    // 4 ms
    const auto got = h.step(StepKind::receive_sums, 1, -1, 1, 2, {}, 0);
    const auto merged = h.step(StepKind::merge, 1, -1, 2, 3, {got});  // 24 MB at 4 GB/s: 6 ms
    h.step(StepKind::finish, 1, -1, 0, 1, {merged});                  // 4 ms
    EXPECT_NEAR(h.seconds(), 0.022, 1e-9);
}

TEST(Simulate, UnknownRatesCostNothing) {
    HandMade h(2, 1);
    h.machine = {};
    const auto made = h.arrive(StepKind::make, 0, -1, 4);
    const auto [send, receive] = h.message(0, 1, 4, {made});
    const auto loaded = h.arrive(StepKind::load, 1, 0, 4, {receive});
    h.compute(1, 0, 4, {loaded});
    EXPECT_EQ(h.seconds(), 0);
}

TEST(Simulate, BrokenPlansAreBugs) {
    HandMade h(2);
    h.arrive(StepKind::receive, 1, -1, 1, {}, 0);
    EXPECT_THROW(h.seconds(), InternalError);
    HandMade circle;
    circle.step(StepKind::join, 0, -1, 0, 0, {1});
    circle.step(StepKind::join, 0, -1, 0, 0, {0});
    EXPECT_THROW(circle.seconds(), InternalError);
}

/// As on a real device: making has a stream of its own, and shares the arithmetic with the products.
TEST(Simulate, ADeviceMakesTilesBesideItsProducts) {
    HandMade h(1, 1);
    h.machine.device.make_bytes_per_second = 1e9;
    const auto loaded = h.arrive(StepKind::load, 0, 0, 1);  // 8 ms
    h.compute(0, 0, 4, {loaded});                           // 8 ms
    h.arrive(StepKind::make, 0, 0, 1);                      // 8 ms, while the load is under way
    EXPECT_NEAR(h.seconds(), 16e-3, 1e-9);
    EXPECT_NEAR(simulate(h.plan, h.machine).device_seconds.at(0), 16e-3, 1e-9);

    HandMade both(1, 1);
    both.machine.device.make_bytes_per_second = 1e9;
    both.compute(0, 0, 4);
    both.arrive(StepKind::make, 0, 0, 2);  // half of the device until the product is over, then all of it
    const auto s = simulate(both.plan, both.machine, {true});
    EXPECT_NEAR(s.seconds, 24e-3, 1e-8);
    EXPECT_NEAR(s.device_seconds.at(0), 24e-3, 1e-8);  // not 16 and 24: seconds in which it works
    for (const auto& span : s.trace.spans) {
        const double end = span.kind == StepKind::compute ? 16e-3 : 24e-3;
        EXPECT_NEAR(span.end, end, 1e-8);
    }
}

TEST(Simulate, TheTraceCoversEveryLane) {
    HandMade h(2, 1, 2);
    const auto made = h.arrive(StepKind::make, 0, -1, 2);
    const auto [send, receive] = h.message(0, 1, 2, {made});
    const auto loaded = h.arrive(StepKind::load, 1, 0, 2, {receive});
    const auto on_device = h.arrive(StepKind::make, 1, 0, 2);
    h.compute(1, 0, 3, {loaded, on_device});
    const auto s = simulate(h.plan, h.machine, {true});
    EXPECT_EQ(s.trace.lanes.size(), 7u);  // two cores, send, receive, load, make, compute
    EXPECT_EQ(std::ranges::count(s.trace.lanes, LaneKind::make, &TraceLane::kind), 1);
    double end = 0, flops = 0;
    for (const auto& span : s.trace.spans) {
        EXPECT_LE(span.start, span.end);
        end = std::max(end, span.end);
        if (span.kind == StepKind::compute) flops += span.amount;
    }
    EXPECT_EQ(end, s.seconds);
    EXPECT_EQ(flops, 6e9);
    EXPECT_TRUE(simulate(h.plan, h.machine).trace.spans.empty());
}

/// No run can be shorter than its busiest device, link or node alone, nor longer than all steps one after another.
TEST(Simulate, RealPlansLieBetweenTheirBounds) {
    const auto summit = read_machine("summit").machine;
    for (const char* text : {"alkane:16:v2:min", "dense:4000,4000,4000,500", "blocks:20,200,0.3"})
        for (int ranks : {1, 2, 5})
            for (int devices : {0, 1, 3}) {
                const auto problem = make_problem(text);
                const ContractionSpec spec(problem.spec);
                auto machine = summit;
                machine.ranks = ranks;
                machine.devices_per_rank = devices;
                PlanRequest request;
                request.spec = &spec;
                request.a = &problem.a;
                request.b = &problem.b;
                if (problem.b_on_demand) request.source_b = SourceKind::host_made;
                request.screening.given = problem.c ? &*problem.c : nullptr;
                const auto plan = build_plan(request, machine);
                const auto s = simulate(plan, machine);
                double least = 0, most = 0;
                for (const auto& d : plan.device_counts) {
                    least = std::max(least, d.flops / machine.device.gemm.flops_per_second);
                    least =
                        std::max(least, static_cast<double>(d.loaded_bytes) / machine.host_to_device.bytes_per_second);
                    most += 10 * d.flops / machine.device.gemm.flops_per_second;
                }
                for (const auto& r : plan.rank_counts) {
                    if (devices == 0) least = std::max(least, r.flops / machine.gemm.flops_per_second);
                    most +=
                        100 * r.flops / machine.gemm.flops_per_second + 1e-3 * static_cast<double>(plan.steps.size());
                    most += static_cast<double>(r.received_bytes + r.made_bytes) / 1e8;
                }
                const auto& n = plan.counts;
                most += static_cast<double>(n.loaded_bytes + n.stored_bytes + n.copied_bytes) / 1e9;
                most += static_cast<double>(plan.arrivals.size()) * machine.network_tile_seconds;
                EXPECT_GE(s.seconds, least * (1 - 1e-5)) << text << " " << ranks << " " << devices;
                EXPECT_LE(s.seconds, most) << text << " " << ranks << " " << devices;
                EXPECT_GE(s.overlap, 0);
                EXPECT_LE(s.overlap, 1);
                for (double busy : {s.busy.device, s.busy.network, s.busy.host_link, s.busy.cores}) {
                    EXPECT_GE(busy, 0);
                    EXPECT_LE(busy, 1 + 1e-9);
                }
                // The same again, and with a trace, to the last bit.
                const auto again = simulate(plan, machine, {true});
                EXPECT_EQ(again.seconds, s.seconds);
                double end = 0;
                for (const auto& span : again.trace.spans) end = std::max(end, span.end);
                EXPECT_LE(end, s.seconds);
                // Faster links never hurt by more than the order of events can.
                auto faster = machine;
                faster.host_to_device.bytes_per_second *= 8;
                faster.network.bytes_per_second *= 8;
                faster.network_tile_seconds = 0;
                EXPECT_LE(simulate(plan, faster).seconds, 1.05 * s.seconds);
            }
}

}  // namespace
}  // namespace tessera
