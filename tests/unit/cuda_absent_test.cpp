// Without CUDA at build time, or without a device: an exception that says so, and a program that starts all the same.
#include <gtest/gtest.h>

#include "device/cuda/transpose.hpp"
#include "device/discovery.hpp"
#include "device/open_devices.hpp"
#include "device/rates.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

TEST(CudaAbsent, SaysSo) {
    if (device::count() > 0) GTEST_SKIP() << "there is a device";
    EXPECT_THROW(device::info(0), BackendUnavailable);
    EXPECT_THROW(device::set_current(0), BackendUnavailable);
    // People read why: with every way to ask, not only a number.
    const auto why = device::why_none();
    EXPECT_TRUE(why.find("no NVIDIA driver") != std::string::npos || why.find("too old") != std::string::npos ||
                why.find("no device") != std::string::npos || why.find("no CUDA back end") != std::string::npos)
        << why;
    try {
        device::free_bytes(0);
        FAIL();
    } catch (const BackendUnavailable& e) {
        EXPECT_EQ(e.what(), why);
    }
    const int first[] = {0};
    const std::int64_t arena[] = {1 << 20};
    EXPECT_THROW(open_devices(first, arena, 0, ScalarKind::f64), BackendUnavailable);
    EXPECT_THROW(measure_device_rates(0, 1), BackendUnavailable);
    EXPECT_THROW(device::DeviceBuffer(16), BackendUnavailable);
    const std::int64_t extents[] = {3, 4};
    const int permutation[] = {1, 0};
    EXPECT_THROW(kernels::cuda::DeviceTranspose(extents, permutation, 8), BackendUnavailable);
}

}  // namespace
}  // namespace tessera
