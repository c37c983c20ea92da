#pragma once
// The eighteen terms of the triples and their like: nine splits of three occupied and three virtual indices, known
// when this is compiled, so that the accumulators change their order six times per tile and not around each group.
// Thread blocks walk over tiles: the operands of the next one arrive while this one is finished, and what a tile needs
// beyond its terms (orbital energies, disconnected terms) while its terms are added. One thread starts all copies
// (sm_90: bulk copies), warps wait for data only. fused_kernel and orbit_kernel do the rest.

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
    unsigned orbit;
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
        m = {{static_cast<int>(a), static_cast<int>(b), static_cast<int>(left)}, 5, 6, 0};
    } else if (rest - distinct < n * (n - 1)) {
        const auto pair = static_cast<unsigned>(rest - distinct);
        const int x = static_cast<int>(pair / (tiles - 1)), y = static_cast<int>(pair % (tiles - 1));
        m = {{x, x, y + (y >= x ? 1 : 0)}, 2, 3, 0};
    } else {
        const int x = static_cast<int>(rest - distinct - n * (n - 1));
        m = {{x, x, x}, 0, 1, 0};
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
#pragma unroll
        for (int n = 0; n < 3; ++n) {
            tile[n] = static_cast<int>(rest % static_cast<unsigned>(p.tiles[n]));
            rest /= static_cast<unsigned>(p.tiles[n]);
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

/// Starts copying what the epilogue of a tile wants, `fetched` such copies after the first: a few copies each warp,
/// since a warp starts them one by one and the others would wait for it.
__device__ __forceinline__ void fetch_extras(WalkShared& w, int fetched, const FusedParams& p, const int (&tile)[6],
                                             double* singles) {
    const int lane = threadIdx.x % 32, number = threadIdx.x / 32 + kFusedWarps * lane;
    static_assert(3 * kFusedWarps == 2 * kSingles + 6);
    barrier_wait(w.extras_free, (fetched + 1) % 2);
    // The phase cannot end before this arrival, though copies of other warps may land earlier.
    if (threadIdx.x == 0) barrier_expect(w.extras, p.extra_bytes);
    if (lane < 3) {
        if (number < 2 * kSingles) {
            if (w.single[number].data != nullptr)
                copy_bulk(singles + single_place(number), w.single[number].at(tile), single_size(number) * 8, w.extras);
        } else {
            const int role = number - 2 * kSingles, length = role_tile(role);
            copy_bulk(w.energies[role], p.padded_energies[role] + pick(tile, role) * length, length * 8, w.extras);
        }
    }
    __syncwarp();
}
/// The warp is done with them.
__device__ __forceinline__ void release_extras(WalkShared& w) {
    __syncwarp();
    if (threadIdx.x % 32 < kArriving) barrier_arrive(w.extras_free);
}

/// Read anew, so that nothing made of it stays in registers over the terms.
__device__ __forceinline__ int thread_number() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

/// Denominators of a thread's accumulators (in layout 2, as all that walks), in parts: accumulator 4 n + m is over
/// slow(n) + fast[m].
struct WalkDenominators {
    const WalkShared& w;
    int half1;
    double lanes, fast[4];
    __device__ __forceinline__ WalkDenominators(const WalkShared& shared, int thread)
        : w(shared), half1(thread / 32 % 2) {
        lanes = w.energies[0][thread % 32 / 4] + w.energies[lane_role(2)][thread % 4];
#pragma unroll
        for (int n = 0; n < 4; ++n)
            fast[n] = w.energies[4][2 * (thread / 64 % 2) + n / 2] + w.energies[5][2 * (thread / 128) + n % 2];
    }
    __device__ __forceinline__ double slow(int n) const {
        return lanes + w.energies[loop_role(2, 0)][n / 2] + w.energies[3][2 * half1 + n % 2];
    }
};

/// Sum of W V / D over what this thread holds, V = W + singles: W / D first, which then meets W and each of the
/// singles.
__device__ __forceinline__ double tile_energy(double (&acc)[32], const FusedParams& p, const WalkShared& w,
                                              const double* singles) {
    const int thread = thread_number();
    const WalkDenominators d(w, thread);
    double sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        const double slow = d.slow(n);
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            double& x = acc[4 * n + m];
            const double u = x * reciprocal(slow + d.fast[m]);
            sum[m % 2] = fma(x, u, sum[m % 2]);
            x = u;
        }
    }
    return sum[0] + sum[1] + (p.direct_singles != 0 ? dot_singles(acc, singles, thread) : 0.0);
}

