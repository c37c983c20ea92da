#pragma once
// Kernels of a DeviceStore. Lists of jobs travel as kernel arguments: nothing is allocated or copied for them.
// Operations are rounded one by one, as the host's loops are (--fmad=false), so the bits are the host's.

#include <cstdint>

#include "device/store.hpp"

namespace tessera::kernels::cuda::device {

/// A complex number without the host library's operators.
template <class R>
struct Pair {
    R re, im;
};

template <class T>
struct Arithmetic {  // real
    using Real = T;
    static constexpr int reals = 1;
    static __device__ T conj(T x, bool) { return x; }
    static __device__ T times(T x, T y) { return x * y; }
    static __device__ T plus(T x, T y) { return x + y; }
    static __device__ T zero() { return T(0); }
    static __device__ T fused(T x, T y, T z) {
        if constexpr (sizeof(T) == 8)
            return __fma_rn(x, y, z);
        else
            return __fmaf_rn(x, y, z);
    }
};
template <class R>
struct Arithmetic<Pair<R>> {
    using Real = R;
    using T = Pair<R>;
    static constexpr int reals = 2;
    static __device__ T conj(T x, bool yes) { return {x.re, yes ? -x.im : x.im}; }
    static __device__ T times(T x, T y) { return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re}; }
    static __device__ T plus(T x, T y) { return {x.re + y.re, x.im + y.im}; }
    static __device__ T zero() { return {R(0), R(0)}; }
    static __device__ T fused(T x, T y, T z) {
        using A = Arithmetic<R>;
        return {A::fused(-x.im, y.im, A::fused(x.re, y.re, z.re)), A::fused(x.im, y.re, A::fused(x.re, y.im, z.im))};
    }
};

template <class T>
struct Factors {
    T alpha, beta;
    bool conjugate_x, conjugate_y, overwrite;
};

inline constexpr int kArgumentBytes = 3584;  // of the 4096 that a kernel's arguments may have everywhere
inline constexpr int kElementJobs = kArgumentBytes / static_cast<int>(sizeof(ElementJob));
inline constexpr int kStridedJobs = kArgumentBytes / static_cast<int>(sizeof(StridedJob));
inline constexpr int kFillJobs = kArgumentBytes / static_cast<int>(sizeof(FillJob));
inline constexpr int kDivideJobs = kArgumentBytes / static_cast<int>(sizeof(DivideJob));
struct DivideJobs {
    DivideJob job[kDivideJobs];
};
struct ElementJobs {
    ElementJob job[kElementJobs];
};
struct StridedJobs {
    StridedJob job[kStridedJobs];
};
struct FillJobs {
    FillJob job[kFillJobs];
};

template <class T, ElementOperation Operation>
__global__ void element_kernel(const __grid_constant__ ElementJobs jobs, const Factors<T> f) {
    using A = Arithmetic<T>;
    const ElementJob& job = jobs.job[blockIdx.y];
    const auto* x = static_cast<const T*>(job.x);
    const auto* y = static_cast<const T*>(job.y);
    auto* out = static_cast<T*>(job.out);
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < job.n; i += gridDim.x * 256ll) {
        if constexpr (Operation == ElementOperation::combine) {
            if (x && y)
                out[i] = A::plus(A::times(f.alpha, x[i]), A::times(f.beta, y[i]));
            else
                out[i] = x ? A::times(f.alpha, x[i]) : A::times(f.beta, y[i]);
        } else if constexpr (Operation == ElementOperation::scale) {
            out[i] = A::times(f.alpha, A::conj(out[i], f.conjugate_x));
        } else if constexpr (Operation == ElementOperation::add_to) {
            out[i] = A::plus(out[i], A::times(f.alpha, x[i]));
        } else {
            out[i] =
                A::fused(A::conj(x[i], f.conjugate_x), A::conj(y[i], f.conjugate_y), f.overwrite ? A::zero() : out[i]);
        }
    }
}

