// What a dry run counts is what the same code would hold, and nothing is held.
#include "storage/dry_run.hpp"

#include <gtest/gtest.h>

#include "chem/dense_array.hpp"
#include "chem/tensor_work.hpp"
#include "storage/buffer.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

Shape square(std::int64_t extent) {
    const Tiling t = Tiling::uniform(extent, 64);
    return Shape::dense(TileGrid{t, t});
}

TEST(DryRun, CountsWhatLivesAtOnce) {
    DryRun dry;
    EXPECT_EQ(dry.peak(), 0);
    {
        const Buffer one(8 * kMiB);
        EXPECT_EQ(one.data(), nullptr);
        EXPECT_EQ(dry.peak(), 8 * kMiB);
        Buffer two(10 * kMiB);
        const Buffer three = std::move(two);
        EXPECT_EQ(dry.peak(), 18 * kMiB);
    }
    const Buffer less(12 * kMiB);
    EXPECT_EQ(dry.peak(), 18 * kMiB);
}

TEST(DryRun, ThePoolAndTheHeapKeepWhatIsFreedAndLargeArraysGoBack) {
    DryRun dry;
    { const Buffer pooled(100 * kMiB); }
    { const DryArray small(kMiB); }
    EXPECT_EQ(dry.peak(), 101 * kMiB);
    { const DryArray large(40 * kMiB); }
    EXPECT_EQ(dry.peak(), 141 * kMiB);
    { const DryArray large(40 * kMiB); }
    EXPECT_EQ(dry.peak(), 141 * kMiB);
    dry.release();
    { const DryArray larger(139 * kMiB); }
    EXPECT_EQ(dry.peak(), 141 * kMiB);
    { const DryArray larger(141 * kMiB); }
    EXPECT_EQ(dry.peak(), 142 * kMiB);
}

TEST(DryRun, EndsWithItsScope) {
    EXPECT_EQ(DryRun::current(), nullptr);
    {
        DryRun outer;
        {
            DryRun inner;
            EXPECT_EQ(DryRun::current(), &inner);
            const Buffer counted(8 * kMiB);
            EXPECT_EQ(outer.peak(), 0);
        }
        EXPECT_EQ(DryRun::current(), &outer);
    }
    EXPECT_EQ(DryRun::current(), nullptr);
    const DryArray nothing(kMiB);
    EXPECT_NE(Buffer(64).data(), nullptr);
}

/// A tebibyte in each tensor: any of these would fail if it took or touched it.
TEST(DryRun, TensorsOfAnySizeHoldNothing) {
    using chem::RealTensor;
    const Tiling t = Tiling::uniform(std::int64_t{380'000}, 10'000);
    const Shape shape = Shape::dense(TileGrid{t, t});
    DryRun dry;
    chem::TensorWork work({.here = {.threads = 2}});
    RealTensor x(shape);
    const auto one = x.tile_bytes();
    EXPECT_GT(one, std::int64_t{1} << 40);
    EXPECT_EQ(dry.peak(), align_up(one, 2 * kMiB));
    {
        const RealTensor copy = x;
        const RealTensor sum = add(1.0, x, 2.0, copy);
        axpy(1.0, sum, x);
        scale(x, 2.0);
        EXPECT_EQ(dot(x, sum), 0);
        x.update_tiles([](const TileInfo&, std::span<double>) { FAIL() << "no tile is there"; });
        EXPECT_NEAR(static_cast<double>(dry.peak()), 3.0 * static_cast<double>(one), 1e8);
        const chem::DenseArray array(x);
        EXPECT_EQ(array.data(), nullptr);
        EXPECT_NEAR(static_cast<double>(dry.peak()), 4.0 * static_cast<double>(one), 1e8);
    }
    const RealTensor product = work.product("ij,jk->ik", x, x);
    EXPECT_EQ(product.tile_bytes(), one);
    work.add_product("ij,jk->ik", x, x, x);
    EXPECT_EQ(work.permuted("ij->ji", x).tile_bytes(), one);
    EXPECT_NEAR(static_cast<double>(dry.peak()), 4.0 * static_cast<double>(one), 1e8);
    EXPECT_EQ(work.most_threads(), 2);
}

/// Real tensors and counted ones take the same bytes.
TEST(DryRun, CountsTheBytesOfRealTensors) {
    const Shape shape = square(1000);
    const auto real = Tensor<double>(shape).tile_bytes();
    DryRun dry;
    const Tensor<double> counted(shape);
    EXPECT_EQ(counted.tile_bytes(), real);
    EXPECT_EQ(dry.peak(), align_up(real, 2 * kMiB));
}

}  // namespace
}  // namespace tessera
