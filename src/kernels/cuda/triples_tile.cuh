#pragma once
// A tile of the fused contraction in the registers of a thread block (roles and layouts: triples_device.hpp).
//
// Eight warps, one per halves of y1, y2, y3. In a warp lane / 4 is x0 and lane % 4 the other index of the lanes (S: x1
// in layout 1, x2 in layout 2), as in the accumulators of FP64 matrix instructions; a thread holds 4 x 2 x 2 x 2 values
// of the four loops. The pair of rows and the pair of columns an instruction covers beyond the lanes may be any two
// loops, so every split of the loops is a product without moving an accumulator.

#include "kernels/cuda/triples_device.hpp"

namespace tessera::kernels::cuda::device {

#ifndef TESSERA_TRIPLES_STAGES
#define TESSERA_TRIPLES_STAGES 4
#endif
constexpr int kStages = TESSERA_TRIPLES_STAGES;
constexpr int kStageChunks = 2;
constexpr int kChunkR = kRowsR * kChunk, kChunkS = kRowsS * kChunk;  // doubles
constexpr int kStageDoubles = kStageChunks * (kChunkR + kChunkS);
constexpr int kSharedDoubles = kStages * kStageDoubles;  // at least a tile, for the energy
static_assert(kSharedDoubles >= kTileElements);

__device__ __forceinline__ void copy16(double* to, const double* from) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// 16 x 8 accumulators, eight summed elements. A lane's two elements of a and b are whichever two of the eight: the
/// order of a sum is free.
__device__ __forceinline__ void multiply(double& c0, double& c1, double& c2, double& c3, double2 a, double2 a8,
                                         double2 b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+d"(c0), "+d"(c1), "+d"(c2), "+d"(c3)
                 : "d"(a.x), "d"(a8.x), "d"(a.y), "d"(a8.y), "d"(b.x), "d"(b.y));
#else
    const auto small = [](double& d0, double& d1, double x, double y) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                     : "+d"(d0), "+d"(d1)
                     : "d"(x), "d"(y));
    };
    small(c0, c1, a.x, b.x);
    small(c2, c3, a8.x, b.x);
    small(c0, c1, a.y, b.y);
    small(c2, c3, a8.y, b.y);
#endif
}

/// Loop 0 counts 8 in the accumulators (4 values), loops 1, 2, 3 count 4, 2, 1 (2 values each).
__host__ __device__ constexpr int weight(int loop) { return 8 >> loop; }
__host__ __device__ constexpr int values(int loop) { return loop == 0 ? 4 : 2; }
__host__ __device__ constexpr int lowest(int mask) { return mask & 1 ? 0 : mask & 2 ? 1 : mask & 4 ? 2 : 3; }
__host__ __device__ constexpr int highest(int mask) { return mask & 8 ? 3 : mask & 4 ? 2 : mask & 2 ? 1 : 0; }

/// One packed chunk. Mask: the two loops of r.
template <int Mask>
__device__ __forceinline__ void multiply_chunk(double (&acc)[32], const double* r, const double* s,
                                               const int (&half)[4]) {
    constexpr int lo = lowest(Mask), hi = highest(Mask);                 // of r
    constexpr int other = lowest(15 - Mask), last = highest(15 - Mask);  // of s; `last` gives the pair of columns
    constexpr int pair = lo == 0 ? hi : lo, rest = lo == 0 ? lo : hi;    // of r; `pair` gives the pair of rows
    const int lane = threadIdx.x % 32;
    r += 64 * ((lo == 0 ? 0 : 2 * half[lo]) + 8 * half[hi]) + 2 * lane;
    s += 64 * ((other == 0 ? 0 : 2 * half[other]) + 4 * half[last]) + 2 * lane;
    constexpr int pair_step = pair == lo ? 64 : 256, rest_step = rest == lo ? 64 : 256;
    double2 b[values(other)];
#pragma unroll
    for (int n = 0; n < values(other); ++n) b[n] = *reinterpret_cast<const double2*>(s + 64 * n);
#pragma unroll
    for (int m = 0; m < values(rest); ++m) {
        const double2 a = *reinterpret_cast<const double2*>(r + m * rest_step);
        const double2 a8 = *reinterpret_cast<const double2*>(r + m * rest_step + pair_step);
#pragma unroll
        for (int n = 0; n < values(other); ++n) {
            constexpr int p = weight(pair), q = weight(last);
            const int c = m * weight(rest) + n * weight(other);
            multiply(acc[c], acc[c + q], acc[c + p], acc[c + p + q], a, a8, b[n]);
        }
    }
}

template <int Mask>
__device__ __forceinline__ void multiply_stage(double (&acc)[32], const double* stage, int chunks,
                                               const int (&half)[4]) {
#pragma unroll
    for (int n = 0; n < kStageChunks; ++n)
        if (n < chunks)
            multiply_chunk<Mask>(acc, stage + n * kChunkR, stage + kStageChunks * kChunkR + n * kChunkS, half);
}

