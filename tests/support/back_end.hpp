#pragma once
// The back end that a test source is compiled for: the cores, or GPU 0 where TESSERA_TEST_ON_DEVICE is defined.

#include "kernels/cuda/device.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::testing {

#ifdef TESSERA_TEST_ON_DEVICE
inline constexpr bool on_device = true;
#else
inline constexpr bool on_device = false;
#endif

inline bool back_end_is_missing() { return on_device && kernels::cuda::device_count() == 0; }

inline ContractOptions back_end_options() {
    ContractOptions options;
    if (on_device) {
        options.devices = {0};
        options.device_memory = std::int64_t{64} << 20;
    }
    return options;
}

/// Opening a device for a contraction of a few tiles takes most of the time: fewer of them there.
constexpr int trials(int on_cores) { return on_device ? on_cores / 5 : on_cores; }

}  // namespace tessera::testing

#define TESSERA_SKIP_WITHOUT_BACK_END() \
    if (::tessera::testing::back_end_is_missing()) GTEST_SKIP() << "no CUDA device"
