// The scatter loop the transpose is measured against, and the full check of a result, one thread per element.

#include <algorithm>

#include "device/cuda/check.hpp"
#include "device/cuda/transpose.hpp"

namespace tessera::kernels::cuda {

namespace {

struct Axes {
    int rank;
    long long volume;
    unsigned extent[kMaxTransposeRank];   // of the input
    long long stride[kMaxTransposeRank];  // in the output, of input axis d
};

Axes axes_of(std::span<const std::int64_t> extents, std::span<const int> permutation) {
    Axes a{};
    a.rank = static_cast<int>(extents.size());
    a.volume = 1;
    long long stride = 1;
    for (int d = a.rank - 1; d >= 0; --d) {
        a.stride[permutation[d]] = stride;
        stride *= extents[permutation[d]];
        a.extent[d] = static_cast<unsigned>(extents[d]);
        a.volume *= extents[d];
    }
    return a;
}

__device__ inline long long target(const Axes& a, long long e) {
    long long to = 0;
    if (a.volume <= 0xffffffffll) {
        unsigned rest = static_cast<unsigned>(e);
        for (int d = a.rank - 1; d >= 0; --d) {
            to += rest % a.extent[d] * a.stride[d];
            rest /= a.extent[d];
        }
        return to;
    }
    for (int d = a.rank - 1; d >= 0; --d) {
        to += e % a.extent[d] * a.stride[d];
        e /= a.extent[d];
    }
    return to;
}

__global__ void scatter_kernel(const __grid_constant__ Axes a, const double* __restrict__ in,
                               double* __restrict__ out) {
    for (long long e = blockIdx.x * 256ll + threadIdx.x; e < a.volume; e += gridDim.x * 256ll)
        out[target(a, e)] = in[e];
}

__global__ void compare_kernel(const __grid_constant__ Axes a, const double* __restrict__ in,
                               const double* __restrict__ out, unsigned long long* wrong) {
    for (long long e = blockIdx.x * 256ll + threadIdx.x; e < a.volume; e += gridDim.x * 256ll)
        if (!(out[target(a, e)] == in[e])) atomicAdd(wrong, 1ull);
}

__global__ void pattern_kernel(double* to, long long count) {
    for (long long e = blockIdx.x * 256ll + threadIdx.x; e < count; e += gridDim.x * 256ll)
        to[e] = static_cast<double>((static_cast<unsigned long long>(e) * 0x9e3779b97f4a7c15ull) >> 12);
}

unsigned grid_for(long long count) {
    return static_cast<unsigned>(std::min(std::max((count + 255) / 256, 1ll), 1ll << 30));
}

}  // namespace

void fill_pattern(double* to, std::int64_t count, StreamHandle stream) {
    pattern_kernel<<<grid_for(count), 256, 0, static_cast<cudaStream_t>(stream)>>>(to, count);
    check(cudaGetLastError(), "pattern launch");
}

void scatter(std::span<const std::int64_t> extents, std::span<const int> permutation, const double* in, double* out,
             StreamHandle stream) {
    const Axes a = axes_of(extents, permutation);
    scatter_kernel<<<grid_for(a.volume), 256, 0, static_cast<cudaStream_t>(stream)>>>(a, in, out);
    check(cudaGetLastError(), "scatter launch");
}

std::int64_t count_mismatches(std::span<const std::int64_t> extents, std::span<const int> permutation, const double* in,
                              const double* out) {
    DeviceBuffer wrong(sizeof(unsigned long long));
    fill_bytes(wrong.data(), 0, wrong.bytes());
    const Axes a = axes_of(extents, permutation);
    compare_kernel<<<grid_for(a.volume), 256>>>(a, in, out, static_cast<unsigned long long*>(wrong.data()));
    check(cudaGetLastError(), "compare launch");
    unsigned long long count = 0;
    copy_to_host(&count, wrong.data(), sizeof(count));
    return static_cast<std::int64_t>(count);
}

}  // namespace tessera::kernels::cuda