/// The next pieces of a tile's groups.
struct Walk {
    int group = 0, chunk = 0;
    __device__ __forceinline__ int chunks(const FusedParams& p) const {
        return min(kStageChunks, p.group[group].chunks - chunk);
    }
    __device__ __forceinline__ void next(const FusedParams& p) {
        chunk += kStageChunks;
        if (chunk >= p.group[group].chunks) {
            chunk = 0;
            ++group;
        }
    }
};

__device__ __forceinline__ void load_stage(const FusedParams& p, const Walk& at, const int (&tile)[6], double* to) {
    const PackedGroup& g = p.group[at.group];
    const double* r = g.r + static_cast<long long>(at.chunk) * kChunkR;
    const double* s = g.s + static_cast<long long>(at.chunk) * kChunkS;
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        r += tile[n] * g.r_step[n];
        s += tile[n] * g.s_step[n];
    }
    const int chunks = at.chunks(p), lane = 2 * threadIdx.x;
    constexpr int sweep = 2 * kFusedThreads;
#pragma unroll
    for (int n = 0; n < kStageChunks * kChunkR / sweep; ++n)
        if (n * sweep < chunks * kChunkR) copy16(to + n * sweep + lane, r + n * sweep + lane);
    to += kStageChunks * kChunkR;
#pragma unroll
    for (int n = 0; n < kStageChunks * kChunkS / sweep; ++n)
        if (n * sweep < chunks * kChunkS) copy16(to + n * sweep + lane, s + n * sweep + lane);
}

/// Layout 1 to layout 2: S and loop 0 change places, a 4 x 4 transpose between four lanes and four accumulators.
__device__ __forceinline__ void change_layout(double (&acc)[32]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2)
#pragma unroll
        for (int n = 0; n < 32; ++n) {
            if ((n / 8 & bit) != 0) continue;
            double &low = acc[n], &high = acc[n + 8 * bit];
            const bool upper = (lane & bit) != 0;
            const double got = __shfl_xor_sync(0xffffffffU, upper ? low : high, bit);
            (upper ? low : high) = got;
        }
}

/// What a thread holds, by slot: 0 = x0, 1 = S, 2..5 = the loops, in the final layout.
struct Place {
    int origin[6], limit[6];  // of the tile: first element, and elements left
    int role[6];
    int lane_at[2];  // coordinates in slots 0 and 1
    int first[4];    // coordinate of accumulator 0 in the loops

    __device__ __forceinline__ Place(const FusedParams& p, const int (&tile)[6], const int (&half)[4]) {
        const int lane = threadIdx.x % 32;
        const bool second = p.groups2 > 0;
#pragma unroll
        for (int n = 0; n < 6; ++n) role[n] = n;
        role[1] = second ? 2 : 1;
        role[2] = second ? 1 : 2;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
            const int t = n == 1 || n == 2 ? (role[n] == 1 ? tile[1] : tile[2]) : tile[n];
            const int e = n == 1 || n == 2 ? (role[n] == 1 ? p.extent[1] : p.extent[2]) : p.extent[n];
            origin[n] = t * (n == 0 ? kRoleTile0 : kRoleTileN);
            limit[n] = e - origin[n];
        }
        lane_at[0] = lane / 4;
        lane_at[1] = lane % 4;
        first[0] = 0;
#pragma unroll
        for (int n = 1; n < 4; ++n) first[n] = 2 * half[n];
    }
    /// Coordinate of accumulator `n` along a loop.
    __device__ __forceinline__ int loop(int which, int n) const {
        return first[which] + (which == 0 ? n / 8 : n / weight(which) % 2);
    }
    __device__ __forceinline__ bool lane_inside() const { return lane_at[0] < limit[0] && lane_at[1] < limit[1]; }
    __device__ __forceinline__ bool inside(int n) const {
        bool ok = true;
#pragma unroll
        for (int w = 0; w < 4; ++w) ok = ok && loop(w, n) < limit[2 + w];
        return ok;
    }
};

/// An operand of a direct term as a thread reads it. Reads past the end of an output index repeat its last element:
/// they only reach accumulators that nobody uses.
template <int Mask>
struct DirectOperand {
    const double* base;
    long long offset[4][4];
    __device__ __forceinline__ DirectOperand(const double* data, const long long* stride, const Place& at)
        : base(data) {
#pragma unroll
        for (int n = 0; n < 6; ++n) base += at.origin[n] * stride[at.role[n]];
#pragma unroll
        for (int n = 0; n < 2; ++n) base += min(at.lane_at[n], at.limit[n] - 1) * stride[at.role[n]];
#pragma unroll
        for (int w = 0; w < 4; ++w)
#pragma unroll
            for (int v = 0; v < values(w); ++v)
                offset[w][v] = Mask >> w & 1 ? min(at.first[w] + v, at.limit[2 + w] - 1) * stride[at.role[2 + w]] : 0;
    }
    /// n: an accumulator.
    __device__ __forceinline__ double operator()(int n) const {
        return __ldg(base + offset[0][n / 8] + offset[1][n / 4 % 2] + offset[2][n / 2 % 2] + offset[3][n % 2]);
    }
};
/// How many elements an operand with the loops of this mask has, and the first accumulator of its m-th.
__host__ __device__ constexpr int element_count(int mask) {
    int count = 1;
    for (int w = 0; w < 4; ++w) count *= mask >> w & 1 ? values(w) : 1;
    return count;
}
__host__ __device__ constexpr int first_of(int mask, int m) {
    int n = 0;
    for (int w = 3; w >= 0; --w)
        if (mask >> w & 1) {
            n += m % values(w) * weight(w);
            m /= values(w);
        }
    return n;
}

