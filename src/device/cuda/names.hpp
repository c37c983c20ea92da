#pragma once
// Names of src/device/ that the CUDA kernels, their tests and benches use as their own.

#include "device/discovery.hpp"
#include "device/fused.hpp"
#include "device/memory.hpp"

namespace tessera::kernels::cuda {

using device::copy_on_device;
using device::copy_to_device;
using device::copy_to_host;
using device::DeviceBuffer;
using device::DeviceFused;
using device::Event;
using device::fill_bytes;
using device::free_bytes;
using device::PinnedRange;
using device::StreamHandle;
using device::synchronize;

}  // namespace tessera::kernels::cuda