template <class T>
__global__ void strided_kernel(const __grid_constant__ StridedJobs jobs) {
    using A = Arithmetic<T>;
    const StridedJob& job = jobs.job[blockIdx.y];
    const auto* x = static_cast<const T*>(job.x);
    // n / extent for n < 2^31 is the upper half of n times this, shifted: exact (Granlund and Montgomery).
    __shared__ unsigned factor[StridedJob::kMostLoops], shift[StridedJob::kMostLoops];
    if (static_cast<int>(threadIdx.x) < job.kept_loops) {
        const unsigned extent = static_cast<unsigned>(job.loop[threadIdx.x].extent);
        const int bits = extent > 1 ? 32 - __clz(static_cast<int>(extent - 1)) : 0;
        factor[threadIdx.x] = extent > 1 ? static_cast<unsigned>(((1ull << (31 + bits)) + extent - 1) / extent) : 0u;
        shift[threadIdx.x] = static_cast<unsigned>(bits - 1);
    }
    __syncthreads();
    for (long long point = blockIdx.x * 256ll + threadIdx.x; point < job.kept; point += gridDim.x * 256ll) {
        long long in = 0, out = 0;
        if (job.kept <= 0x7fffffffll) {
            unsigned rest = static_cast<unsigned>(point);
            for (int l = job.kept_loops - 1; l >= 0; --l) {
                const unsigned extent = static_cast<unsigned>(job.loop[l].extent);
                const unsigned left = extent > 1 ? __umulhi(rest, factor[l]) >> shift[l] : rest;
                const long long at = rest - left * extent;
                rest = left;
                in += at * job.loop[l].in;
                out += at * job.loop[l].out;
            }
        } else {
            long long rest = point;
            for (int l = job.kept_loops - 1; l >= 0; --l) {
                const long long extent = job.loop[l].extent, at = rest % extent;
                rest /= extent;
                in += at * job.loop[l].in;
                out += at * job.loop[l].out;
            }
        }
        T* to = static_cast<T*>(job.out) + out;
        if (job.copies) {
            *to = x[in];
            continue;
        }
        T sum = job.adds ? *to : A::zero();
        for (long long s = 0; s < job.summed; ++s) {
            long long along = in, rest = s;
            for (int l = job.kept_loops + job.summed_loops - 1; l >= job.kept_loops; --l) {
                along += rest % job.loop[l].extent * job.loop[l].in;
                rest /= job.loop[l].extent;
            }
            sum = A::plus(sum, x[along]);
        }
        *to = sum;
    }
}

/// Tiles of at most 2^31 elements.
inline __global__ void divide_kernel(const __grid_constant__ DivideJobs jobs) {
    const DivideJob& job = jobs.job[blockIdx.y];
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < job.n; i += gridDim.x * 256ll) {
        int at[DivideJob::kMostIndices];
        unsigned rest = static_cast<unsigned>(i);
#pragma unroll
        for (int d = DivideJob::kMostIndices - 1; d >= 0; --d)
            if (d < job.indices) {
                const unsigned extent = static_cast<unsigned>(job.extent[d]), left = rest / extent;
                at[d] = static_cast<int>(rest - left * extent);
                rest = left;
            }
        double sum = job.term[0][at[0]];
#pragma unroll
        for (int d = 1; d < DivideJob::kMostIndices; ++d)
            if (d < job.indices) sum += job.term[d][at[d]];
        job.out[i] /= sum;
    }
}

/// R: the real type; a complex element is two of them. Numbers as in base/hash_fill.hpp.
template <class R>
__global__ void fill_kernel(const __grid_constant__ FillJobs jobs) {
    const FillJob& job = jobs.job[blockIdx.y];
    const double factor = job.scale * 0x1p-52;
    auto* out = static_cast<R*>(job.out);
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < job.n; i += gridDim.x * 256ll) {
        std::uint64_t z = job.state + static_cast<std::uint64_t>(i) * kGamma + kGamma;
        z = (z ^ (z >> 30)) * kMixFirst;
        z = (z ^ (z >> 27)) * kMixSecond;
        z ^= z >> 31;
        out[i] = static_cast<R>(static_cast<double>((static_cast<std::int64_t>(z) >> 11) | 1) * factor);
    }
}

