#pragma once
// Device code of the fused contraction.
//
// Three output indices (x0, x1, x2) have tiles of 8, the other three (y1, y2, y3) of 2 W1, 2 W2, 2 W3. A warp holds
// 8 x 8 fragments over (x0, S) for 2 x 2 x 2 x 2 values of four loop indices: in layout 1 S = x1 and the loops are
// x2, y1, y2, y3; in layout 2 x1 and x2 change places. A term runs in a layout whose x0 and S come from different
// operands; then any split of the loops between the operands is an outer product of fragments. All eighteen CCSD(T)
// terms fit one of the two layouts, so a tile changes its layout once, through shared memory.

#include "kernels/cuda/triples_device.hpp"

namespace tessera::kernels::cuda {

namespace device {

constexpr int kDepth = 16;  // summed index per stage

__device__ __forceinline__ void copy8(double* to, const double* from, bool ok) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(ok ? 8 : 0) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Two 8 x 8 fragments that share b, four summed elements.
__device__ __forceinline__ void multiply(double (&c)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%2},{%3},{%0,%1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(a), "d"(b));
}
__device__ __forceinline__ void multiply(double (&c)[2], double (&d)[2], double a, double a8, double b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(d[0]), "+d"(d[1])
                 : "d"(a), "d"(a8), "d"(b));
#else
    multiply(c, a, b);
    multiply(d, a8, b);
#endif
}

/// 1 / d to about an ulp: the hardware's estimate and two Newton steps.
__device__ __forceinline__ double reciprocal(double d) {
    double x;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(x) : "d"(d));
    x = fma(x, fma(-d, x, 1.0), x);
    x = fma(x, fma(-d, x, 1.0), x);
    return fma(x, fma(-d, x, 1.0), x);
}

/// Warps along the four loops; the first loop has a tile of 8, hence four warps.
template <int W1, int W2, int W3, int Stages, int BlocksPerSm>
struct Shape {
    static constexpr int warps = 4 * W1 * W2 * W3, threads = 32 * warps;
    static constexpr int stages = Stages, blocks_per_sm = BlocksPerSm;
    __host__ __device__ static constexpr int tile(int loop) {
        return loop == 0 ? 8 : 2 * (loop == 1 ? W1 : loop == 2 ? W2 : W3);
    }
    /// Fragments of 8 of an operand that carries the loops of this mask, and where loop n counts among them.
    __host__ __device__ static constexpr int fragments(int mask) {
        int count = 1;
        for (int n = 0; n < 4; ++n)
            if (mask >> n & 1) count *= tile(n);
        return count;
    }
    __host__ __device__ static constexpr int step(int mask, int loop) {
        int count = 1;
        for (int n = 0; n < loop; ++n)
            if (mask >> n & 1) count *= tile(n);
        return count;
    }
    /// Rows of 8 * fragments + 4 doubles: four summed elements by four lanes fall into different banks.
    __host__ __device__ static constexpr int pitch(int mask) { return 8 * fragments(mask) + 4; }
    __host__ __device__ static constexpr int stage_doubles() {
        int most = 0;
        for (int mask = 1; mask < 16; ++mask) {
            int loops = 0;
            for (int n = 0; n < 4; ++n) loops += mask >> n & 1;
            if (loops == 2 && both_pitches(mask) > most) most = both_pitches(mask);
        }
        return most * kDepth;
    }
    __host__ __device__ static constexpr int both_pitches(int mask) { return pitch(mask) + pitch(15 - mask); }
    /// The summed elements a stage holds for this split: fewer than kDepth when the loops are dealt unevenly.
    __host__ __device__ static constexpr int depth(int mask) {
        const int rows = stage_doubles() / both_pitches(mask) / 4 * 4;
        return rows > kDepth ? kDepth : rows;
    }
    static constexpr int elements = 8 * 8 * 8 * 8 * W1 * W2 * W3;
    static constexpr int slow = W1 * W2 * W3;                // warps that share loop 0
    static constexpr int exchange_doubles = 2 * slow * 656;  // two register combinations at a time, padded 8 x 8 x 8
    /// Four summed elements of any split but 0 + 4 loops.
    __host__ __device__ static constexpr int singles_stage() {
        int most = 0;
        for (int mask = 1; mask < 15; ++mask)
            if (both_pitches(mask) > most) most = both_pitches(mask);
        return 4 * most;
    }
    __host__ __device__ static constexpr int shared_doubles(bool energy) {
        const int run = stages * stage_doubles();
        const int small = 2 * singles_stage() > exchange_doubles ? 2 * singles_stage() : exchange_doubles;
        const int held = energy ? elements + small : exchange_doubles;
        return run > held ? run : held;
    }
};

