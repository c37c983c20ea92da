#pragma once
// Thread blocks that walk over tiles (triples_walk.cuh): which tile comes next, where its operands lie, and the ring of
// stages that bulk copies (sm_90) fill and the warps empty. One thread starts all copies, warps wait for data only.

#include "device/cuda/triples_finish.cuh"

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

// compute-sanitizer's racecheck does not follow a warp's reads over __syncwarp to the arrival of its first lane, and
// reports the other 31 lanes. For it, and only for it, every lane arrives.
#ifdef TESSERA_RACECHECK
constexpr int kArriving = 32;
#else
constexpr int kArriving = 1;
#endif

/// A tile of an orbit (closed shell). The frame gives a, b and c their tiles: three different ones, whose permutations
/// are six members; (x, x, y), three, the even permutations; or (x, x, x), one. They come in descending order.
struct OrbitMember {
    int frame[3];
    int permutation, members;  // members 0: there is no tile
    unsigned orbit, row;
};

/// The first warp fetches. Only it touches what is not a barrier or a copy's destination.
struct WalkShared {
    unsigned long long full[kStages], empty[kStages];  // barriers of the ring: data has landed, all warps are done
    unsigned long long extras, extras_free;            // the same of what the epilogue wants
    unsigned long long turn;                           // orbits: all warps are done with a step in the sums
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
    OrbitMember member[4];                      // likewise
    struct {
        const double *r, *s;
        int left, group, place, slot;
        unsigned parity, tiles;  // tiles still to come, the one at `group` included
    } next;
};

/// By the first warp: where the operands of a tile lie, the count-th of this thread block.
__device__ __forceinline__ void locate(WalkShared& w, int count, const int (&tile)[6]) {
    const int lane = threadIdx.x;
#pragma unroll
    for (int n = 0; n < 6; ++n)
        if (lane == 0) w.tile[count % 4][n] = tile[n];
    if (lane == 0) ++w.next.tiles;
    if (lane < 2 * kNineGroups) w.operand[count % 2][lane] = w.source[lane].at(tile);
    __syncwarp();
}
__device__ __forceinline__ void locate(WalkShared& w, int count, const FusedParams& p, unsigned number) {
    const int lane = threadIdx.x;
    int mine = 0;
    if (lane < 6) mine = static_cast<int>(number / p.period[lane] % static_cast<unsigned>(p.tiles[lane]));
    int tile[6];
#pragma unroll
    for (int n = 0; n < 6; ++n) tile[n] = __shfl_sync(0xffffffffU, mine, n);
    locate(w, count, tile);
}

/// The frame of an orbit, the longest orbits first.
__device__ __forceinline__ void set_frame(OrbitMember& m, unsigned rest, unsigned tiles) {
    const unsigned long long n = tiles, distinct = n * (n - 1) * (n - 2) / 6;
    if (rest < distinct) {
        // frame[0] > frame[1] > frame[2]
        unsigned long long left = rest, a = 2, b = 1;
        for (unsigned long long next; left >= (next = a * (a - 1) / 2); ++a) left -= next;
        while (left >= b) left -= b++;
        m = {{static_cast<int>(a), static_cast<int>(b), static_cast<int>(left)}, 5, 6, 0, m.row};
    } else if (rest - distinct < n * (n - 1)) {
        const auto pair = static_cast<unsigned>(rest - distinct);
        const int x = static_cast<int>(pair / (tiles - 1)), y = static_cast<int>(pair % (tiles - 1));
        m = {{x, x, y + (y >= x ? 1 : 0)}, 2, 3, 0, m.row};
    } else {
        const int x = static_cast<int>(rest - distinct - n * (n - 1));
        m = {{x, x, x}, 0, 1, 0, m.row};
    }
}
/// By the first warp: the count-th tile of this thread block is the next member of its orbit, or the first of another
/// one, which it takes from a queue.
__device__ __forceinline__ void locate_member(WalkShared& w, int count, const FusedParams& p) {
    OrbitMember m{};
    int tile[6];
    if (count > 0) m = w.member[(count + 3) % 4];
    if (m.permutation > 0) {
        --m.permutation;
#pragma unroll
        for (int n = 0; n < 3; ++n) tile[n] = w.tile[(count + 3) % 4][n];
    } else {
        unsigned number = 0;
        if (threadIdx.x == 0) number = atomicAdd(p.queue, 1U);
        number = __shfl_sync(0xffffffffU, number, 0);
        unsigned rest = number;
        if (p.rows != nullptr) {
            m.row = number < p.orbits ? number / p.orbits_of_row : 0;
            rest = number - m.row * p.orbits_of_row;
#pragma unroll
            for (int n = 0; n < 3; ++n) tile[n] = p.rows[m.row].tile[n];
        } else {
#pragma unroll
            for (int n = 0; n < 3; ++n) {
                tile[n] = static_cast<int>(rest % static_cast<unsigned>(p.tiles[n]));
                rest /= static_cast<unsigned>(p.tiles[n]);
            }
        }
        if (number < p.orbits)
            set_frame(m, rest, static_cast<unsigned>(p.tiles[3]));
        else
            m.members = 0;
        m.orbit = number;
    }
    if (threadIdx.x == 0) w.member[count % 4] = m;
    if (m.members != 0) {
#pragma unroll
        for (int letter = 0; letter < 3; ++letter) tile[5 - letter] = pick(m.frame, permuted(m.permutation, letter));
        locate(w, count, tile);
    }
    __syncwarp();
}

/// By the first thread: starts the copies of the next stage.
__device__ __forceinline__ void fetch_stage(WalkShared& w, const FusedParams& p, double* shared) {
    auto& next = w.next;
    int left = next.left;
    const double *r = next.r, *s = next.s;
    while (left <= 0) {  // groups may be empty
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

#endif

}  // namespace tessera::kernels::cuda::device