/// Chunks of kSquaresChunk reals, each by sixteen lanes as the host sums them (kernels/tile_math.cpp): job.out has two
/// numbers for each chunk, the sum and the largest magnitude. n counts reals.
template <class R>
__global__ void squares_kernel(const __grid_constant__ ElementJobs jobs, long long chunk) {
    const ElementJob& job = jobs.job[blockIdx.y];
    const auto* x = static_cast<const R*>(job.x);
    auto* out = static_cast<double*>(job.out);
    const long long chunks = (job.n + chunk - 1) / chunk;
    const int lane = threadIdx.x % 16;
    for (long long c = (blockIdx.x * 256ll + threadIdx.x) / 16; c < chunks; c += gridDim.x * 16ll) {
        const long long end = c * chunk + chunk < job.n ? c * chunk + chunk : job.n;
        double sum = 0, top = 0;
        for (long long i = c * chunk + lane; i < end; i += 16) {
            const double v = static_cast<double>(x[i]);
            sum += v * v;
            const double a = fabs(v);
            top = a <= top ? top : (a == a ? a : __longlong_as_double(0x7ff0000000000000ll));
        }
        const unsigned half = 0xffffu << (threadIdx.x % 32 / 16 * 16);
        for (int step = 8; step > 0; step /= 2) {
            sum += __shfl_down_sync(half, sum, step, 16);
            const double other = __shfl_down_sync(half, top, step, 16);
            top = other > top ? other : top;
        }
        if (lane == 0) {
            out[2 * c] = sum;
            out[2 * c + 1] = top;
        }
    }
}

/// A tile a half-warp, in the host's order; job.out has two numbers.
template <class T>
__global__ void dots_kernel(const __grid_constant__ ElementJobs jobs, int count) {
    const int number = (blockIdx.x * 256 + static_cast<int>(threadIdx.x)) / 16, lane = threadIdx.x % 16;
    if (number >= count) return;
    const ElementJob& job = jobs.job[number];
    const auto* x = static_cast<const T*>(job.x);
    const auto* y = static_cast<const T*>(job.y);
    auto* out = static_cast<double*>(job.out);
    const unsigned half = 0xffffu << (threadIdx.x % 32 / 16 * 16);
    if constexpr (sizeof(T) == 8 && Arithmetic<T>::reals == 1) {
        double sum = 0;
        for (long long i = lane; i < job.n; i += 16) sum += x[i] * y[i];
        for (int step = 8; step > 0; step /= 2) sum += __shfl_down_sync(half, sum, step, 16);
        if (lane == 0) {
            out[0] = sum;
            out[1] = 0;
        }
    } else {
        // One chain: sixteen lanes multiply, one adds.
        double re = 0, im = 0;
        for (long long begin = 0; begin < job.n; begin += 16) {
            const long long i = begin + lane;
            double p = 0, q = 0;
            if (i < job.n) {
                if constexpr (Arithmetic<T>::reals == 1) {
                    p = static_cast<double>(x[i]) * static_cast<double>(y[i]);
                } else {
                    const double xr = x[i].re, xi = x[i].im, yr = y[i].re, yi = y[i].im;
                    p = xr * yr + xi * yi;
                    q = xr * yi - xi * yr;
                }
            }
            const int there = job.n - begin < 16 ? static_cast<int>(job.n - begin) : 16;
            for (int l = 0; l < 16; ++l) {
                const double pl = __shfl_sync(half, p, l, 16), ql = __shfl_sync(half, q, l, 16);
                if (l < there) {
                    re += pl;
                    im += ql;
                }
            }
        }
        if (lane == 0) {
            out[0] = re;
            out[1] = im;
        }
    }
}

}  // namespace tessera::kernels::cuda::device
