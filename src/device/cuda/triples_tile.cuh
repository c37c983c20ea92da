#pragma once
// A tile of the fused contraction in the registers of a thread block (roles and layouts: triples_device.hpp).
//
// Eight warps, one per halves of y1, y2, y3. In a warp lane / 4 is x0 and lane % 4 the other index of the lanes (S: x1
// in layout 1, x2 in layout 2), as in the accumulators of FP64 matrix instructions; a thread holds 4 x 2 x 2 x 2 values
// of the four loops. The pair of rows and the pair of columns an instruction covers beyond the lanes may be any two
// loops, so every split of the loops is a product without moving an accumulator.

#include "device/cuda/triples_device.hpp"

namespace tessera::kernels::cuda::device {

constexpr int kChunkR = kRowsR * kChunk, kChunkS = kRowsS * kChunk;  // doubles
constexpr int kStageDoubles = kStageChunks * (kChunkR + kChunkS);
constexpr int kSharedDoubles = kStages * kStageDoubles;  // at least a tile, for the energy
static_assert(kSharedDoubles >= kTileElements);

__device__ __forceinline__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
/// 16 bytes; offsets in bytes.
template <int To = 0, int From = 0>
__device__ __forceinline__ void copy16(unsigned to, const double* from) {
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;" ::"r"(to), "l"(from), "n"(To), "n"(From)
                 : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
// __stcs and __ldcg, which clang does not know: a store that leaves no trace in the caches, a load that L1 cannot
// answer.
__device__ __forceinline__ void store_streaming(double* to, double value) {
    asm("st.global.cs.f64 [%0], %1;" ::"l"(to), "d"(value) : "memory");
}
__device__ __forceinline__ double load_past_l1(const double* from) {
    double value;
    asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(value) : "l"(from) : "memory");
    return value;
}

/// 16 x 8 accumulators, eight summed elements: a and next are one summed element of two rows each, b is both summed
/// elements of a column.
__device__ __forceinline__ void multiply(double (&c)[4], double2 a, double2 next, double2 b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a.x), "d"(a.y), "d"(next.x), "d"(next.y), "d"(b.x), "d"(b.y));
#else
    const auto small = [](double& d0, double& d1, double x, double y) {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                     : "+d"(d0), "+d"(d1)
                     : "d"(x), "d"(y));
    };
    small(c[0], c[1], a.x, b.x);
    small(c[2], c[3], a.y, b.x);
    small(c[0], c[1], next.x, b.y);
    small(c[2], c[3], next.y, b.y);
#endif
}

/// Loop 0 counts 8 in the accumulators (4 values), loops 1, 2, 3 count 4, 2, 1 (2 values each).
__host__ __device__ constexpr int weight(int loop) { return 8 >> loop; }
__host__ __device__ constexpr int values(int loop) { return loop == 0 ? 4 : 2; }
__host__ __device__ constexpr int lowest(int mask) { return mask & 1 ? 0 : mask & 2 ? 1 : mask & 4 ? 2 : 3; }
__host__ __device__ constexpr int highest(int mask) { return mask & 8 ? 3 : mask & 4 ? 2 : mask & 2 ? 1 : 0; }

/// The loops of r (Mask): `rest` and `pair`; of s: `other` and `last`. `pair` gives the two rows and `last` the two
/// columns that an instruction covers beyond the lanes. Accumulators only move when these change, from group to group.
template <int Mask>
struct Split {
    static constexpr int rest = lowest(Mask), pair = highest(Mask);
    static constexpr int other = lowest(15 - Mask), last = highest(15 - Mask);
    __host__ __device__ static constexpr int first(int n) {
        return n / values(other) * weight(rest) + n % values(other) * weight(other);
    }
};

/// One packed chunk: c[n] are the accumulators of instruction n. r and s already point at this thread's elements.
template <int Mask>
__device__ __forceinline__ void multiply_chunk(double (&c)[8][4], const double* r, const double* s) {
    using X = Split<Mask>;
    double2 b[values(X::other)];
#pragma unroll
    for (int n = 0; n < values(X::other); ++n) b[n] = *reinterpret_cast<const double2*>(s + 64 * n);
#pragma unroll
    for (int m = 0; m < values(X::rest); ++m) {
        const double2 a = *reinterpret_cast<const double2*>(r + 128 * m);
        const double2 next = *reinterpret_cast<const double2*>(r + 128 * m + 64);
#pragma unroll
        for (int n = 0; n < values(X::other); ++n) multiply(c[m * values(X::other) + n], a, next, b[n]);
    }
}

/// Up to `left` chunks into a stage. All pointers are at this thread's elements.
template <int Chunk = 0>
__device__ __forceinline__ void copy_stage(unsigned to, const double* r, const double* s, int left) {
    constexpr int sweep = 2 * 8 * kFusedThreads, at_r = Chunk * 8 * kChunkR, at_s = Chunk * 8 * kChunkS;
    static_assert(8 * kChunkS == sweep && 8 * kChunkR == 2 * sweep);
    copy16<at_r, at_r>(to, r);
    copy16<at_r + sweep, at_r + sweep>(to, r);
    copy16<kStageChunks * 8 * kChunkR + at_s, at_s>(to, s);
    if constexpr (Chunk + 1 < kStageChunks)
        if (left > Chunk + 1) copy_stage<Chunk + 1>(to, r, s, left);
}