// Closed shell. With e and o the sums of W over the even and the odd permutations of an element, and x the disconnected
// terms, an orbit's energy is the sum over its elements of
//     3 W (W + x) / D  +  (W + x) (e - 2 o) / D, e and o changing places for the odd ones,
// and as D is the same for all, the W of the second part add up to e (e - 2 o) + o (o - 2 e). So a tile meets its own W
// while it is in the registers, as without weights, and of the six only e and o are kept, in global memory (L2): tiles
// in accumulator order, in which a permutation of a, b and c changes the accumulator and the warp, not the lane.

/// An addition in L2 that nobody waits for. Others add to the same number at other turns only.
__device__ __forceinline__ void add_in_place(double* to, double value) {
    asm volatile("red.global.add.f64 [%0], %1;" ::"l"(to), "d"(value) : "memory");
}

/// Adds a tile to the sum of its kind: where the frame has the elements that this permutation has in these places.
__device__ __forceinline__ void add_permuted(const double (&acc)[32], double* sums, int permutation) {
    const int thread = thread_number();
    int warp = 0, step[3];
#pragma unroll
    for (int letter = 0; letter < 3; ++letter) {
        const int to = permuted(permutation, letter);
        warp += (thread >> (7 - letter) & 1) << (2 - to);
        step[letter] = kFusedThreads << to;
    }
    double* at = sums + (permutation < 3 ? 0 : kTileElements) + 32 * warp + thread % 32;
    double* place[8];
#pragma unroll
    for (int n = 0; n < 8; ++n) place[n] = at + n % 2 * step[0] + n / 2 % 2 * step[1] + n / 4 * step[2];
    const bool first = permutation % 3 == 2;
#pragma unroll
    for (int n = 0; n < 32; ++n) {
        double* to = place[n % 8] + n / 8 * 8 * kFusedThreads;
        if (first)
            *to = acc[n];
        else
            add_in_place(to, acc[n]);
    }
}