/// Where the thread block stands: first element and remaining extent of each slot.
struct Place {
    int origin[6], limit[6];
    __device__ __forceinline__ void swap() {
        int t = origin[1];
        origin[1] = origin[2], origin[2] = t;
        t = limit[1];
        limit[1] = limit[2], limit[2] = t;
    }
};

/// Copies one operand's slice: a warp moves 8 (x) by 4 (summed) elements at a time, whichever of the two is contiguous.
/// Past the end of an output index the last element is read again: it only reaches elements that are never stored.
/// Past the end of the sum there are zeros.
template <class S, int Mask>
__device__ __forceinline__ void load_slice(double* to, const double* from, const long long* stride, int x_slot,
                                           long long sum_stride, const Place& at, int sum) {
    constexpr int pitch = S::pitch(Mask), fragments = S::fragments(Mask);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int x = lane / 4, l = warp % 4 * 4 + lane % 4;
    if (warp % 4 * 4 >= sum) return;
    const bool ok = l < sum;
    const double* base = from + min(x, at.limit[x_slot] - 1) * stride[x_slot] + (ok ? l : 0) * sum_stride;
    to += l * pitch + x;
#pragma unroll 4
    for (int f = warp / 4; f < fragments; f += S::warps / 4) {
        const double* p = base;
#pragma unroll
        for (int n = 0; n < 4; ++n)
            if (Mask >> n & 1) p += min((f / S::step(Mask, n)) % S::tile(n), at.limit[2 + n] - 1) * stride[2 + n];
        copy8(to + 8 * f, p, ok);
    }
}

template <class S, int Mask>
__device__ __forceinline__ void load_stage(double* to, const DeviceTerm& term, int begin, int sum, const Place& at) {
    const double* r = term.r + begin * term.r_sum;
    const double* s = term.s + begin * term.s_sum;
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        r += at.origin[n] * term.r_stride[n];
        s += at.origin[n] * term.s_stride[n];
    }
    load_slice<S, Mask>(to, r, term.r_stride, 0, term.r_sum, at, sum);
    load_slice<S, 15 - Mask>(to + term.chunk * S::pitch(Mask), s, term.s_stride, 1, term.s_sum, at, sum);
}

/// The loop bits of operand `mask` number f, spread to their places.
__host__ __device__ constexpr int spread(int mask, int f) {
    int bits = 0;
    for (int n = 0; n < 4; ++n)
        if (mask >> n & 1) {
            bits |= (f & 1) << n;
            f >>= 1;
        }
    return bits;
}
template <class S>
__host__ __device__ constexpr int fragment_row(int mask, int bits) {
    int row = 0;
    for (int n = 0; n < 4; ++n)
        if (mask >> n & 1) row += (bits >> n & 1) * S::step(mask, n);
    return 8 * row;
}

template <class S, int Mask>
__device__ __forceinline__ void multiply_stage(double (&acc)[16][2], const double* from, int sum, int depth,
                                               double factor, const int (&warp_at)[4]) {
    constexpr int other = 15 - Mask;
    constexpr int nr = (Mask & 1 ? 2 : 1) * (Mask & 2 ? 2 : 1) * (Mask & 4 ? 2 : 1) * (Mask & 8 ? 2 : 1), ns = 16 / nr;
    const int lane = threadIdx.x % 32;
    int r_row = 0, s_row = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
        if (Mask >> n & 1)
            r_row += 16 * warp_at[n] * S::step(Mask, n);
        else
            s_row += 16 * warp_at[n] * S::step(other, n);
    }
    const double* r = from + (lane % 4) * S::pitch(Mask) + lane / 4 + r_row;
    const double* s = from + depth * S::pitch(Mask) + (lane % 4) * S::pitch(other) + lane / 4 + s_row;
