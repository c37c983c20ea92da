// A tile source with device code of its own: the host's bits, nothing moved, and its mistakes.

#include <gtest/gtest.h>

#include "device/discovery.hpp"
#include "device/open_devices.hpp"
#include "device_code_kernels.hpp"
#include "support/cuda_handles.hpp"
#include "support/device_cases.hpp"
#include "support/exit_as.hpp"
#include "support/leak_check.hpp"
#include "support/own_values.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

class CudaDeviceCode : public ::testing::Test {
  protected:
    void SetUp() override {
        if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    }
    const testing::OpenDevices open = [](std::span<const std::int64_t> arenas, std::int64_t budget, ScalarKind kind) {
        return open_devices(std::vector<int>(arenas.size(), 0), arenas, budget, kind);
    };
};

TEST_F(CudaDeviceCode, SameBitsAsOnTheHost) {
    testing::device_code(open, testing::make_own_tiles, 4, 40);
    testing::device_code(open, testing::make_own_tiles, 6, 3);
}

/// Through the front door, at the size of a real chunk.
TEST_F(CudaDeviceCode, ContractMakesTheTilesOnTheDevice) {
    const Tiling t = Tiling::from_sizes(std::vector<std::int64_t>{300, 211, 64, 1, 512});
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{t, t}), 1);
    std::vector<ShapeEntry> tiles;
    for (std::int64_t o = 0; o < 25; ++o)
        if (o % 4 != 1) tiles.push_back({TileOrdinal{o}, 1e6});
    GeneratedTensor<double> b{Shape(TileGrid{t, t}, tiles), testing::make_own_tile};
    const auto on_cores = contract("ik,kj->ij", a, b);
    Resources here;
    here.devices = {0};
    const auto sent = contract("ik,kj->ij", a, b, here);
    b.on_device = testing::make_own_tiles;
    for (const std::vector<int>& devices : {std::vector<int>{0}, {0, 0}}) {
        here.devices = devices;
        const auto made = contract("ik,kj->ij", a, b, here);
        EXPECT_TRUE(made.tensor == on_cores.tensor);
        EXPECT_TRUE(made.tensor == sent.tensor);
        EXPECT_GE(made.report.made_tiles, b.shape.tile_count());
        EXPECT_LT(made.report.loaded_bytes, sent.report.loaded_bytes * static_cast<std::int64_t>(devices.size()));
    }
    // B's rows are not its columns in memory: its tiles are made on the host and sent permuted.
    const auto turned = contract("ik,jk->ij", a, b, here);
    EXPECT_TRUE(turned.tensor == contract("ik,jk->ij", a, b).tensor);
}

/// Elements changed by a kernel of the user's where they are, and tiles made by one: the host's bits.
TEST_F(CudaDeviceCode, ElementFunctionsAndTilesOfTensorsThere) {
    const Tiling t{30, 21, 64, 1};
    const auto shape = Shape::dense(TileGrid{t, t}, 1e6);
    auto here = Tensor<double>::generate(shape, testing::make_own_tile);
    auto there = Tensor<double>::generate(shape, testing::make_own_tile, testing::make_own_tiles,
                                          Placement::on_devices({0}, 20'000));
    EXPECT_GT(there.tile_bytes(), 0);  // some stay on the host
    EXPECT_TRUE(there == here);
    const auto change = [](const TileInfo&, std::span<double> tile) {
        for (double& x : tile) x = testing::changed_value(x);
    };
    here.update_tiles(change);
    there.update_tiles(change, testing::change_tiles);
    EXPECT_TRUE(there == here);
    EXPECT_EQ(there.shape(), here.shape());
    EXPECT_THROW(there.update_tiles(change, testing::make_impossible_launch), UserError);
}

TEST_F(CudaDeviceCode, WhatItThrowsAndALaunchThatFailsAreTheUsers) {
    const Tiling t = Tiling::uniform(64, 16);
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{t, t}), 1);
    GeneratedTensor<double> b{a.shape(), testing::make_own_tile};
    Resources here;
    here.devices = {0, 0};
    b.on_device = [](std::span<const DeviceTile>, void*) { throw std::domain_error("of the user's own"); };
    EXPECT_THROW(contract("ik,kj->ij", a, b, here), std::domain_error);
    b.on_device = testing::make_impossible_launch;
    try {
        contract("ik,kj->ij", a, b, here);
        FAIL() << "4096 threads in a block";
    } catch (const UserError& e) {
        EXPECT_EQ(e.exit_code(), 2);
        EXPECT_NE(std::string(e.what()).find("device code of a tile source"), std::string::npos) << e.what();
    }
    b.on_device = testing::make_own_tiles;  // and the device is fit for use
    EXPECT_TRUE(contract("ik,kj->ij", a, b, here).tensor == contract("ik,kj->ij", a, b).tensor);
}

/// Nobody can say whose kernel it was; it takes the context with it: in a process of its own, which gives back all that
/// it had before it ends.
TEST_F(CudaDeviceCode, ABadAccessIsAMachineError) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto free = device::free_bytes(0);
    EXPECT_EXIT(
        {
            const Tiling t = Tiling::uniform(64, 16);
            const auto a = Tensor<double>::random(Shape::dense(TileGrid({t, t})), 1);
            GeneratedTensor<double> b;
            b.shape = a.shape();
            b.make = testing::make_own_tile;
            b.on_device = testing::make_bad_access;
            Resources here;
            here.devices.assign(2, 0);
            testing::exit_as([&] {
                try {
                    contract("ik,kj->ij", a, b, here);
                } catch (const MachineError&) {
                    release_memory();  // pinned blocks are kept for later
                    const auto handles = testing::cuda_handles();
                    std::fprintf(stderr, "%d handles, %d kept; ", handles.taken, handles.taken - handles.returned);
                    throw;
                }
            });
        },
        ::testing::ExitedWithCode(3), "[1-9][0-9]+ handles, 0 kept; CUDA");
    EXPECT_NEAR(static_cast<double>(device::free_bytes(0)), static_cast<double>(free), 8 << 20);
}

}  // namespace
}  // namespace tessera
