// The choice of kernels by what a chip has, on the host.

#include "device/cuda/grouped_shapes.hpp"

#include <gtest/gtest.h>

namespace tessera::kernels::cuda {
namespace {

TEST(GroupedShapes, TheLargestThatFits) {
    constexpr int bytes[] = {221'000, 147'000, 82'000};
    EXPECT_EQ(fitting_variant(bytes, 3, 227 << 10), 0);  // H100
    EXPECT_EQ(fitting_variant(bytes, 3, 221'000), 0);
    EXPECT_EQ(fitting_variant(bytes, 3, 220'999), 1);
    EXPECT_EQ(fitting_variant(bytes, 3, 163 << 10), 1);  // A100
    EXPECT_EQ(fitting_variant(bytes, 3, 99 << 10), 2);   // sm_86, sm_89
    EXPECT_EQ(fitting_variant(bytes, 3, 48 << 10), -1);
    EXPECT_EQ(fitting_variant(bytes, 0, 227 << 10), -1);
}

}  // namespace
}  // namespace tessera::kernels::cuda
