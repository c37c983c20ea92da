// Launches the kernels of the fused contraction.
#include "device/cuda/check.hpp"
#include "device/cuda/triples_walk.cuh"

namespace tessera::kernels::cuda {

void launch_fused(const FusedParams& params, FusedFinish finish, int blocks, StreamHandle stream) {
    using enum FusedFinish;
    const bool walks = params.tile_count > 0;
    const auto kernel = finish == store    ? (walks ? device::walk_kernel<store> : device::fused_kernel<false>)
                        : finish == energy ? (walks ? device::walk_kernel<energy> : device::fused_kernel<true>)
                                           : (walks ? device::walk_kernel<orbit> : device::orbit_kernel);
    const bool singles = finish != store && walks && params.direct_singles > 0;
    const int bytes = (device::kSharedDoubles + (singles ? kSinglesDoubles : 0)) * static_cast<int>(sizeof(double));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
    kernel<<<static_cast<unsigned>(blocks), kFusedThreads, bytes, static_cast<cudaStream_t>(stream)>>>(params);
    check(cudaGetLastError(), "fused triples");
}

void launch_reduce(const double* partial, long long count, double scale, double* result, StreamHandle stream) {
    device::reduce_kernel<<<1, 1024, 0, static_cast<cudaStream_t>(stream)>>>(partial, count, scale, result);
    check(cudaGetLastError(), "triples energy");
}

bool walks_here() {
    // Of the code that runs here, not of the device: a program made for sm_80 alone has none for newer ones. Some of
    // these have less shared memory.
    cudaFuncAttributes walking{};
    check(cudaFuncGetAttributes(&walking, device::walk_kernel<FusedFinish::orbit>), "fused triples");
    int id = 0, most = 0;
    check(cudaGetDevice(&id), "current device");
    check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, id), "shared memory");
    const auto bytes = walking.sharedSizeBytes + (device::kSharedDoubles + kSinglesDoubles) * sizeof(double);
    return walking.ptxVersion >= 90 && bytes <= static_cast<std::size_t>(most);
}

int multiprocessors() {
    int id = 0, count = 0;
    check(cudaGetDevice(&id), "current device");
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, id), "multiprocessors");
    return count;
}

}  // namespace tessera::kernels::cuda