#pragma unroll 2
    for (int done = 0; done < sum; done += 4) {
        double a[nr], b[ns];
#pragma unroll
        for (int f = 0; f < nr; ++f) a[f] = r[fragment_row<S>(Mask, spread(Mask, f))];
#pragma unroll
        for (int f = 0; f < ns; ++f) b[f] = factor * s[fragment_row<S>(other, spread(other, f))];
#pragma unroll
        for (int g = 0; g < ns; ++g) {
#pragma unroll
            for (int f = 0; f < nr; f += 2)
                multiply(acc[spread(Mask, f) | spread(other, g)], acc[spread(Mask, f + 1) | spread(other, g)], a[f],
                         a[f + 1], b[g]);
        }
        r += 4 * S::pitch(Mask);
        s += 4 * S::pitch(other);
    }
}

/// Splits 0 + 4 never come here.
#define TESSERA_FOR_MASK(mask, CALL) \
    switch (mask) {                  \
        case 1:                      \
            CALL(1);                 \
            break;                   \
        case 2:                      \
            CALL(2);                 \
            break;                   \
        case 3:                      \
            CALL(3);                 \
            break;                   \
        case 4:                      \
            CALL(4);                 \
            break;                   \
        case 5:                      \
            CALL(5);                 \
            break;                   \
        case 6:                      \
            CALL(6);                 \
            break;                   \
        case 7:                      \
            CALL(7);                 \
            break;                   \
        case 8:                      \
            CALL(8);                 \
            break;                   \
        case 9:                      \
            CALL(9);                 \
            break;                   \
        case 10:                     \
            CALL(10);                \
            break;                   \
        case 11:                     \
            CALL(11);                \
            break;                   \
        case 12:                     \
            CALL(12);                \
            break;                   \
        case 13:                     \
            CALL(13);                \
            break;                   \
        default:                     \
            CALL(14);                \
            break;                   \
    }

/// Walks terms [begin, end) piece by piece.
struct Walk {
    int term, end, done;
    __device__ __forceinline__ bool valid() const { return term < end; }
    __device__ __forceinline__ void next(const DeviceTerm* terms) {
        done += terms[term].chunk;
        if (done >= terms[term].sum) {
            done = 0;
            ++term;
        }
    }
};

/// Adds terms [begin, end) to the fragments; `ring` stages of `stride` doubles lie at `shared`. Ends with all threads
/// done reading shared memory.
template <class S>
__device__ __forceinline__ void add_terms(double (&acc)[16][2], double* shared, int stride, int ring,
                                          const DeviceTerm* terms, int begin, int end, const Place& at,
                                          const int (&warp_at)[4]) {
    Walk load{begin, end, 0}, use{begin, end, 0};
    int to_slot = 0, slot = 0;
    for (int ahead = 1;; ++ahead) {
        const bool filling = ahead < ring;
        if (!filling) {
            if (!use.valid()) break;
            // The oldest stage has landed, and nobody reads the one about to be overwritten.
            if (ring == S::stages)
                wait<S::stages - 2>();
            else
                wait<0>();
            __syncthreads();
        }
        if (load.valid()) {
            const DeviceTerm& term = terms[load.term];
            const int sum = min(term.chunk, term.sum - load.done);
            double* to = shared + to_slot * stride;
#define TESSERA_LOAD(M) load_stage<S, M>(to, term, load.done, sum, at)
            TESSERA_FOR_MASK(term.mask, TESSERA_LOAD)
#undef TESSERA_LOAD
            load.next(terms);
        }
        commit();  // empty groups keep the count
        to_slot = to_slot + 1 == ring ? 0 : to_slot + 1;
        if (filling) continue;
        const DeviceTerm& term = terms[use.term];
        const int sum = min(term.chunk, term.sum - use.done);
        const double* from = shared + slot * stride;
#define TESSERA_MULTIPLY(M) multiply_stage<S, M>(acc, from, sum, term.chunk, term.factor, warp_at)
        TESSERA_FOR_MASK(term.mask, TESSERA_MULTIPLY)
#undef TESSERA_MULTIPLY
        slot = slot + 1 == ring ? 0 : slot + 1;
        use.next(terms);
    }
    wait<0>();
    __syncthreads();
}

