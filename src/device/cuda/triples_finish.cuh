#pragma once
// What becomes of a finished tile: stored, or weighted and reduced to an energy.

#include "device/cuda/triples_tile.cuh"

namespace tessera::kernels::cuda::device {

/// 1 / d to about an ulp: the hardware's estimate (20 bits), then a cubic step.
__device__ __forceinline__ double reciprocal(double d) {
    double x;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(x) : "d"(d));
    const double e = fma(-d, x, 1.0);
    return fma(x, fma(e, e, e), x);
}

/// Thread 0's result counts.
__device__ __forceinline__ double block_sum(double value, double* shared) {
#pragma unroll
    for (int n = 16; n > 0; n /= 2) value += __shfl_down_sync(0xffffffffU, value, n);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0)
        for (int w = 0; w < kFusedWarps; ++w) sum += shared[w];
    return sum;
}

/// Orbital energies of a tile by role, signed; past the end 0, or large where thread blocks walk.
using TileEnergies = double[6][kRoleTile0];
__device__ __forceinline__ void fetch_energies(TileEnergies& list, const FusedParams& p, const int (&tile)[6]) {
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        const int c = threadIdx.x - n * kRoleTile0, at = tile[n] * role_tile(n) + c;
        if (c >= 0 && c < role_tile(n)) list[n][c] = at < p.extent[n] ? p.sign[n] * p.energies[n][at] : 0.0;
    }
}

/// Those of a thread's coordinates, summed in two parts, so that an element costs one addition.
struct Denominator {
    double slow[8], fast[4];
    __device__ __forceinline__ Denominator(const TileEnergies& list, const Place& at) {
        const double lanes = list[0][at.lane_at[0]] + list[at.role[1]][at.lane_at[1]];
#pragma unroll
        for (int n = 0; n < 8; ++n) slow[n] = lanes + list[at.role[2]][n / 2] + list[3][at.first[1] + n % 2];
#pragma unroll
        for (int n = 0; n < 4; ++n) fast[n] = list[4][at.first[2] + n / 2] + list[5][at.first[3] + n % 2];
    }
    __device__ __forceinline__ double inverse(int n) const { return reciprocal(slow[n / 4] + fast[n % 4]); }
};

__device__ __forceinline__ void store_tile(const FusedParams& p, const Tile& tile, const Place& at) {
    if (!at.lane_inside()) return;
    long long step[6];
    double* out = p.out;
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        step[n] = p.out_stride[at.role[n]];
        out += at.origin[n] * step[n];
    }
    out += at.lane_at[0] * step[0] + at.lane_at[1] * step[1];
#pragma unroll
    for (int n = 0; n < 32; ++n) {
        if (!at.inside(n)) continue;
        double* to = out;
#pragma unroll
        for (int w = 0; w < 4; ++w) to += at.loop(w, n) * step[2 + w];
        store_streaming(to, p.accumulate != 0 ? tile.acc[n] + *to : tile.acc[n]);
    }
}

/// Sum of W V / D over what this thread holds; V = W + singles.
__device__ __forceinline__ double tile_energy(const FusedParams& p, Tile& tile, const int (&number)[6], const Place& at,
                                              double* shared, DirectBases& bases, const TileEnergies& energies) {
    // W waits in shared memory, each thread's own, while the singles are added to the accumulators.
#pragma unroll
    for (int n = 0; n < 32; ++n) shared[n * kFusedThreads + threadIdx.x] = tile.acc[n];
    add_directs(tile.acc, bases, p.direct + p.direct_terms, p.direct_singles, number, tile.half);
    const Denominator d(energies, at);
    double sum = 0;
    if (!at.lane_inside()) return sum;
#pragma unroll
    for (int n = 0; n < 32; ++n)
        if (at.inside(n)) sum = fma(shared[n * kFusedThreads + threadIdx.x] * d.inverse(n), tile.acc[n], sum);
    return sum;
}

__device__ __forceinline__ void tile_of(const FusedParams& p, long long number, int (&tile)[6]) {
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        tile[n] = static_cast<int>(number % p.tiles[n]);
        number /= p.tiles[n];
    }
}

