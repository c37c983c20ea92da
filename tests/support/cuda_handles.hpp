#pragma once
// Streams, events, allocations and pinned ranges that this process has from the CUDA runtime. Counted where the linker
// puts tests/cuda/handle_count.cpp in place of the runtime's functions (tests/CMakeLists.txt).

namespace tessera::testing {

struct CudaHandles {
    int taken = 0, returned = 0;
};
CudaHandles cuda_handles();

}  // namespace tessera::testing
