#pragma once
// The back end that a test source is compiled for: the cores, or GPU 0 where TESSERA_TEST_ON_DEVICE is defined.

#include "device/discovery.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera::testing {

#ifdef TESSERA_TEST_ON_DEVICE
inline constexpr bool on_device = true;
#else
inline constexpr bool on_device = false;
#endif

inline bool back_end_is_missing() { return on_device && device::count() == 0; }

inline Resources back_end_resources() {
    Resources here;
    if (on_device) {
        here.devices = {0};
        here.device_memory = std::int64_t{64} << 20;
    }
    return here;
}

/// Opening a device for a contraction of a few tiles takes most of the time: fewer of them there.
constexpr int trials(int on_cores) { return on_device ? on_cores / 5 : on_cores; }

}  // namespace tessera::testing

#define TESSERA_SKIP_WITHOUT_BACK_END() \
    if (::tessera::testing::back_end_is_missing()) GTEST_SKIP() << "no CUDA device"