/// Layout 1 to layout 2: (x0, S = x1; loop 0 = x2) to (x0, S = x2; loop 0 = x1), two register combinations at a time.
/// Strides 1, 10, 82 keep both sides free of bank conflicts.
template <class S>
__device__ __forceinline__ void exchange(double (&acc)[16][2], double* shared, const int (&warp_at)[4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double* mine = shared + (warp / 4) * 656 + lane / 4;
    const int pair = 2 * (lane % 4);
#pragma unroll
    for (int round = 0; round < 4; ++round) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int bit = 0; bit < 2; ++bit)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    mine[half * S::slow * 656 + (pair + e) * 10 + (2 * warp_at[0] + bit) * 82] =
                        acc[bit | (2 * round + half) << 1][e];
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int bit = 0; bit < 2; ++bit)
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    acc[bit | (2 * round + half) << 1][e] =
                        mine[half * S::slow * 656 + (pair + e) * 82 + (2 * warp_at[0] + bit) * 10];
        __syncthreads();
    }
}

template <class S>
__device__ __forceinline__ double block_sum(double value, double* shared) {
#pragma unroll
    for (int n = 16; n > 0; n /= 2) value += __shfl_down_sync(0xffffffffU, value, n);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0)
        for (int w = 0; w < S::warps; ++w) sum += shared[w];
    return sum;  // thread 0's
}

/// Calls body(fragment element, local coordinate of each slot) for each element this thread holds within the tensor.
template <class S, class Body>
__device__ __forceinline__ void for_each_element(const Place& at, const int (&warp_at)[4], Body&& body) {
    const int lane = threadIdx.x % 32;
    if (lane / 4 >= at.limit[0]) return;
#pragma unroll
    for (int bits = 0; bits < 16; ++bits) {
        const int c0 = 2 * warp_at[0] + (bits & 1), c1 = 2 * warp_at[1] + (bits >> 1 & 1);
        const int c2 = 2 * warp_at[2] + (bits >> 2 & 1), c3 = 2 * warp_at[3] + (bits >> 3 & 1);
        const bool ok = c0 < at.limit[2] && c1 < at.limit[3] && c2 < at.limit[4] && c3 < at.limit[5];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int s = 2 * (lane % 4) + e;
            if (ok && s < at.limit[1]) body(bits, e, s, c0, c1, c2, c3);
        }
    }
}

/// Orbital energies of the slots' coordinates, signed.
struct Denominator {
    double x0, s[2], loop[4][2];
    __device__ __forceinline__ Denominator(const FusedParams& p, const Place& at, const int (&warp_at)[4],
                                           const int (&role)[6]) {
        const int lane = threadIdx.x % 32;
        auto read = [&](int slot, int c) {
            const int n = role[slot];
            return c < at.limit[slot] ? p.sign[n] * p.energies[n][at.origin[slot] + c] : 0.0;
        };
        x0 = read(0, lane / 4);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            s[e] = read(1, 2 * (lane % 4) + e);
#pragma unroll
            for (int n = 0; n < 4; ++n) loop[n][e] = read(2 + n, 2 * warp_at[n] + e);
        }
    }
    __device__ __forceinline__ double inverse(int bits, int e) const {
        return reciprocal(x0 + s[e] + loop[0][bits & 1] + loop[1][bits >> 1 & 1] + loop[2][bits >> 2 & 1] +
                          loop[3][bits >> 3 & 1]);
    }
};

template <class S>
struct TileRun {
    const FusedParams& p;
    double* shared;
    int warp_at[4];
    double acc[16][2];

