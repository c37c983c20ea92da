#pragma once
// The eighteen terms of the triples and their like: all nine splits of three occupied and three virtual indices, known
// when this is compiled, so that the accumulators change their order six times per tile and not around each group.
// Thread blocks walk over tiles: the operands of the next one arrive while this one is finished, and what a tile needs
// beyond its terms (orbital energies, disconnected terms) while its terms are added. One thread starts all copies
// (sm_90: bulk copies), warps wait for data only. fused_kernel does the rest.

#include "kernels/cuda/triples_finish.cuh"

namespace tessera::kernels::cuda::device {

__device__ __forceinline__ void barrier_init(const unsigned long long& b, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(const unsigned long long& b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&b)) : "memory");
}
__device__ __forceinline__ void barrier_wait(const unsigned long long& b, unsigned parity) {
    asm volatile(
        "{\n\t.reg .pred done;\n\tagain:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@!done bra again;\n\t}" ::"r"(shared_address(&b)),
        "r"(parity)
        : "memory");
}
#if __CUDA_ARCH__ >= 900
/// Arrives, and the phase ends when `bytes` have landed too.
__device__ __forceinline__ void barrier_expect(const unsigned long long& b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&b)), "r"(bytes)
                 : "memory");
}
/// One thread copies; both addresses and the size are multiples of 16 bytes.
__device__ __forceinline__ void copy_bulk(const double* to, const double* from, unsigned bytes,
                                          const unsigned long long& b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(&b))
                 : "memory");
}

constexpr int kWarps = kFusedThreads / 32;
// compute-sanitizer's racecheck does not follow a warp's reads over __syncwarp to the arrival of its first lane, and
// reports the other 31 lanes. For it, and only for it, every lane arrives.
#ifdef TESSERA_RACECHECK
constexpr int kArriving = 32;
#else
constexpr int kArriving = 1;
#endif

/// The first warp fetches. Only it touches what is not a barrier or a copy's destination.
struct WalkShared {
    unsigned long long full[kStages], empty[kStages];  // barriers of the ring: data has landed, all warps are done
    unsigned long long extras, extras_free;            // the same of what the epilogue wants
    alignas(16) TileEnergies energies;                 // signed
    struct Source {
        const double* data;
        long long step[6];
        __device__ __forceinline__ const double* at(const int (&tile)[6]) const {
            const double* x = data;
#pragma unroll
            for (int n = 0; n < 6; ++n) x += tile[n] * step[n];
            return x;
        }
    } source[2 * kNineGroups], single[2 * kSingles];
    const double* operand[2][2 * kNineGroups];  // of this tile and the next
    int tile[4][6];                             // everyone reads it, and warps may differ by a tile
    struct {
        const double *r, *s;
        int left, group, place, slot;
        unsigned parity, tiles;  // tiles still to come, the one at `group` included
    } next;
};

/// By the first warp: where the operands of a tile lie.
__device__ __forceinline__ void locate(WalkShared& w, int count, const FusedParams& p, unsigned number) {
    const int lane = threadIdx.x;
    int mine = 0;
    if (lane < 6) mine = static_cast<int>(number / p.period[lane] % static_cast<unsigned>(p.tiles[lane]));
    int tile[6];
#pragma unroll
    for (int n = 0; n < 6; ++n) tile[n] = __shfl_sync(0xffffffffU, mine, n);
#pragma unroll
    for (int n = 0; n < 6; ++n)
        if (lane == 0) w.tile[count % 4][n] = tile[n];
    if (lane < 2 * kNineGroups) w.operand[count % 2][lane] = w.source[lane].at(tile);
    __syncwarp();
}

