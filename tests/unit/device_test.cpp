// The device interpreter on devices that host threads play: what CUDA devices run is the same code but for the device.

#include <gtest/gtest.h>

#include <future>

#include "device/host_device.hpp"
#include "device/sharing.hpp"
#include "execute/device/staging_ring.hpp"
#include "execute/device/worker_pool.hpp"
#include "support/device_cases.hpp"

namespace tessera {
namespace {

using testing::DeviceCase;
using testing::OpenDevices;
using testing::random_case;
using testing::run_case;

OpenDevices host_devices(int jitter) {
    return [jitter](std::span<const std::int64_t> arenas, std::int64_t budget, ScalarKind kind) {
        std::vector<std::unique_ptr<Device>> devices;
        for (const auto arena : arenas)
            devices.push_back(make_host_device({arena, device_reserve_bytes(budget), kind, jitter, devices.size()}));
        return devices;
    };
}

template <class T>
class HostDevices : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(HostDevices, AllScalars);

TYPED_TEST(HostDevices, RandomContractionsAreRightAndMoveWhatThePlanSays) {
    testing::random_contractions<TypeParam>(host_devices(0), 60, 4, 4);
}

TYPED_TEST(HostDevices, OrdersOfCompletionDoNotMatter) {
    testing::random_contractions<TypeParam>(host_devices(200), 12, 4, 3);
}

TYPED_TEST(HostDevices, TensorsWithSymmetry) { testing::tensors_with_symmetry<TypeParam>(host_devices(0), 6, 3); }

TEST(HostDevicesOnce, SameBitsForAnyBudgetAndNumberOfDevices) { testing::same_bits<double>(host_devices(20), 4, 4); }

TEST(HostDevicesOnce, ManySmallProducts) { testing::many_small_products<double>(host_devices(0)); }

TEST(HostDevicesOnce, DeviceCodeOfATileSource) {
    testing::device_code(
        host_devices(50),
        [](std::span<const DeviceTile> tiles, void*) {
            for (const auto& t : tiles)
                for (std::int64_t e = 0; e < t.rows * t.columns; ++e)
                    static_cast<double*>(t.data)[e / t.columns * t.pitch + e % t.columns] =
                        testing::own_value(t.info.tile.value, e);
        },
        4, 4);
}

TEST(HostDevicesOnce, SameBitsForAnyParameters) {
    testing::same_bits_for_any_parameters<double>(host_devices(20), 60, 4, 4);
}

TEST(HostDevicesOnce, TilesLargerThanAPieceAreCutAtRows) {
    testing::Random r(3);
    auto c = random_case<double>(r, "mk,kn->mn", 1, 1);
    c.a = Tensor<double>::random(Shape::dense(TileGrid{Tiling::uniform(3, 3), Tiling::uniform(260'001, 260'001)}), 1);
    c.b = Tensor<double>::random(Shape::dense(TileGrid{Tiling::uniform(260'001, 260'001), Tiling::uniform(3, 3)}), 2);
    c.options.staging_bytes = 1;
    testing::expect_right(c, run_case(c, host_devices(0)).c);
}

/// A long result tile has more thread blocks' shares than room is for in the descriptor memory.
TEST(HostDevicesOnce, TilesWithManySharesAreComputedInParts) {
    const OpenDevices little = [](std::span<const std::int64_t> arenas, std::int64_t, ScalarKind kind) {
        std::vector<std::unique_ptr<Device>> devices;
        for (const auto arena : arenas) devices.push_back(make_host_device({arena, 8 << 10, kind, 20, devices.size()}));
        return devices;
    };
    testing::Random r(5);
    for (const auto& [m, n, batch] : {std::tuple{70'003, 3, 1}, {3, 70'003, 1}, {1'000, 1'500, 1}, {20'001, 1, 3}}) {
        auto c = random_case<double>(r, "hmk,hkn->hmn", 1, 1);
        const auto one = [](int extent) { return Tiling::uniform(extent, extent); };
        const auto k = Tiling::uniform(7, 3);
        c.a = Tensor<double>::random(Shape::dense(TileGrid{one(batch), one(m), k}), 1);
        c.b = Tensor<double>::random(Shape::dense(TileGrid{one(batch), k, one(n)}), 2);
        const auto parts = run_case(c, little);
        const auto whole = run_case(c, host_devices(0));
        EXPECT_TRUE(parts.c == whole.c) << m << " x " << n;
        EXPECT_GT(parts.counts.devices[0].launches, whole.counts.devices[0].launches);
        testing::expect_right(c, parts.c);
    }
}

/// What one device has, others take from it: so do random contractions of three.
TEST(HostDevicesOnce, DevicesCopyFromEachOther) {
    std::int64_t copied = 0;
    for (unsigned seed = 1; seed < 5; ++seed) {
        testing::Random r(seed);
        auto c = random_case<double>(r, "pcd,cdab->pab", 4, 4);
        c.devices = 3;
        const auto result = run_case(c, host_devices(20));
        testing::expect_right(c, result.c);
        for (const auto& d : result.counts.devices) copied += d.copied_bytes;
    }
    EXPECT_GT(copied, 0);
}

TEST(HostDevicesOnce, LargeResultTilesComeInRows) { testing::large_result_tiles(host_devices(50)); }

// What goes wrong comes out as an exception, and nothing hangs.

template <class Thrown>
void expect_failure(DeviceCase<double> c) {
    for (const int jitter : {0, 300})
        for (const int devices : {1, 3}) {
            c.devices = devices;
            EXPECT_THROW(run_case(c, host_devices(jitter)), Thrown);
        }
}

struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

TEST(HostDevicesFaults, GeneratorsKernelsAndNaN) {
    testing::Random r(8);
    auto c = random_case<double>(r, "pcd,cdab->pab", 4, 3);
    c.budget = testing::smallest_budget(c) * 2;

    auto kernel = c;
    kernel.options.fault_at_compute = 0;
    expect_failure<MachineError>(kernel);

    auto host = c;
    host.source_b = SourceKind::host_made;
    host.make_b = [](const TileInfo& info, std::span<double> tile) {
        if (info.tile.value % 5 == 0) throw Broken("generator");
        std::ranges::fill(tile, 1.0);
    };
    expect_failure<Broken>(host);

    auto device = c;
    device.source_b = SourceKind::device_made;
    device.on_device_b = [](const TileInfo& info) -> HashTileValues {
        if (info.tile.value % 5 == 0) throw Broken("rule");
        return {};
    };
    expect_failure<Broken>(device);

    device.on_device_b = [](std::span<const DeviceTile> tiles, void*) {
        for (const auto& t : tiles)
            if (t.info.tile.value % 5 == 0) throw Broken("device code");
    };
    expect_failure<Broken>(device);

    auto infinite = c;
    infinite.alpha = std::numeric_limits<double>::max();
    infinite.a.update_tiles([](const TileInfo&, std::span<double> t) { std::ranges::fill(t, 1e3); });
    infinite.b.update_tiles([](const TileInfo&, std::span<double> t) { std::ranges::fill(t, 1e3); });
    expect_failure<UserError>(infinite);
}

TEST(HostDevicesOnce, TheTimelineKeepsToTheDependencies) {
    for (unsigned seed = 9; seed < 17; ++seed) {
        testing::Random r(seed);
        auto c = random_case<double>(r, "pcd,cdab->pab", 4, 4);
        if (seed % 2) c.source_b = SourceKind::host_made;
        c.devices = 2;
        c.budget = testing::smallest_budget(c) * 2;
        c.options.trace = true;
        const auto result = run_case(c, host_devices(100));
        std::map<int, const TraceSpan*> by_step;
        std::map<int, double> made, first_packed;  // by step: when cores were through, and when they began
        const auto& trace = result.counts.trace;
        double packed = 0, loaded = 0;  // what goes to the devices is packed by cores first, and both are seen
        for (const auto& span : trace.spans) {
            EXPECT_LE(span.start, span.end);
            const auto kind = trace.lanes[static_cast<std::size_t>(span.lane)].kind;
            if (span.kind == StepKind::load) (kind == LaneKind::core ? packed : loaded) += span.amount;
            if (kind == LaneKind::make) {
                EXPECT_EQ(span.kind, StepKind::make);
            }
            if (kind == LaneKind::compute) {
                EXPECT_EQ(span.kind, StepKind::compute);
            }
            if (kind != LaneKind::core) {
                by_step[span.step] = &span;
            } else if (span.kind == StepKind::make) {
                made[span.step] = span.end;
            } else if (span.kind == StepKind::load) {
                const auto at = first_packed.try_emplace(span.step, span.start).first;
                at->second = std::min(at->second, span.start);
            }
        }
        EXPECT_EQ(static_cast<std::int64_t>(made.size()), result.counts.host.made_tiles);
        EXPECT_EQ(!made.empty(), c.source_b == SourceKind::host_made);
        EXPECT_EQ(device_overlap(trace).make_seconds > 0, !made.empty());
        int computes = 0;
        for (std::size_t i = 0; i < result.plan.steps.size(); ++i) {
            const auto& s = result.plan.steps[i];
            const auto at = by_step.find(static_cast<int>(i));
            const bool moves = s.kind == StepKind::load || s.kind == StepKind::store || s.kind == StepKind::copy;
            if (s.device >= 0 && (s.kind == StepKind::compute || s.kind == StepKind::make || moves)) {
                computes += s.kind == StepKind::compute;
                EXPECT_NE(at, by_step.end()) << "step " << i << " of " << result.plan.steps.size() << ", seed " << seed;
            }
            if (at == by_step.end()) continue;
            for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d) {
                const auto step = result.plan.dependencies[static_cast<std::size_t>(d)];
                const auto before = by_step.find(step);
                if (before != by_step.end()) {
                    EXPECT_LE(before->second->end, at->second->start);
                }
                if (made.contains(step)) {
                    EXPECT_LE(made[step], first_packed[static_cast<int>(i)]);
                }
            }
        }
        EXPECT_GT(computes, 0);
        EXPECT_GT(loaded, 0);
        EXPECT_EQ(packed, loaded);
    }
}

TEST(DeviceShare, RanksThatSeeTheSameDevicesDealThemOut) {
    using Seen = std::vector<std::vector<std::uint64_t>>;
    const auto shares = [](const Seen& seen) {
        std::vector<std::vector<int>> out;
        for (std::size_t r = 0; r < seen.size(); ++r) out.push_back(share_of_devices(seen, static_cast<int>(r)));
        return out;
    };
    using Shares = std::vector<std::vector<int>>;
    EXPECT_EQ(shares({{1, 2, 3, 4}}), (Shares{{0, 1, 2, 3}}));
    EXPECT_EQ(shares(Seen(4, {1, 2, 3, 4})), (Shares{{0}, {1}, {2}, {3}}));
    EXPECT_EQ(shares(Seen(2, {1, 2, 3, 4})), (Shares{{0, 1}, {2, 3}}));
    EXPECT_EQ(shares(Seen(3, {1})), (Shares{{0}, {0}, {0}}));
    EXPECT_EQ(shares(Seen(3, {1, 2})), (Shares{{0}, {1}, {0}}));
    EXPECT_EQ(shares({{1, 2}, {3, 4}, {1, 2}, {3, 4}}), (Shares{{0}, {0}, {1}, {1}}));  // two nodes, dealt cyclically
    EXPECT_EQ(shares({{1}, {2}}), (Shares{{0}, {0}}));                                  // each was given its own
}

TEST(DeviceShare, TilesThatNoDeviceCanDescribeAreRefused) {
    const auto grid = [](std::int64_t rows, std::int64_t cols) {
        return TileGrid{Tiling::uniform(rows, rows), Tiling::uniform(cols, cols)};
    };
    const ContractionSpec spec("ik,kj->ij");
    require_device_extents(spec, grid(1'000'000'000, 1), grid(1, 1));
    EXPECT_THROW(require_device_extents(spec, grid(2'200'000'000, 1), grid(1, 1)), UserError);
    EXPECT_THROW(require_device_extents(spec, grid(1, 2'200'000'000), grid(2'200'000'000, 1)), UserError);
    EXPECT_THROW(require_device_extents(spec, grid(1, 1), grid(1, 2'200'000'000)), UserError);
}

TEST(WorkerPool, WhatIsForLaterWaitsForTheRest) {
    std::promise<void> begin, over;
    std::string order;
    WorkerPool pool(1, [](std::exception_ptr) { FAIL(); });
    pool.submit([&, begun = begin.get_future().share()](WorkerPool::Scratch&) { begun.wait(); });
    for (const char name : {'x', 'y'})
        pool.submit_later([&, name](WorkerPool::Scratch&) {
            order += name;
            if (name == 'y') over.set_value();
        });
    for (const char name : {'a', 'b'}) pool.submit([&, name](WorkerPool::Scratch&) { order += name; });
    begin.set_value();
    over.get_future().wait();
    EXPECT_EQ(order, "abxy");
}

TEST(StagingRing, HandsOutWhatIsFree) {
    StagingRing ring(4096);
    const auto a = ring.try_take(1000), b = ring.try_take(1500), c = ring.try_take(1024);
    ASSERT_TRUE(a && b && c);
    EXPECT_FALSE(ring.try_take(600));
    ring.give(*b);
    EXPECT_FALSE(ring.try_take(600));  // the oldest is still out
    ring.give(*a);
    const auto d = ring.try_take(2000);
    ASSERT_TRUE(d);
    EXPECT_EQ(*d, 0);
    EXPECT_FALSE(ring.try_take(2000));
    ring.give(*c);
    ring.give(*d);
    EXPECT_TRUE(ring.try_take(4096));
    EXPECT_THROW(ring.try_take(5000), InternalError);
}

}  // namespace
}  // namespace tessera