    __device__ __forceinline__ TileRun(const FusedParams& params, double* memory) : p(params), shared(memory) {
        const int warp = threadIdx.x / 32;
        warp_at[0] = warp % 4;
        warp_at[1] = warp / 4 % (S::tile(1) / 2);
        warp_at[2] = warp / (2 * S::tile(1)) % (S::tile(2) / 2);
        warp_at[3] = warp / (S::tile(1) * S::tile(2));
    }
    __device__ __forceinline__ static constexpr int role_tile(int role) { return role < 3 ? 8 : S::tile(role - 2); }
    __device__ __forceinline__ Place place(const int (&tile)[6]) const {
        Place at;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
            at.origin[n] = tile[n] * role_tile(n);
            at.limit[n] = p.extent[n] - at.origin[n];
        }
        return at;
    }
    /// All terms, or all singles (then `held` doubles of shared memory are spared), from layout 1 to the final layout.
    __device__ __forceinline__ void compute(Place& at, bool single, int held) {
#pragma unroll
        for (int n = 0; n < 16; ++n) acc[n][0] = acc[n][1] = 0;
        int begin = single ? p.terms1 + p.terms2 : 0;
        int end = begin + (single ? p.singles1 : p.terms1);
        const int last = begin + (single ? p.singles1 + p.singles2 : p.terms1 + p.terms2);
#pragma unroll 1
        for (int layout = 1;; ++layout) {
            add_terms<S>(acc, shared + held, single ? S::singles_stage() : S::stage_doubles(), single ? 2 : S::stages,
                         p.terms, begin, end, at, warp_at);
            if (layout == 2 || p.swap_layout == 0) break;
            exchange<S>(acc, shared + held, warp_at);
            at.swap();
            begin = end;
            end = last;
        }
    }
    /// Thread-private copies in shared memory: conflict-free, and loops over them need no unrolling.
    __device__ __forceinline__ void stash(double* to) const {
#pragma unroll
        for (int n = 0; n < 16; ++n)
#pragma unroll
            for (int e = 0; e < 2; ++e) to[(2 * n + e) * S::threads + threadIdx.x] = acc[n][e];
    }
    __device__ __forceinline__ void roles(int (&role)[6]) const {
#pragma unroll
        for (int n = 0; n < 6; ++n) role[n] = n;
        if (p.swap_layout != 0) role[1] = 2, role[2] = 1;
    }
    __device__ __forceinline__ void store(const Place& at) const {
        int role[6];
        roles(role);
        double* out = p.out;
        long long step[6];
#pragma unroll
        for (int n = 0; n < 6; ++n) {
            step[n] = p.out_stride[role[n]];
            out += at.origin[n] * step[n];
        }
        out += static_cast<int>(threadIdx.x % 32 / 4) * step[0];
        for_each_element<S>(at, warp_at, [&](int bits, int e, int s, int c0, int c1, int c2, int c3) {
            double* to = out + s * step[1] + c0 * step[2] + c1 * step[3] + c2 * step[4] + c3 * step[5];
            __stcs(to, p.accumulate != 0 ? acc[bits][e] + *to : acc[bits][e]);
        });
    }
};

__device__ __forceinline__ void tile_of(const FusedParams& p, long long number, int (&tile)[6]) {
    // x0 and x1 fastest: neighbours in a wave share the slices of the other indices in L2.
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        tile[n] = static_cast<int>(number % p.tiles[n]);
        number /= p.tiles[n];
    }
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks_per_sm)
    fused_kernel(const __grid_constant__ FusedParams p, bool to_energy) {
    extern __shared__ double shared[];
    TileRun<S> run(p, shared);
    const long long number = p.first_tile + blockIdx.x;
    int tile[6];
    tile_of(p, number, tile);
    // First the terms, then (for an energy) the singles, while the terms wait in shared memory.
    Place at;
#pragma unroll 1
    for (int pass = 0;; ++pass) {
        at = run.place(tile);
        run.compute(at, pass == 1, pass == 1 ? S::elements : 0);
        if (pass == 1 || !to_energy) break;
        run.stash(shared);
    }
    if (!to_energy) {
        run.store(at);
        return;
    }
    int role[6];
    run.roles(role);
    const Denominator d(p, at, run.warp_at, role);
    double sum = 0;
    for_each_element<S>(at, run.warp_at, [&](int bits, int e, int, int, int, int, int) {
        const double w = shared[(2 * bits + e) * S::threads + threadIdx.x];
        sum = fma(w * d.inverse(bits, e), w + run.acc[bits][e], sum);
    });
    sum = block_sum<S>(sum, shared);
    if (threadIdx.x == 0) p.partial[number] = sum;
}

