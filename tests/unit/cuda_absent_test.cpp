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
    // People read why: with every way to ask, not only a number.
    const auto why = why_no_device();
    EXPECT_TRUE(why.find("no NVIDIA driver") != std::string::npos || why.find("too old") != std::string::npos ||
                why.find("no device") != std::string::npos || why.find("no CUDA back end") != std::string::npos)
        << why;
    try {
        free_bytes(0);
        FAIL();
    } catch (const BackendUnavailable& e) {
        EXPECT_EQ(e.what(), why);
    }
    const std::int64_t extents[] = {3, 4};
    const int permutation[] = {1, 0};
    EXPECT_THROW(DeviceTranspose(extents, permutation, 8), BackendUnavailable);
    EXPECT_THROW(DeviceBuffer(16), BackendUnavailable);
}

}  // namespace
}  // namespace tessera::kernels::cuda