/// By the first thread: starts the copies of the next stage.
__device__ __forceinline__ void fetch_stage(WalkShared& w, const FusedParams& p, double* shared) {
    auto& next = w.next;
    int left = next.left;
    const double *r = next.r, *s = next.s;
    if (left <= 0) {
        if (next.tiles == 0) return;
        const int group = next.group, place = next.place;
        left = p.group[group].chunks;
        r = w.operand[place][2 * group];
        s = w.operand[place][2 * group + 1];
        if (group + 1 == kNineGroups) {
            --next.tiles;
            next.place = place ^ 1;
        }
        next.group = group + 1 == kNineGroups ? 0 : group + 1;
    }
    const int slot = next.slot;
    const unsigned chunks = min(left, kStageChunks), parity = next.parity;
    barrier_wait(w.empty[slot], parity ^ 1);
    barrier_expect(w.full[slot], chunks * (kChunkR + kChunkS) * 8);
    copy_bulk(shared + slot * kStageDoubles, r, chunks * kChunkR * 8, w.full[slot]);
    copy_bulk(shared + slot * kStageDoubles + kStageChunks * kChunkR, s, chunks * kChunkS * 8, w.full[slot]);
    next.r = r + kStageChunks * kChunkR;
    next.s = s + kStageChunks * kChunkS;
    next.left = left - kStageChunks;
    next.slot = slot + 1 == kStages ? 0 : slot + 1;
    next.parity = slot + 1 == kStages ? parity ^ 1 : parity;
}

/// The ring of stages as add_group wants it.
struct WalkRing {
    WalkShared& w;
    const FusedParams& p;
    double* shared;
    int slot = 0;
    unsigned parity = 0;

    __device__ __forceinline__ const double* open() const {
        barrier_wait(w.full[slot], parity);
        return shared + slot * kStageDoubles;
    }
    // After a part of the stage: by then the others are done with the one before, which is overwritten.
    __device__ __forceinline__ void refill() const {
        if (threadIdx.x == 0) fetch_stage(w, p, shared);
        __syncwarp();
    }
    __device__ __forceinline__ void close() {
        __syncwarp();
        if (threadIdx.x % 32 < kArriving) barrier_arrive(w.empty[slot]);
        parity = slot + 1 == kStages ? parity ^ 1 : parity;
        slot = slot + 1 == kStages ? 0 : slot + 1;
    }
};

/// The disconnected terms in shared memory, nothing but zeros where one is missing. Number t joins a virtual index
/// (loop 1 + t / 3) and an occupied one (t % 3: x0, S, loop 0) in its small operand; the big one has the other four.
/// Both are packed as DirectTerm says, which makes every stride below.
template <int T>
struct Single {
    static constexpr int loop = 1 + T / 3, occupied = T % 3;
    static constexpr int m = loop == 1 ? 2 : 1, n = loop == 3 ? 2 : 3;            // the big operand's virtual indices
    static constexpr int small_lane = occupied == 0 ? 8 : occupied == 1 ? 4 : 1;  // stride of the half
    static constexpr int big_lane = occupied == 0 ? 4 : occupied == 1 ? 8 : 32;
    static constexpr int small_lanes = 2 * small_lane, big_lanes = 4 * big_lane;