/// Permutations of (a, b, c): itself, the even ones, the odd ones.
__constant__ const int kPermutation[6][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};

/// The virtual tiles of an orbit, t[0] >= t[1] >= t[2].
struct OrbitTiles {
    int t[3];
    __device__ explicit OrbitTiles(long long number) : t{0, 0, 0} {
        for (long long n; number >= (n = static_cast<long long>(t[0] + 1) * (t[0] + 2) / 2); ++t[0]) number -= n;
        while (number > t[1]) number -= ++t[1];
        t[2] = static_cast<int>(number);
    }
    __device__ void member(int m, int (&roles)[3]) const {
        for (int r = 0; r < 3; ++r) roles[r] = t[kPermutation[m][r]];
    }
    /// The first permutation that gives these tiles.
    __device__ int find(const int (&roles)[3]) const {
        for (int m = 0; m < 6; ++m)
            if (t[kPermutation[m][0]] == roles[0] && t[kPermutation[m][1]] == roles[1] &&
                t[kPermutation[m][2]] == roles[2])
                return m;
        return 0;
    }
};

/// Closed shell: roles 0..2 are the virtual indices, whose tiles are cubes. A thread block computes W of every
/// permutation of its virtual tiles into its own scratch, then weights them.
template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks_per_sm) orbit_kernel(const __grid_constant__ FusedParams p) {
    extern __shared__ double shared[];
    TileRun<S> run(p, shared);
    double* scratch = p.scratch + static_cast<long long>(blockIdx.x) * 6 * S::elements;
    int role[6];
    run.roles(role);
    const int lane = threadIdx.x % 32;
    for (long long orbit = blockIdx.x; orbit < p.orbits; orbit += gridDim.x) {
        // Occupied tiles fastest, then the triple of virtual tiles.
        long long rest = orbit;
        int tile[6];
#pragma unroll
        for (int n = 3; n < 6; ++n) {
            tile[n] = static_cast<int>(rest % p.tiles[n]);
            rest /= p.tiles[n];
        }
        const OrbitTiles tiles(rest);
        double sum = 0;
#pragma unroll 1
        for (int pass = 0; pass < 12; ++pass) {  // W of each member, then singles and weights of each member
            const int m = pass % 6;
            int mine[3];
            tiles.member(m, mine);
            if (tiles.find(mine) != m) continue;  // the same tiles as an earlier permutation
            tile[0] = mine[0], tile[1] = mine[1], tile[2] = mine[2];
            Place at = run.place(tile);
            run.compute(at, pass >= 6, 0);
            run.stash(shared);  // read back by the same thread only
            const Denominator d(p, at, run.warp_at, role);
            int source[6];
            for (int q = 0; q < 6 && pass >= 6; ++q) {
                // W[bca] has the tile of b at the place of a: by letter, then back to roles.
                int there[3];
                for (int r = 0; r < 3; ++r)
                    for (int x = 0; x < 3; ++x)
                        if (p.place[x] == kPermutation[q][p.place[r]]) there[r] = mine[x];
                source[q] = tiles.find(there);
            }
#pragma unroll 1
            for (int n = 0; n < 32; ++n) {
                const int bits = n >> 1, e = n & 1;
                int c[6];
                c[0] = lane / 4;
                c[1] = 2 * (lane % 4) + e;
#pragma unroll
                for (int x = 0; x < 4; ++x) c[2 + x] = 2 * run.warp_at[x] + (bits >> x & 1);
                int local[3] = {c[0], c[1], c[2]};
                if (p.swap_layout != 0) local[1] = c[2], local[2] = c[1];
                // [loops 3..1][role 2][role 1][role 0], whatever the layout.
                const int base = ((c[5] * S::tile(2) + c[4]) * S::tile(1) + c[3]) * 512;
                const double value = shared[n * S::threads + threadIdx.x];
                if (pass < 6) {
                    scratch[static_cast<long long>(m) * S::elements + base + local[0] + 8 * local[1] + 64 * local[2]] =
                        value;
                    continue;
                }
                bool ok = true;
#pragma unroll
                for (int x = 0; x < 6; ++x) ok = ok && c[x] < at.limit[x];
                if (!ok) continue;
                int letter[3];
                for (int r = 0; r < 3; ++r) letter[p.place[r]] = local[r];
                double z = 0, own = 0;
                for (int q = 0; q < 6; ++q) {
                    int offset = base;
                    for (int r = 0; r < 3; ++r) offset += letter[kPermutation[q][p.place[r]]] << (3 * r);
                    const double w = scratch[static_cast<long long>(source[q]) * S::elements + offset];
                    if (q == 0) own = w;
                    z += (q == 0 ? 4.0 : q < 3 ? 1.0 : -2.0) * w;
                }
                double sum_of = d.x0 + d.s[e];
#pragma unroll
                for (int x = 0; x < 4; ++x) sum_of += d.loop[x][bits >> x & 1];
                sum = fma(z * reciprocal(sum_of), own + value, sum);
            }
            __syncthreads();  // scratch is complete, and shared memory is free again
        }
        sum = block_sum<S>(sum, shared);
        if (threadIdx.x == 0) p.partial[orbit] = sum;
        __syncthreads();
    }
}

