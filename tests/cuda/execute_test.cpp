// The device interpreter on CUDA devices: the cases of tests/unit/device_test.cpp, memory and faults.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "device/discovery.hpp"
#include "device/open_devices.hpp"
#include "support/device_cases.hpp"
#include "support/exit_as.hpp"
#include "support/leak_check.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

using testing::DeviceCase;
using testing::OpenDevices;
using testing::random_case;
using testing::run_case;

/// All entries on the first GPU.
OpenDevices cuda_devices() {
    return [](std::span<const std::int64_t> arenas, std::int64_t budget, ScalarKind kind) {
        const std::vector<int> ids(arenas.size(), 0);
        return open_devices(ids, arenas, budget, kind);
    };
}

template <class T>
class CudaExecute : public ::testing::Test {
  protected:
    void SetUp() override {
        if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    }
};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CudaExecute, AllScalars);

TYPED_TEST(CudaExecute, RandomContractionsAreRightAndMoveWhatThePlanSays) {
    testing::random_contractions<TypeParam>(cuda_devices(), 60, 4, 6);
}

TYPED_TEST(CudaExecute, TensorsWithSymmetry) { testing::tensors_with_symmetry<TypeParam>(cuda_devices(), 6, 3); }

TYPED_TEST(CudaExecute, SameBitsForAnyBudgetAndNumberOfDevices) { testing::same_bits<TypeParam>(cuda_devices(), 4, 6); }

TYPED_TEST(CudaExecute, ManySmallProducts) { testing::many_small_products<TypeParam>(cuda_devices()); }

class CudaExecuteOnce : public CudaExecute<double> {};

TEST_F(CudaExecuteOnce, LargerTiles) {
    testing::Random r(5);
    std::optional<Tensor<double>> first;
    auto c = random_case<double>(r, "mk,kn->mn", 1, 1);
    const auto tiling = [&](int tiles) {
        std::vector<std::int64_t> sizes;
        for (int i = 0; i < tiles; ++i) sizes.push_back(testing::pick(r, 1, 150));
        return Tiling::from_sizes(sizes);
    };
    const auto m = tiling(4), n = tiling(5), k = tiling(6);
    c.a = Tensor<double>::random(testing::random_shape(r, TileGrid{m, k}, 0.8), 1);
    c.b = Tensor<double>::random(testing::random_shape(r, TileGrid{k, n}, 0.8), 2);
    for (const std::int64_t budget : {std::int64_t{0}, std::int64_t{2} << 20, std::int64_t{64} << 20})
        for (const int devices : {1, 3}) {
            c.devices = devices;
            c.budget = budget > 0 ? budget : testing::smallest_budget(c);
            const auto result = run_case(c, cuda_devices());
            if (!first) testing::expect_right(c, result.c);
            if (!first) first = result.c;
            ASSERT_TRUE(result.c == *first);
        }
}

TEST_F(CudaExecuteOnce, LargeResultTilesComeInRows) { testing::large_result_tiles(cuda_devices()); }

std::int64_t in_pages(std::int64_t bytes) {
    constexpr std::int64_t page = 2 << 20;  // what the driver gives out
    return (bytes + page - 1) / page * page;
}

/// The least that the driver says is free, read all the time by a thread of its own.
class LeastFree {
  public:
    LeastFree()
        : least_(device::free_bytes(0)), thread_([this](const std::stop_token& stop) {
              while (!stop.stop_requested()) {
                  const auto now = device::free_bytes(0);
                  if (now < least_) least_ = now;
                  ++readings_;
              }
          }) {}
    std::int64_t stop() {
        thread_.request_stop();
        thread_.join();
        return least_;
    }
    std::int64_t readings() const { return readings_; }

  private:
    std::atomic<std::int64_t> least_, readings_ = 0;
    std::jthread thread_;
};

/// What the driver says is taken while problems run stays within the budgets, beside the context and its streams.
TEST_F(CudaExecuteOnce, DriverReadingWithinBudget) {
    testing::Random r(6);
    std::int64_t readings = 0;
    for (int trial = 0; trial < 9; ++trial) {
        auto c = random_case<double>(r, "mk,kn->mn", 1, 1);
        const auto tiling = [&] {
            std::vector<std::int64_t> sizes;
            for (auto tiles = testing::pick(r, 4, 9); tiles > 0; --tiles) sizes.push_back(testing::pick(r, 60, 400));
            return Tiling::from_sizes(sizes);
        };
        const auto m = tiling(), n = tiling(), k = tiling();
        c.a = Tensor<double>::random(testing::random_shape(r, TileGrid{m, k}, 0.7), 1);
        c.b = Tensor<double>::random(testing::random_shape(r, TileGrid{k, n}, 0.7), 2);
        c.devices = 1 + trial % 3;
        c.budget = std::max(testing::smallest_budget(c), std::int64_t{4} << 20);
        c.budget = testing::pick(r, c.budget, 4 * c.budget);
        run_case(c, cuda_devices());  // kernels are loaded when first used, and that stays
        std::int64_t before = 0;
        {
            const std::vector<int> ids(static_cast<std::size_t>(c.devices), 0);
            const std::vector<std::int64_t> none(ids.size(), 0);
            const auto open = open_devices(ids, none, 0, ScalarKind::f64);
            before = device::free_bytes(0) + (std::int64_t{2} << 20);  // the small reserves share a page
        }
        LeastFree watch;
        const auto ran = run_case(c, cuda_devices());
        const auto taken = before - watch.stop();
        readings += watch.readings();
        EXPECT_LE(taken, c.devices * in_pages(c.budget)) << "budget " << c.budget << ", devices " << c.devices;
        std::int64_t held = 0;
        for (const auto& d : ran.counts.devices) held += d.high_water;
        EXPECT_GE(taken, held) << "it did not read while they ran";
    }
    EXPECT_GT(readings, 90);
}

