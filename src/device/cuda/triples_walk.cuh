#pragma once
// The eighteen terms of the triples and their like: nine splits of three occupied and three virtual indices, known
// when this is compiled, so that the accumulators change their order six times per tile and not around each group.
// Thread blocks walk over tiles: the operands of the next one arrive while this one is finished, and what a tile needs
// beyond its terms (orbital energies, disconnected terms) while its terms are added. fused_kernel and orbit_kernel do
// the rest.

#include "device/cuda/triples_walk_energy.cuh"

namespace tessera::kernels::cuda::device {

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
                if (p.rows != nullptr) sum *= p.rows[member.row].weight[threadIdx.x % 32 / 16];
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
        if (threadIdx.x == 0) *p.result = p.scale * sum;
    }
#endif
}

}  // namespace tessera::kernels::cuda::device