/// One tile per thread block, terms of any kind.
template <bool Energy>
__global__ void __launch_bounds__(kFusedThreads, kFusedBlocksPerSm)
    fused_kernel(const __grid_constant__ FusedParams p) {
    extern __shared__ double shared[];
    const long long number = p.first_tile + blockIdx.x;
    int tile[6];
    tile_of(p, number, tile);
    __shared__ DirectBases bases;
    __shared__ TileEnergies energies;
    if constexpr (Energy) fetch_energies(energies, p, tile);
    Tile run;
    run.compute(p, tile, shared);
    const Place at(p, tile, run.half);
    add_directs(run.acc, bases, p.direct, p.direct_terms, tile, run.half);
    if constexpr (Energy) {
        const double sum = block_sum(tile_energy(p, run, tile, at, shared, bases, energies), shared);
        if (threadIdx.x == 0) p.partial[number] = sum;
    } else {
        store_tile(p, run, at);
    }
}

/// Permutations of (a, b, c): itself, the even ones, the odd ones. Two bits a letter.
__host__ __device__ constexpr int permuted(int q, int letter) {
    return (q == 0 ? 0x24 : q == 1 ? 0x09 : q == 2 ? 0x12 : q == 3 ? 0x06 : q == 4 ? 0x18 : 0x21) >> 2 * letter & 3;
}
template <int N>
__device__ __forceinline__ int pick(const int (&list)[N], int n) {
    int x = list[0];
#pragma unroll
    for (int m = 1; m < N; ++m) x = n == m ? list[m] : x;
    return x;
}
__host__ __device__ constexpr double closed_shell_weight(int q) { return q == 0 ? 4.0 : q < 3 ? 1.0 : -2.0; }

/// The virtual tiles of an orbit, t[0] >= t[1] >= t[2]; its members give them to a, b and c in some order.
struct OrbitTiles {
    int t[3];
    __device__ explicit OrbitTiles(long long number) : t{0, 0, 0} {
        for (long long n; number >= (n = static_cast<long long>(t[0] + 1) * (t[0] + 2) / 2); ++t[0]) number -= n;
        while (number > t[1]) number -= ++t[1];
        t[2] = static_cast<int>(number);
    }
    __device__ __forceinline__ int of(int member, int letter) const { return pick(t, permuted(member, letter)); }
    /// The first member with the tiles of `member` after permutation q.
    __device__ int find(int member, int q) const {
        int found = 0;
#pragma unroll
        for (int m = 5; m >= 0; --m) {
            bool same = true;
#pragma unroll
            for (int letter = 0; letter < 3; ++letter) same = same && of(m, letter) == of(member, permuted(q, letter));
            if (same) found = m;
        }
        return found;
    }
};

/// Accumulator n with the coordinates of a, b, c permuted. Roles 3, 4, 5 (loops 1, 2, 3) are c, b, a.
__host__ __device__ constexpr int permuted_accumulator(int q, int n) {
    int to = n / 8 * 8;
    for (int letter = 0; letter < 3; ++letter) to += n / weight(3 - permuted(q, letter)) % 2 * weight(3 - letter);
    return to;
}

template <int Q = 0>
__device__ __forceinline__ void add_weighted(double (&z)[32], const double* scratch, const int* source,
                                             const int (&half)[4]) {
    int warp = 0;
#pragma unroll
    for (int letter = 0; letter < 3; ++letter) warp += half[3 - permuted(Q, letter)] << (2 - letter);
    const double* from = scratch + source[Q] * kTileElements + 32 * warp + threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 32; ++n) {
        const double w = from[permuted_accumulator(Q, n) * kFusedThreads];
        z[n] = Q == 0 ? closed_shell_weight(Q) * w : fma(closed_shell_weight(Q), w, z[n]);
    }
    if constexpr (Q < 5) add_weighted<Q + 1>(z, scratch, source, half);
}