/// The second part for an orbit whose sums are complete; the extras of its frame are there.
__device__ __forceinline__ double orbit_energy(double (&g)[32], const FusedParams& p, WalkShared& w, double* sums,
                                               const OrbitMember& member, const int (&occupied)[6], int& fetched,
                                               double* singles) {
    int tile[6];
#pragma unroll
    for (int n = 0; n < 3; ++n) {
        tile[n] = occupied[n];
        tile[5 - n] = member.frame[n];
    }
    const int thread = thread_number();
    const bool distinct = member.members == 6;
    double sum = 0;
    {
        const WalkDenominators d(w, thread);
        double* const even = sums + thread;
        double* const odd = even + kTileElements;
        // Where a and b have the same tile, o is e with a and b in each other's place.
        const double* from = distinct ? odd : sums + thread % 64 + thread / 128 * 64 + thread / 64 % 2 * 128;
        const int step_a = kFusedThreads << (distinct ? 0 : 1), step_b = kFusedThreads << (distinct ? 1 : 0);
#pragma unroll
        for (int part = 0; part < 8; part += 2) {
            double e[8], o[8];
#pragma unroll
            for (int m = 0; m < 8; ++m) {
                e[m] = load_past_l1(even + (4 * part + m) * kFusedThreads);
                o[m] =
                    load_past_l1(from + (4 * part + m / 4 * 4) * kFusedThreads + m % 2 * step_a + m / 2 % 2 * step_b);
            }
#pragma unroll
            for (int m = 0; m < 8; ++m) {
                const int n = 4 * part + m;
                const double inverse = reciprocal(d.slow(n / 4) + d.fast[n % 4]);
                g[n] = fma(-2.0, o[m], e[m]) * inverse;
                const double other = fma(-2.0, e[m], o[m]) * inverse;
                sum = fma(e[m], g[n], fma(o[m], other, sum));
                if (distinct) odd[n * kFusedThreads] = other;
            }
        }
    }
    // Every element of an orbit of fewer members was met several times.
    sum *= distinct ? 1.0 : member.members == 3 ? 1.0 / 2 : 1.0 / 6;
    if (p.direct_singles == 0) {
        release_extras(w);
        ++fetched;
        return sum;
    }
    // The disconnected terms of each member; g goes from one to the next in the order 0, 1, 2, and 3, 5, 4.
#pragma unroll 1
    for (int m = 0; m < member.members; ++m) {
        const int permutation = m < 4 ? m : 9 - m;
        if (m > 0) {
#pragma unroll
            for (int letter = 0; letter < 3; ++letter)
                tile[5 - letter] = pick(member.frame, permuted(permutation, letter));
            fetch_extras(w, fetched, p, tile, singles);
        }
        if (m == 3) {
#pragma unroll
            for (int n = 0; n < 32; ++n)
                g[n] = load_past_l1(sums + kTileElements + permuted_accumulator(3, n) * kFusedThreads + thread);
        }
        if (m > 0) barrier_wait(w.extras, fetched % 2);
        int warp = 0;
#pragma unroll
        for (int letter = 0; letter < 3; ++letter)
            warp += (thread >> (7 - permuted(permutation, letter)) & 1) << (2 - letter);
        sum += dot_singles(g, singles, 32 * warp + thread % 32);
        release_extras(w);
        ++fetched;
        double turned[32];
#pragma unroll
        for (int n = 0; n < 32; ++n) turned[n] = g[permuted_accumulator(2, n)];
#pragma unroll
        for (int n = 0; n < 32; ++n) g[n] = turned[n];
    }
    return sum;
}

#endif