/// Copies the slices of a tile into the ring of stages, group after group, always kStages - 1 stages ahead.
class Loader {
  public:
    __device__ __forceinline__ Loader(const FusedParams& p, const int (&tile)[6], double* shared)
        : p_(p), tile_(tile), shared_(shared) {
#pragma unroll
        for (int n = 0; n < kStages - 1; ++n) step();
    }
    __device__ __forceinline__ const double* open() {
        // The oldest stage has landed, and nobody reads the one about to be overwritten.
        wait<kStages - 2>();
        __syncthreads();
        step();
        return shared_ + slot_ * kStageDoubles;
    }
    __device__ __forceinline__ void refill() {}
    __device__ __forceinline__ void close() { slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1; }

  private:
    __device__ __forceinline__ void step() {
        if (left_ <= 0 && group_ + 1 < p_.groups1 + p_.groups2) {
            const PackedGroup& g = p_.group[++group_];
            left_ = g.chunks;
            r_ = g.r + 2 * threadIdx.x;
            s_ = g.s + 2 * threadIdx.x;
#pragma unroll
            for (int n = 0; n < 6; ++n) {
                r_ += tile_[n] * g.r_step[n];
                s_ += tile_[n] * g.s_step[n];
            }
        }
        if (left_ > 0) {
            copy_stage(shared_address(shared_ + to_ * kStageDoubles + 2 * threadIdx.x), r_, s_, left_);
            r_ += kStageChunks * kChunkR;
            s_ += kStageChunks * kChunkS;
            left_ -= kStageChunks;
        }
        commit();  // empty groups keep the count
        to_ = to_ + 1 == kStages ? 0 : to_ + 1;
    }
    const FusedParams& p_;
    const int (&tile_)[6];
    double* shared_;
    const double *r_ = nullptr, *s_ = nullptr;
    int group_ = -1, left_ = 0, to_ = 0, slot_ = 0;  // chunks left in the group; stages to write and to read
};

__device__ __forceinline__ double opaque(double x, unsigned long zero) {
    double y;
    asm volatile("{\n\t.reg .b64 t;\n\txor.b64 t, %1, %2;\n\tmov.b64 %0, t;\n\t}" : "=d"(y) : "d"(x), "l"(zero));
    return y;
}

/// All stages of one group. Ring: open() waits for the next stage, refill() may start the copies of a later one,
/// close() is done with it. MoveIn, MoveOut: the accumulators of an instruction are others than in the group before or
/// after. Then they pass through an operation the compiler cannot see to be a copy: it would keep one order of the
/// registers for all masks and move them around every instruction.
template <int Mask, bool MoveIn, bool MoveOut, class Ring>
__device__ __forceinline__ void add_group(double (&acc)[32], const FusedParams& p, const int (&half)[4], Ring& ring,
                                          int chunks) {
    using X = Split<Mask>;
    constexpr int q = weight(X::last), w = weight(X::pair);
    double c[8][4];
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const double x = acc[X::first(n) + m % 2 * q + m / 2 * w];
            c[n][m] = MoveIn ? opaque(x, p.zero) : x;
        }
    const int lane = 2 * (threadIdx.x % 32);
    const int r = 128 * ((X::rest == 0 ? 0 : 2 * half[X::rest]) + 4 * half[X::pair]) + lane;
    const int s = 64 * ((X::other == 0 ? 0 : 2 * half[X::other]) + 4 * half[X::last]) + lane + kStageChunks * kChunkR;
#pragma unroll 1
    for (; chunks > 0; chunks -= kStageChunks) {
        const double* stage = ring.open();
#pragma unroll
        for (int n = 0; n < kStageChunks; ++n) {
            if (n < chunks) multiply_chunk<Mask>(c, stage + r + n * kChunkR, stage + s + n * kChunkS);
            if (n == 0) ring.refill();
        }
        ring.close();
    }
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const double x = c[n][m];
            acc[X::first(n) + m % 2 * q + m / 2 * w] = MoveOut ? opaque(x, p.zero) : x;
        }
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
        const bool second = p.layout == 2;
#pragma unroll
        for (int n = 0; n < 6; ++n) role[n] = n;
        role[1] = second ? 2 : 1;
        role[2] = second ? 1 : 2;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
            const int t = n == 1 || n == 2 ? (role[n] == 1 ? tile[1] : tile[2]) : tile[n];
            const int e = n == 1 || n == 2 ? (role[n] == 1 ? p.extent[1] : p.extent[2]) : p.extent[n];
            origin[n] = t * role_tile(n);
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

/// Where a direct term's operand lies for this tile: kept in shared memory, once for all threads.
struct DirectBase {
    const double* data;
    int lane[5];
    int lanes;
    int mask, sum;  // of the term
};

