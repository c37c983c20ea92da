// Launches the kernels of the fused contraction.
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/triples_finish.cuh"

namespace tessera::kernels::cuda {

void launch_fused(const FusedParams& params, FusedFinish finish, int blocks, StreamHandle stream) {
    const bool direct = params.direct_terms > 0;
    const auto kernel = finish == FusedFinish::energy && direct ? device::fused_kernel<true, true>
                        : finish == FusedFinish::energy         ? device::fused_kernel<true, false>
                        : finish == FusedFinish::orbit          ? device::orbit_kernel
                        : direct                                ? device::fused_kernel<false, true>
                                                                : device::fused_kernel<false, false>;
    const int bytes =
        (device::kSharedDoubles + (params.singles_early != 0 ? kSinglesDoubles : 0)) * static_cast<int>(sizeof(double));
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
    kernel<<<static_cast<unsigned>(blocks), kFusedThreads, bytes, static_cast<cudaStream_t>(stream)>>>(params);
    check(cudaGetLastError(), "fused triples");
}

void launch_reduce(const double* partial, long long count, double scale, double* result, StreamHandle stream) {
    device::reduce_kernel<<<1, 1024, 0, static_cast<cudaStream_t>(stream)>>>(partial, count, scale, result);
    check(cudaGetLastError(), "triples energy");
}

int multiprocessors() {
    int id = 0, count = 0;
    check(cudaGetDevice(&id), "current device");
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, id), "multiprocessors");
    return count;
}

}  // namespace tessera::kernels::cuda