    /// Sum of u times the term.
    __device__ static __forceinline__ double dot(const double (&u)[32], const double* shared, int thread) {
        const int x0 = thread % 32 / 4, S = thread % 4;
        const int half[4] = {0, thread / 32 % 2, thread / 64 % 2, thread / 128};
        const int small_thread = (occupied == 0 ? x0 : occupied == 1 ? S : 0) + small_lane * half[loop];
        const int big_thread = (occupied == 0   ? S
                                : occupied == 1 ? x0
                                                : x0 + 8 * S) +
                               big_lane * (half[m] + 2 * half[n]);
        const auto* small = reinterpret_cast<const double2*>(shared + single_place(2 * T)) + small_thread;
        const auto* big = reinterpret_cast<const double2*>(shared + single_place(2 * T + 1)) + big_thread;
        // Summed over the operand with more elements, then over the other.
        double sum = 0;
        if constexpr (occupied == 2) {
            double part[4] = {0, 0, 0, 0};
#pragma unroll
            for (int slice = 0; slice < 4; ++slice) {
                const double2 a = small[slice * small_lanes];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int at = 8 * slice + i / 2 * weight(m) + i % 2 * weight(n);
                    part[i] = fma(a.y, u[at + weight(loop)], fma(a.x, u[at], part[i]));
                }
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const double2 b = big[i * big_lanes];
                sum = fma(b.y, part[2 * i + 1], fma(b.x, part[2 * i], sum));
            }
        } else {
            double low = 0, high = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const double2 b = big[i * big_lanes];
                const int at = 8 * (i / 2) + i % 2 * weight(m);
                low = fma(b.y, u[at + weight(n)], fma(b.x, u[at], low));
                high = fma(b.y, u[at + weight(n) + weight(loop)], fma(b.x, u[at + weight(loop)], high));
            }
            const double2 a = small[0];
            sum = fma(a.x, low, a.y * high);
        }
        return sum;
    }
};
template <int T = 0>
__device__ __forceinline__ double dot_singles(const double (&u)[32], const double* shared, int thread) {
    double sum = Single<T>::dot(u, shared, thread);
    if constexpr (T + 1 < kSingles) sum += dot_singles<T + 1>(u, shared, thread);
    return sum;
}

/// Starts copying what the epilogue of a tile wants: a few copies each warp, since a warp starts them one by one and
/// the others would wait for it.
__device__ __forceinline__ void fetch_extras(WalkShared& w, int count, const FusedParams& p, double* singles) {
    const int lane = threadIdx.x % 32, number = threadIdx.x / 32 + kWarps * lane;
    static_assert(3 * kWarps == 2 * kSingles + 6);
    barrier_wait(w.extras_free, (count + 1) % 2);
    // The phase cannot end before this arrival, though copies of other warps may land earlier.
    if (threadIdx.x == 0) barrier_expect(w.extras, p.extra_bytes);
    if (lane < 3) {
        const auto& tile = w.tile[count % 4];
        if (number < 2 * kSingles) {
            if (w.single[number].data != nullptr)
                copy_bulk(singles + single_place(number), w.single[number].at(tile), single_size(number) * 8, w.extras);
        } else {
            const int role = number - 2 * kSingles, length = role_tile(role);
            copy_bulk(w.energies[role], p.padded_energies[role] + tile[role] * length, length * 8, w.extras);
        }
    }
    __syncwarp();
}

/// Read anew, so that nothing made of it stays in registers over the terms.
__device__ __forceinline__ int thread_number() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/// Sum of W V / D over what this thread holds, V = W + singles: W / D first, which then meets W and each of the
/// singles.
__device__ __forceinline__ double tile_energy(double (&acc)[32], const FusedParams& p, const WalkShared& w,
                                              const double* singles) {
    const int thread = thread_number();
    const int S = p.layout == 2 ? 2 : 1, loop0 = 3 - S, lane = thread % 32;
    const int half[4] = {0, thread / 32 % 2, thread / 64 % 2, thread / 128};
    const auto energy = [&](int role, int c) { return w.energies[role][c]; };
    const double lanes = energy(0, lane / 4) + energy(S, lane % 4);
    double fast[4], sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < 4; ++n) fast[n] = energy(4, 2 * half[2] + n / 2) + energy(5, 2 * half[3] + n % 2);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const double slow = lanes + energy(loop0, n / 2) + energy(3, 2 * half[1] + n % 2);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            double& x = acc[4 * n + m];
            const double u = x * reciprocal(slow + fast[m]);
            sum[m % 2] = fma(x, u, sum[m % 2]);
            x = u;
        }
    }
    return sum[0] + sum[1] + (p.direct_singles != 0 ? dot_singles(acc, singles, thread) : 0.0);
}

#endif