/// This thread's elements.
__device__ __forceinline__ const double* direct_base(const DirectBase& x, const int (&half)[4]) {
    const int lane = threadIdx.x % 32;
    return x.data + 2 * (lane / 4 * x.lane[0] + lane % 4 * x.lane[1] + half[1] * x.lane[2] + half[2] * x.lane[3] +
                         half[3] * x.lane[4]);
}
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
__device__ __forceinline__ void add_direct(double (&acc)[32], const DirectBase& x_place, const DirectBase& y_place,
                                           int sum, const int (&half)[4]) {
    constexpr int other = 15 - Mask, nx = element_count(Mask), ny = element_count(other);
    const double* x = direct_base(x_place, half);
    const double* y = direct_base(y_place, half);
    const int x_pair = 2 * x_place.lanes, y_pair = 2 * y_place.lanes;
#pragma unroll 1
    for (int k = 0; k < sum; ++k) {
        double2 held[(nx + 1) / 2];
#pragma unroll
        for (int m = 0; m < (nx + 1) / 2; ++m) held[m] = *reinterpret_cast<const double2*>(x + m * x_pair);
#pragma unroll
        for (int l = 0; l < ny / 2; ++l) {
            const double2 pair = *reinterpret_cast<const double2*>(y + l * y_pair);
#pragma unroll
            for (int m = 0; m < nx; ++m) {
                const double value = m % 2 == 0 ? held[m / 2].x : held[m / 2].y;
                double &even = acc[first_of(Mask, m) + first_of(other, 2 * l)],
                       &odd = acc[first_of(Mask, m) + first_of(other, 2 * l + 1)];
                even = fma(value, pair.x, even);
                odd = fma(value, pair.y, odd);
            }
        }
        x += (nx + 1) / 2 * x_pair;
        y += ny / 2 * y_pair;
    }
}

template <int Mask = 0>
__device__ __forceinline__ void choose_direct(double (&acc)[32], int mask, int sum, const DirectBase* operands,
                                              const int (&half)[4]) {
    if (mask == Mask) {
        if constexpr (element_count(Mask) <= element_count(15 - Mask))
            add_direct<Mask>(acc, operands[0], operands[1], sum, half);
        else
            add_direct<15 - Mask>(acc, operands[1], operands[0], sum, half);
    } else if constexpr (Mask < 15) {
        choose_direct<Mask + 1>(acc, mask, sum, operands, half);
    }
}

using DirectBases = DirectBase[kDirectBatch][2];

/// Where the operands of a batch of direct terms lie for this tile.
__device__ __forceinline__ void prepare_directs(DirectBases& bases, const DirectTerm* terms, int batch,
                                                const int (&tile)[6]) {
    if (threadIdx.x < static_cast<unsigned>(2 * batch)) {
        const DirectTerm& t = terms[threadIdx.x / 2];
        const DirectOperandPlace& x = threadIdx.x % 2 == 0 ? t.a : t.b;
        DirectBase& base = bases[threadIdx.x / 2][threadIdx.x % 2];
        const double* data = x.data;
#pragma unroll
        for (int n = 0; n < 6; ++n) data += tile[n] * x.step[n];
        base.data = data;
#pragma unroll
        for (int n = 0; n < 5; ++n) base.lane[n] = x.lane[n];
        base.lanes = x.lanes;
        base.mask = t.mask;
        base.sum = t.sum;
    }
    __syncthreads();
}

/// All threads come here together.
__device__ __forceinline__ void add_directs(double (&acc)[32], DirectBases& bases, const DirectTerm* terms, int count,
                                            const int (&tile)[6], const int (&half)[4]) {
#pragma unroll 1
    for (int first = 0; first < count; first += kDirectBatch) {
        const int batch = min(kDirectBatch, count - first);
        __syncthreads();  // the last batch is done with
        prepare_directs(bases, terms + first, batch, tile);
#pragma unroll 1
        for (int n = 0; n < batch; ++n) choose_direct(acc, bases[n][0].mask, bases[n][0].sum, bases[n], half);
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
        Loader ring{p, tile, shared};
#pragma unroll 1
        for (int g = 0; g < p.groups1 + p.groups2; ++g) {
            if (g == p.groups1) change_layout(acc);
            const int chunks = p.group[g].chunks;
            switch (p.group[g].mask) {
                case 3:
                    add_group<3, true, true>(acc, p, half, ring, chunks);
                    break;
                case 5:
                    add_group<5, true, true>(acc, p, half, ring, chunks);
                    break;
                case 9:
                    add_group<9, true, true>(acc, p, half, ring, chunks);
                    break;
                case 6:
                    add_group<6, true, true>(acc, p, half, ring, chunks);
                    break;
                case 10:
                    add_group<10, true, true>(acc, p, half, ring, chunks);
                    break;
                default:
                    add_group<12, true, true>(acc, p, half, ring, chunks);
                    break;
            }
        }
        wait<0>();
        __syncthreads();
    }
};

}  // namespace tessera::kernels::cuda::device