/// Someone else holds nearly all of the card: what asks for more ends with a message, what takes what is free works.
TEST_F(CudaExecuteOnce, ACardThatIsNearlyFull) {
    const Tiling t = Tiling::uniform(4096, 512);
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{t, t}), 1), b = Tensor<double>::random(a.shape(), 2);
    Resources here;
    here.devices = {0};
    const auto expected = contract("ik,kj->ij", a, b, here).tensor;
    const auto free = device::free_bytes(0);
    device::DeviceBuffer others(static_cast<std::size_t>(free - (std::int64_t{192} << 20)));
    for (const std::vector<int>& devices : {std::vector<int>{0}, {0, 0, 0}}) {
        here.devices = devices;
        here.device_memory = std::int64_t{1} << 30;
        try {
            contract("ik,kj->ij", a, b, here);
            FAIL() << "a gigabyte of 192 MiB";
        } catch (const MachineError& e) {
            EXPECT_EQ(e.exit_code(), 3);
            EXPECT_NE(std::string(e.what()).find("are free"), std::string::npos) << e.what();
        }
    }
    here.devices = {0};
    here.device_memory = 0;
    EXPECT_TRUE(contract("ik,kj->ij", a, b, here).tensor == expected);
    others = {};
    here.device_memory = std::int64_t{1} << 30;
    EXPECT_TRUE(contract("ik,kj->ij", a, b, here).tensor == expected);
    EXPECT_NEAR(static_cast<double>(device::free_bytes(0)), static_cast<double>(free), 8 << 20);
}

template <class Thrown>
void expect_failure(DeviceCase<double> c) {
    for (const int devices : {1, 3}) {
        c.devices = devices;
        EXPECT_THROW(run_case(c, cuda_devices()), Thrown);
    }
}

TEST_F(CudaExecuteOnce, Faults) {
    testing::Random r(8);
    auto c = random_case<double>(r, "pcd,cdab->pab", 4, 3);
    c.budget = testing::smallest_budget(c) * 2;
    const auto free = device::free_bytes(0);

    auto host = c;
    host.source_b = SourceKind::host_made;
    host.make_b = [](const TileInfo& info, std::span<double> tile) {
        if (info.tile.value % 5 == 0) throw std::domain_error("generator");
        std::ranges::fill(tile, 1.0);
    };
    expect_failure<std::domain_error>(host);

    auto device = c;
    device.source_b = SourceKind::device_made;
    device.on_device_b = [](const TileInfo& info) -> HashTileValues {
        if (info.tile.value % 5 == 0) throw std::domain_error("rule");
        return {};
    };
    expect_failure<std::domain_error>(device);

    const std::int64_t small[] = {1 << 20};
    const std::vector<int> missing{device::count()}, first{0};
    EXPECT_THROW(open_devices(missing, small, 0, ScalarKind::f64), BackendUnavailable);
    EXPECT_THROW(open_devices(first, small, std::int64_t{1} << 50, ScalarKind::f64), MachineError);
    const std::int64_t most[] = {device::info(0).memory_bytes - (std::int64_t{128} << 20)};
    device::DeviceBuffer other(std::size_t{512} << 20);  // someone else holds memory of the card
    EXPECT_THROW(open_devices(first, most, 0, ScalarKind::f64), MachineError);
    other = {};
    EXPECT_NEAR(static_cast<double>(device::free_bytes(0)), static_cast<double>(free), 64 << 20);
    run_case(c, cuda_devices());  // and the device is fit for use
}

/// A kernel that fails takes the context with it: in a process of its own.
TEST_F(CudaExecuteOnce, AFailingKernelIsAMachineError) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            testing::Random r(8);
            auto c = random_case<double>(r, "pcd,cdab->pab", 4, 3);
            c.devices = 2;
            c.options.fault_at_compute = 1;
            testing::exit_as([&] { run_case(c, cuda_devices()); });
        },
        ::testing::ExitedWithCode(3), "CUDA");
}

}  // namespace
}  // namespace tessera
