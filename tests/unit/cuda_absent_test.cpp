// Without CUDA at build time, or without a device: an exception that says so, and a program that starts all the same.
#include <gtest/gtest.h>

#include "kernels/cuda/transpose.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {
namespace {

TEST(CudaAbsent, SaysSo) {
    if (device_count() > 0) GTEST_SKIP() << "there is a device";
    EXPECT_THROW(device_info(0), BackendUnavailable);
    EXPECT_THROW(set_device(0), BackendUnavailable);
    const std::int64_t extents[] = {3, 4};
    const int permutation[] = {1, 0};
    EXPECT_THROW(DeviceTranspose(extents, permutation, 8), BackendUnavailable);
    EXPECT_THROW(DeviceBuffer(16), BackendUnavailable);
}

}  // namespace
}  // namespace tessera::kernels::cuda