/// Any split of the indices, one element per thread: for terms that no choice of three indices fits.
template <bool Energy>
__global__ void plain_kernel(const __grid_constant__ FusedParams p, long long count) {
    // Here the strides of a term lie in role order, and terms1 counts all terms, singles1 all singles.
    extern __shared__ double shared[];
    double sum = 0;
    for (long long number = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; number < count;
         number += static_cast<long long>(gridDim.x) * blockDim.x) {
        long long rest = number, x[6], at = 0;
        double d = 0;
        for (int n = 0; n < 6; ++n) {
            x[n] = rest % p.extent[n];
            rest /= p.extent[n];
            at += x[n] * p.out_stride[n];
            if (Energy) d += p.sign[n] * p.energies[n][x[n]];
        }
        auto add = [&](int begin, int end, double c) {
            for (int t = begin; t < end; ++t) {
                const DeviceTerm& term = p.terms[t];
                const double *r = term.r, *s = term.s;
                for (int n = 0; n < 6; ++n) r += x[n] * term.r_stride[n], s += x[n] * term.s_stride[n];
                for (int l = 0; l < term.sum; ++l) c = fma(r[l * term.r_sum], term.factor * s[l * term.s_sum], c);
            }
            return c;
        };
        const double w = add(0, p.terms1, 0.0);
        if (!Energy)
            p.out[at] = p.accumulate != 0 ? w + p.out[at] : w;
        else
            sum += w * add(p.terms1, p.terms1 + p.singles1, w) / d;
    }
    if (Energy) {
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (unsigned n = 1; n < blockDim.x; ++n) sum += shared[n];
            p.partial[blockIdx.x] = sum;
        }
    }
}

/// One thread block adds the partial sums in a fixed order.
__global__ void reduce_kernel(const double* partial, long long count, double scale, double* result) {
    __shared__ double shared[256];
    double sum = 0;
    for (long long n = threadIdx.x; n < count; n += 256) sum += partial[n];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int n = 128; n > 0; n /= 2) {
        if (threadIdx.x < n) shared[threadIdx.x] += shared[threadIdx.x + n];
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = scale * shared[0];
}

}  // namespace device
}  // namespace tessera::kernels::cuda