/// Closed shell: the tiles of a, b and c are cubes. A thread block computes W of every member of an orbit into its own
/// scratch, in accumulator order: a permutation of a, b and c only changes the accumulator and the warp, so all reads
/// are of neighbours too. Then it weights them.
__global__ void __launch_bounds__(kFusedThreads, kFusedBlocksPerSm)
    orbit_kernel(const __grid_constant__ FusedParams p) {
    extern __shared__ double shared[];
    __shared__ DirectBases bases;
    __shared__ TileEnergies energies;
    __shared__ int source[6][6];  // by member and permutation: the member that holds W
    double* scratch = p.scratch + static_cast<long long>(blockIdx.x) * 6 * kTileElements;
    Tile run;
    for (long long orbit = blockIdx.x; orbit < p.orbits; orbit += gridDim.x) {
        // Occupied tiles fastest, then the triple of virtual tiles.
        long long rest = orbit;
        int tile[6];
        unsigned row = 0;
        if (p.rows != nullptr) {
            row = static_cast<unsigned>(orbit) / p.orbits_of_row;
            rest = orbit - static_cast<long long>(row) * p.orbits_of_row;
#pragma unroll
            for (int n = 0; n < 3; ++n) tile[n] = p.rows[row].tile[n];
        } else {
#pragma unroll
            for (int n = 0; n < 3; ++n) {
                tile[n] = static_cast<int>(rest % p.tiles[n]);
                rest /= p.tiles[n];
            }
        }
        const OrbitTiles tiles(rest);
        if (threadIdx.x < 36) source[threadIdx.x / 6][threadIdx.x % 6] = tiles.find(threadIdx.x / 6, threadIdx.x % 6);
        __syncthreads();
        double sum = 0;
#pragma unroll 1
        for (int m = 0; m < 6; ++m) {
            if (source[m][0] != m) continue;  // the same tiles as an earlier member
#pragma unroll
            for (int letter = 0; letter < 3; ++letter) tile[5 - letter] = tiles.of(m, letter);
            run.compute(p, tile, shared);
            const Place at(p, tile, run.half);
            add_directs(run.acc, bases, p.direct, p.direct_terms, tile, run.half);
#pragma unroll
            for (int n = 0; n < 32; ++n) scratch[m * kTileElements + n * kFusedThreads + threadIdx.x] = run.acc[n];
        }
        __syncthreads();  // scratch is complete
#pragma unroll 1
        for (int m = 0; m < 6; ++m) {
            if (source[m][0] != m) continue;
#pragma unroll
            for (int letter = 0; letter < 3; ++letter) tile[5 - letter] = tiles.of(m, letter);
            const Place at(p, tile, run.half);
#pragma unroll
            for (int n = 0; n < 32; ++n) run.acc[n] = scratch[m * kTileElements + n * kFusedThreads + threadIdx.x];
            add_directs(run.acc, bases, p.direct + p.direct_terms, p.direct_singles, tile, run.half);
            // V to shared memory, each thread's own: the weighted sum needs the registers.
#pragma unroll
            for (int n = 0; n < 32; ++n) shared[n * kFusedThreads + threadIdx.x] = run.acc[n];
            add_weighted(run.acc, scratch, source[m], run.half);
            __syncthreads();  // the last member is done with its energies
            fetch_energies(energies, p, tile);
            __syncthreads();
            const Denominator d(energies, at);
            if (!at.lane_inside()) continue;
#pragma unroll
            for (int n = 0; n < 32; ++n)
                if (at.inside(n)) sum = fma(run.acc[n] * d.inverse(n), shared[n * kFusedThreads + threadIdx.x], sum);
        }
        if (p.rows != nullptr) sum *= p.rows[row].weight[threadIdx.x % 32 / 16];
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) p.partial[orbit] = sum;
        __syncthreads();  // scratch and shared memory are free again
    }
}

/// One thread block adds the partial sums in a fixed order.
__global__ void reduce_kernel(const double* partial, long long count, double scale, double* result) {
    __shared__ double shared[1024];
    double sum = 0;
    for (long long n = threadIdx.x; n < count; n += 1024) sum += partial[n];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int n = 512; n > 0; n /= 2) {
        if (threadIdx.x < static_cast<unsigned>(n)) shared[threadIdx.x] += shared[threadIdx.x + n];
        __syncthreads();
    }
    if (threadIdx.x == 0) *result = scale * shared[0];
}

}  // namespace tessera::kernels::cuda::device