template <bool Energy>
__global__ void __launch_bounds__(kFusedThreads, kFusedBlocksPerSm)
    walk_kernel([[maybe_unused]] const __grid_constant__ FusedParams p) {
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) double shared[];
    __shared__ WalkShared w;
    double* const singles = shared + kSharedDoubles;
    if (threadIdx.x < 2 * kNineGroups) {
        const PackedGroup& g = p.group[threadIdx.x / 2];
        const bool second = threadIdx.x % 2 != 0;
        auto& to = w.source[threadIdx.x];
        to.data = second ? g.s : g.r;
        for (int n = 0; n < 6; ++n) to.step[n] = second ? g.s_step[n] : g.r_step[n];
    } else if (Energy && threadIdx.x >= 32 && threadIdx.x < 32 + 2 * kSingles) {
        const int n = threadIdx.x - 32;
        auto& to = w.single[n];
        to.data = nullptr;
        if (p.direct_singles != 0) {
            const DirectTerm& t = p.direct[n / 2];
            const DirectOperandPlace& x = n % 2 == 0 ? t.a : t.b;
            to.data = x.data;
            for (int m = 0; m < 6; ++m) to.step[m] = x.step[m];
        }
    } else if (threadIdx.x == 64) {
        for (int n = 0; n < kStages; ++n) {
            barrier_init(w.full[n], 1);
            barrier_init(w.empty[n], kWarps * kArriving);
        }
        barrier_init(w.extras, 1);
        barrier_init(w.extras_free, kWarps * kArriving);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        w.next = {nullptr, nullptr, 0, 0, 0, 0, 0, (p.tile_count - 1 - blockIdx.x) / gridDim.x + 1};
    }
    if (Energy && p.direct_singles != 0) {
        for (int n = threadIdx.x; n < kSinglesDoubles; n += kFusedThreads) singles[n] = 0;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const bool first_warp = threadIdx.x < 32;
    if (first_warp) {
        locate(w, 0, p, blockIdx.x);
        if (threadIdx.x == 0)
            for (int n = 0; n < kStages - 1; ++n) fetch_stage(w, p, shared);
        __syncwarp();
    }

    double sum = 0;
    Tile run;
    WalkRing ring{w, p, shared};
    const auto add = [&]<int Group, int Mask, bool Move>() {
        add_group<Mask, Move, false>(run.acc, p, run.half, ring, p.group[Group].chunks);
    };
    int count = 0;  // tiles done
    for (unsigned number = blockIdx.x;; number += gridDim.x, ++count) {
        const bool more = p.tile_count - number > gridDim.x;
        if (more && first_warp) locate(w, count + 1, p, number + gridDim.x);
#pragma unroll
        for (double& c : run.acc) c = 0;
        add.template operator()<0, 3, false>();
        add.template operator()<1, 5, true>();
        add.template operator()<2, 6, false>();
        add.template operator()<3, 9, true>();
        add.template operator()<4, 10, false>();
        add.template operator()<5, 12, true>();
        change_layout(run.acc);
        add.template operator()<6, 3, true>();
        if constexpr (Energy) fetch_extras(w, count, p, singles);
        add.template operator()<7, 5, true>();
        add.template operator()<8, 9, true>();
        if constexpr (Energy) {
            barrier_wait(w.extras, count % 2);
            sum += tile_energy(run.acc, p, w, singles);
            __syncwarp();
            if (threadIdx.x % 32 < kArriving) barrier_arrive(w.extras_free);
        } else {
            store_tile(p, run, Place(p, w.tile[count % 4], run.half));
        }
        if (!more) break;
    }
    if constexpr (Energy) {
        // The last thread block to finish adds up, in a fixed order.
        __shared__ bool last;
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) {
            p.partial[blockIdx.x] = sum;
            __threadfence();
            last = atomicInc(p.arrived, gridDim.x - 1) == gridDim.x - 1;
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        sum = 0;
        for (unsigned n = threadIdx.x; n < gridDim.x; n += kFusedThreads) sum += load_past_l1(p.partial + n);
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) p.partial[gridDim.x] = p.scale * sum;
    }
#endif
}

}  // namespace tessera::kernels::cuda::device