template <FusedFinish Finish>
__global__ void __launch_bounds__(kFusedThreads, kFusedBlocksPerSm)
    walk_kernel([[maybe_unused]] const __grid_constant__ FusedParams p) {
#if __CUDA_ARCH__ >= 900
    constexpr bool energy = Finish != FusedFinish::store, orbits = Finish == FusedFinish::orbit;
    extern __shared__ __align__(128) double shared[];
    __shared__ WalkShared w;
    double* const singles = shared + kSharedDoubles;
    if (threadIdx.x < 2 * kNineGroups) {
        const PackedGroup& g = p.group[threadIdx.x / 2];
        const bool second = threadIdx.x % 2 != 0;
        auto& to = w.source[threadIdx.x];
        to.data = second ? g.s : g.r;
        for (int n = 0; n < 6; ++n) to.step[n] = second ? g.s_step[n] : g.r_step[n];
    } else if (energy && threadIdx.x >= 32 && threadIdx.x < 32 + 2 * kSingles) {
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
            barrier_init(w.empty[n], kFusedWarps * kArriving);
        }
        barrier_init(w.extras, 1);
        barrier_init(w.extras_free, kFusedWarps * kArriving);
        barrier_init(w.turn, kFusedWarps);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        w.next = {nullptr, nullptr, 0, 0, 0, 0, 0, 0};
    }
    if (energy && p.direct_singles != 0) {
        for (int n = threadIdx.x; n < kSinglesDoubles; n += kFusedThreads) singles[n] = 0;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    const bool first_warp = threadIdx.x < 32;
    if (first_warp) {
        if constexpr (orbits)
            locate_member(w, 0, p);
        else
            locate(w, 0, p, blockIdx.x);
        if (threadIdx.x == 0)
            for (int n = 0; n < kStages - 1; ++n) fetch_stage(w, p, shared);
        __syncwarp();
    }
    if constexpr (orbits) __syncthreads();  // there may be no tile

    double sum = 0;
    Tile run;
    WalkRing ring{w, p, shared};
    const auto add = [&]<int Group, int Mask, bool Move>() {
        add_group<Mask, Move, false>(run.acc, p, run.half, ring, p.group[Group].chunks);
    };
    int count = 0;                               // tiles done
    [[maybe_unused]] int fetched = 0, turn = 0;  // orbits: times that extras were fetched, steps in the sums
    bool more = !orbits || w.member[0].members != 0;
    for (unsigned number = blockIdx.x; more; number += gridDim.x, ++count) {
        if constexpr (orbits) {
            if (first_warp) locate_member(w, count + 1, p);
        } else {
            more = p.tile_count - number > gridDim.x;
            if (more && first_warp) locate(w, count + 1, p, number + gridDim.x);
        }
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
        const auto& tile = w.tile[count % 4];
        if constexpr (energy) fetch_extras(w, orbits ? fetched : count, p, tile, singles);
        add.template operator()<7, 5, true>();
        add.template operator()<8, 9, true>();
        if constexpr (orbits) {
            double* const sums = p.scratch + static_cast<long long>(blockIdx.x) * 2 * kTileElements;
            const auto& member = w.member[count % 4];
            const auto take_turn = [&](auto&& work) {
                barrier_wait(w.turn, (turn + 1) % 2);
                work();
                __syncwarp();
                if (threadIdx.x % 32 == 0) barrier_arrive(w.turn);
                ++turn;
            };
            // One tile of three equal ones is all three of its even permutations.
            int permutation = member.members == 1 ? 2 : member.permutation;
#pragma unroll 1
            do take_turn([&] { add_permuted(run.acc, sums, permutation); });
            while (member.members == 1 && --permutation >= 0);
            barrier_wait(w.extras, fetched % 2);
            sum = fma(3.0, tile_energy(run.acc, p, w, singles), sum);
            if (member.permutation > 0) {
                release_extras(w);
                ++fetched;
            } else {
                take_turn([&] { sum += orbit_energy(run.acc, p, w, sums, member, tile, fetched, singles); });
#pragma unroll
                for (int n = 16; n > 0; n /= 2) sum += __shfl_down_sync(0xffffffffU, sum, n);
                if (threadIdx.x % 32 == 0)
                    p.partial[static_cast<long long>(member.orbit) * kFusedWarps + threadIdx.x / 32] = sum;
                sum = 0;
            }
            more = w.member[(count + 1) % 4].members != 0;
        } else if constexpr (energy) {
            barrier_wait(w.extras, count % 2);
            sum += tile_energy(run.acc, p, w, singles);
            release_extras(w);
        } else {
            store_tile(p, run, Place(p, tile, run.half));
        }
    }
    if constexpr (energy) {
        // The last thread block to finish adds up, in a fixed order.
        __shared__ bool last;
        if constexpr (!orbits) {
            sum = block_sum(sum, shared);
            if (threadIdx.x == 0) p.partial[blockIdx.x] = sum;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicInc(p.arrived, gridDim.x - 1) == gridDim.x - 1;
        }
        __syncthreads();
        if (!last) return;
        __threadfence();
        if (orbits && threadIdx.x == 0) *p.queue = 0;
        const long long partials = orbits ? p.orbits * kFusedWarps : gridDim.x;
        constexpr int ahead = 8;  // loads under way together
        double part[ahead] = {};
        for (long long first = threadIdx.x; first < partials; first += ahead * kFusedThreads) {
            double x[ahead];
#pragma unroll
            for (int m = 0; m < ahead; ++m)
                x[m] = load_past_l1(p.partial + min(first + m * kFusedThreads, partials - 1));
#pragma unroll
            for (int m = 0; m < ahead; ++m) part[m] += first + m * kFusedThreads < partials ? x[m] : 0.0;
        }
        sum = 0;
#pragma unroll
        for (double x : part) sum += x;
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) p.partial[partials] = p.scale * sum;
    }
#endif
}

}  // namespace tessera::kernels::cuda::device
