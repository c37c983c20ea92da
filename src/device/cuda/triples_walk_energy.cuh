#pragma once
// The energy of a tile while it is in the registers of a thread block that walks (triples_walk.cuh): disconnected
// terms, denominators, and the sums over orbits that closed-shell weights want.

#include "device/cuda/triples_ring.cuh"

namespace tessera::kernels::cuda::device {

#if __CUDA_ARCH__ >= 900
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

}  // namespace tessera::kernels::cuda::device
