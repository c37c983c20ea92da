#pragma once
// The kernel of large blocks in double: some warps only copy, the others only multiply. They meet at two barriers per
// stage in shared memory, so no warp waits for the slowest of a block at every step.
//
// Three warps share a scheduler's registers, 168 each; those that copy give theirs to those that multiply, where the
// code is made for the Hopper chips alone (sm_90a). Elsewhere the kernel is right but spills.

#include "device/cuda/grouped_accumulator.cuh"

namespace tessera::kernels::cuda::device {

using Barrier = unsigned long long;  // in shared memory

__device__ __forceinline__ unsigned shared_address(const void* at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
__device__ __forceinline__ void barrier_init(Barrier* at, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(at)), "r"(arrivals) : "memory");
}
// compute-sanitizer's racecheck does not follow __syncwarp to the one lane that arrives for its warp.
#ifdef TESSERA_RACECHECK
constexpr unsigned kLanesAnArrival = 1;
#else
constexpr unsigned kLanesAnArrival = 32;
#endif

__device__ __forceinline__ void barrier_arrive(Barrier* at) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(at)) : "memory");
}
/// Arrives when the copies this thread has started are there.
__device__ __forceinline__ void barrier_arrive_after_copies(Barrier* at) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(at)) : "memory");
}
__device__ __forceinline__ void barrier_wait(Barrier* at, unsigned parity) {
    asm volatile(
        "{ .reg .pred done;\n"
#if __CUDA_ARCH__ >= 900
        "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
#else
        "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
#endif
        "@!done bra again; }" ::"r"(shared_address(at)),
        "r"(parity)
        : "memory");
}

// 128 x 40 + 256 x 232 of 65536 registers.
__device__ __forceinline__ void give_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
}
__device__ __forceinline__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#endif
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks_per_sm)
    grouped_large_kernel(const GroupedTile* tiles, const GroupedProduct* products, const GroupedItem* items,
                         int item_count, unsigned* counter) {
    extern __shared__ __align__(16) double shared[];
    auto* steps = reinterpret_cast<Step*>(shared + 2 * S::panel * S::stages);
    auto* filled = reinterpret_cast<Barrier*>(steps + S::stages);
    Barrier* emptied = filled + S::stages;
    if (threadIdx.x == 0)
        for (int stage = 0; stage < S::stages; ++stage) {
            barrier_init(filled + stage, S::copiers + 1);  // one more behind the step itself
            barrier_init(emptied + stage, S::multipliers / kLanesAnArrival);
        }
    __syncthreads();

    int stage = 0;
    unsigned parity = 0;
    const auto advance = [&] {
        if (++stage == S::stages) stage = 0, parity ^= 1;
    };
    if (threadIdx.x < S::copiers) {
        give_registers();
        Loader<S> loader(tiles, products, items, item_count, counter, emptied + S::stages);
#pragma unroll 1
        for (;; advance()) {
            barrier_wait(emptied + stage, parity ^ 1);
            if (loader.ended) asm volatile("bar.sync 1, %0;" ::"n"(S::copiers) : "memory");
            loader.settle();
            double* panels = shared + 2 * S::panel * stage;
            const bool stop = loader.item < 0;
            loader.start_step(steps + stage, panels, panels + S::panel);
            barrier_arrive_after_copies(filled + stage);
            if (threadIdx.x == 0) barrier_arrive(filled + stage);
            if (stop) break;
        }
        copy_commit();
        copy_wait<0>();
        return;
    }
    take_registers();
    const int warp = (static_cast<int>(threadIdx.x) - S::first_multiplier) / 32;
    Accumulator<S> sum;
    int m = 0, n = 0;
#pragma unroll 1
    for (;; advance()) {
        barrier_wait(filled + stage, parity);
        const Step step = steps[stage];
        if (step.flags & kStepStop) break;
        sum.take(step, shared + 2 * S::panel * stage, warp, m, n);
        __syncwarp();
        if (threadIdx.x % kLanesAnArrival == 0) barrier_arrive(emptied + stage);
        if (step.flags & kStepLast) sum.store(Accumulator<S>::place(step));
    }
}

}  // namespace tessera::kernels::cuda::device
