#pragma once
// Device code of the grouped products in double.
//
// A thread block (one warp for small tiles) owns part of a C tile in registers and walks its chain in steps of at most
// Depth summed elements. Steps are numbered through products and work items alike: copies run Stages - 1 steps ahead
// of the matrix instructions, across the ends of products and of items, so the pipeline never drains until the queue is
// empty. Large blocks have a kernel of their own (grouped_large.cuh). Warps take fragments of 16 rows by 8 columns in
// turn, so what an edge leaves out is left out of all of them.

#include "device/cuda/grouped_accumulator.cuh"

namespace tessera::kernels::cuda::device {

template <class S>
__device__ __forceinline__ void team_sync() {
    if constexpr (S::threads == 32)
        __syncwarp();
    else
        __syncthreads();
}

template <class S>
__global__ void __launch_bounds__(S::threads, S::blocks_per_sm)
    grouped_kernel(const GroupedTile* tiles, const GroupedProduct* products, const GroupedItem* items, int item_count,
                   unsigned* counter) {
    extern __shared__ __align__(16) double shared[];
    auto* steps = reinterpret_cast<Step*>(shared + 2 * S::panel * S::stages);
    Loader<S> loader(tiles, products, items, item_count, counter, steps + S::stages);
    const auto start = [&](int stage) {
        double* panels = shared + 2 * S::panel * stage;
        loader.start_step(steps + stage, panels, panels + S::panel);
        copy_commit();
    };
#pragma unroll 1
    for (int stage = 0; stage + 1 < S::stages; ++stage) {
        start(stage);
        team_sync<S>();
        loader.settle();
    }

    const int warp = threadIdx.x / 32;
    Accumulator<S> sum;
    int m = 0, n = 0;
#pragma unroll 1
    for (int stage = 0;;) {
        copy_wait<S::stages - 2>();
        team_sync<S>();
        const Step step = steps[stage];
        if (step.flags & kStepStop) break;
        loader.settle();
        start(stage == 0 ? S::stages - 1 : stage - 1);
        if (step.flags & kStepFirst) {
            m = ((step.rows + 15) / 16 - warp / S::warps_n + S::warps_m - 1) / S::warps_m;
            n = ((step.columns + 7) / 8 - warp % S::warps_n + S::warps_n - 1) / S::warps_n;
            if (step.flags & kStepResume)
                sum.load(Accumulator<S>::place(step));
            else
                sum.clear();
        }
        const double* a = shared + 2 * S::panel * stage;
        const double* b = a + S::panel;
        switch (step.flags & 3) {
            case 0:
                sum.template add<false, false>(a, b, step.depth, m, n);
                break;
            case 1:
                sum.template add<true, false>(a, b, step.depth, m, n);
                break;
            case 2:
                sum.template add<false, true>(a, b, step.depth, m, n);
                break;
            default:
                sum.template add<true, true>(a, b, step.depth, m, n);
                break;
        }
        if (step.flags & kStepLast) sum.store(Accumulator<S>::place(step));
        stage = stage + 1 == S::stages ? 0 : stage + 1;
    }
    copy_wait<0>();
}

}  // namespace tessera::kernels::cuda::device