/// Mask: the loops of x, which has no more elements than y.
template <int Mask>
__device__ __forceinline__ void add_direct(double (&acc)[32], const double* x_data, const long long* x_stride,
                                           long long x_sum, const double* y_data, const long long* y_stride,
                                           long long y_sum, const DirectTerm& t, const Place& at) {
    constexpr int other = 15 - Mask, nx = element_count(Mask), ny = element_count(other);
    DirectOperand<Mask> x(x_data, x_stride, at);
    DirectOperand<other> y(y_data, y_stride, at);
    for (long long k = 0; k < t.sum; ++k) {
        double held[nx];
#pragma unroll
        for (int m = 0; m < nx; ++m) held[m] = t.factor * x(first_of(Mask, m));
#pragma unroll
        for (int l = 0; l < ny; ++l) {
            const double value = y(first_of(other, l));
#pragma unroll
            for (int m = 0; m < nx; ++m) {
                double& c = acc[first_of(Mask, m) + first_of(other, l)];
                c = fma(held[m], value, c);
            }
        }
        x.base += x_sum;
        y.base += y_sum;
    }
}

template <int Mask = 0>
__device__ __forceinline__ void choose_direct(int mask, double (&acc)[32], const DirectTerm& t, const Place& at) {
    if (mask == Mask) {
        if constexpr (element_count(Mask) <= element_count(15 - Mask))
            add_direct<Mask>(acc, t.a, t.a_stride, t.a_sum, t.b, t.b_stride, t.b_sum, t, at);
        else
            add_direct<15 - Mask>(acc, t.b, t.b_stride, t.b_sum, t.a, t.a_stride, t.a_sum, t, at);
    } else if constexpr (Mask < 15) {
        choose_direct<Mask + 1>(mask, acc, t, at);
    }
}

__device__ __forceinline__ void add_directs(double (&acc)[32], const DirectTerm* terms, int count, const Place& at) {
#pragma unroll 1
    for (int n = 0; n < count; ++n) {
        const unsigned roles = terms[n].a_roles;
        int mask = 0;
#pragma unroll
        for (int w = 0; w < 4; ++w) mask |= static_cast<int>(roles >> at.role[2 + w] & 1U) << w;
        choose_direct(mask, acc, terms[n], at);
    }
}

/// The accumulators of one tile: all terms. Ends in the final layout, with shared memory free.
struct Tile {
    int half[4];
    double acc[32];

    __device__ __forceinline__ Tile() {
        const int warp = threadIdx.x / 32;
        half[0] = 0;
        half[1] = warp & 1;
        half[2] = warp >> 1 & 1;
        half[3] = warp >> 2;
    }

    __device__ __forceinline__ void compute(const FusedParams& p, const int (&tile)[6], double* shared) {
#pragma unroll
        for (double& c : acc) c = 0;
        const int groups = p.groups1 + p.groups2;
        Walk load, use;
#pragma unroll
        for (int n = 0; n < kStages - 1; ++n) {
            if (load.group < groups) {
                load_stage(p, load, tile, shared + n * kStageDoubles);
                load.next(p);
            }
            commit();  // empty groups keep the count
        }
        int slot = 0, load_slot = kStages - 1;
        bool first = true;
#pragma unroll 1
        while (use.group < groups) {
            // The oldest stage has landed, and nobody reads the one about to be overwritten.
            wait<kStages - 2>();
            __syncthreads();
            if (load.group < groups) {
                load_stage(p, load, tile, shared + load_slot * kStageDoubles);
                load.next(p);
            }
            commit();
            load_slot = load_slot + 1 == kStages ? 0 : load_slot + 1;
            if (first && use.group >= p.groups1) {
                change_layout(acc);
                first = false;
            }
            const double* stage = shared + slot * kStageDoubles;
            const int chunks = use.chunks(p);
            switch (p.group[use.group].mask) {
                case 3:
                    multiply_stage<3>(acc, stage, chunks, half);
                    break;
                case 5:
                    multiply_stage<5>(acc, stage, chunks, half);
                    break;
                case 9:
                    multiply_stage<9>(acc, stage, chunks, half);
                    break;
                case 6:
                    multiply_stage<6>(acc, stage, chunks, half);
                    break;
                case 10:
                    multiply_stage<10>(acc, stage, chunks, half);
                    break;
                default:
                    multiply_stage<12>(acc, stage, chunks, half);
                    break;
            }
            slot = slot + 1 == kStages ? 0 : slot + 1;
            use.next(p);
        }
        wait<0>();
        __syncthreads();
    }
};

}  // namespace tessera::kernels::cuda::device
