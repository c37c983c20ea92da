#pragma once
// How the panels of A and B come into shared memory, step by step.

#include "device/cuda/grouped_gemm.hpp"
#include "device/cuda/grouped_instructions.cuh"

namespace tessera::kernels::cuda::device {

/// What the matrix instructions must know of a step; lies in shared memory beside its panels.
struct alignas(16) Step {
    double* c;  // the item's first element
    int ldc;
    short rows, columns;
    short depth;  // in fours
    unsigned short flags;
    int unused[3];
};
enum : unsigned short {
    kStepTransposeA = 1,
    kStepTransposeB = 2,
    kStepFirst = 4,
    kStepLast = 8,
    kStepStop = 16,
    kStepResume = 32
};

/// Walks items, products and the sum, and starts the copies of each step.
template <class S>
struct Loader {
    const GroupedTile* tiles;
    const GroupedProduct* products;
    const GroupedItem* items;
    int item_count;
    unsigned* counter;
    int* next_item;  // shared memory: the two latest answers of the queue

    int item, turn;  // item < 0: the queue is empty
    bool ended;      // the item's last step is on its way: the next item comes after a barrier
    int row, column, rows, columns;
    double* c;
    int ldc;
    const GroupedProduct *product, *end;
    ulonglong2 next_head;  // the following product, fetched ahead
    int4 next_tail;
    const double *a, *b;  // this thread's next chunk
    int lda, ldb, k_left;
    unsigned flags, step_flags;
    bool wide_a, wide_b;

    static constexpr int kDeepChunks = S::depth / 2, kDeepRows = S::copiers / kDeepChunks;
    static constexpr int kWideChunks = S::side / 2, kWideRows = S::copiers / kWideChunks;
    static_assert(S::copiers % kDeepChunks == 0 && S::copiers % kWideChunks == 0);
    static constexpr int kUnroll = S::large ? 8 : 16;     // few registers for copying warps; else all passes
    static constexpr int kSlowUnroll = S::large ? 1 : 8;  // ends of sums and odd leading dimensions: keep code short

    /// Thread blocks begin with the items of their own numbers; the queue gives out the others.
    __device__ __forceinline__ Loader(const GroupedTile* all_tiles, const GroupedProduct* all_products,
                                      const GroupedItem* all_items, int count, unsigned* queue, void* answers)
        : tiles(all_tiles),
          products(all_products),
          items(all_items),
          item_count(count),
          counter(queue),
          next_item(static_cast<int*>(answers)),
          item(static_cast<int>(blockIdx.x)),
          turn(0),
          ended(false) {
        begin_item();
    }
    __device__ __forceinline__ void begin_item() {
        if (item >= item_count) item = -1;
        if (item < 0) return;
        const GroupedItem at = items[item];
        const GroupedTile tile = tiles[at.tile];
        row = at.row;
        column = at.column;
        rows = min(tile.m - row, 16 * at.row_pieces);
        columns = min(tile.n - column, 8 * at.column_pieces);
        ldc = tile.ldc;
        c = reinterpret_cast<double*>(tile.c) + static_cast<long long>(row) * ldc + column;
        step_flags = kStepFirst | (tile.resume ? kStepResume : 0);
        product = products + tile.first_product;
        end = product + tile.product_count;
        k_left = 0;
        flags = 0;
        fetch();
        begin_product();
    }
    __device__ __forceinline__ void fetch() {
        if (!S::fetch_ahead || product >= end) return;
        next_head = __ldg(reinterpret_cast<const ulonglong2*>(product));
        next_tail = __ldg(reinterpret_cast<const int4*>(product) + 1);
    }
    __device__ __forceinline__ void begin_product() {
        if (product >= end) return;
        if (!S::fetch_ahead) {
            next_head = __ldg(reinterpret_cast<const ulonglong2*>(product));
            next_tail = __ldg(reinterpret_cast<const int4*>(product) + 1);
        }
        const ulonglong2 head = next_head;
        lda = next_tail.x, ldb = next_tail.y, k_left = next_tail.z, flags = static_cast<unsigned>(next_tail.w);
        ++product;
        fetch();
        wide_a = head.x % 16 == 0 && lda % 2 == 0;
        wide_b = head.y % 16 == 0 && ldb % 2 == 0;
        const int thread = thread_index();
        const int deep_row = thread / kDeepChunks, deep_at = 2 * (thread % kDeepChunks);
        const int wide_row = thread / kWideChunks, wide_at = 2 * (thread % kWideChunks);
        a = reinterpret_cast<const double*>(head.x) + (flags & kTransposeA
                                                           ? static_cast<long long>(wide_row) * lda + row + wide_at
                                                           : static_cast<long long>(row + deep_row) * lda + deep_at);
        b = reinterpret_cast<const double*>(head.y) + (flags & kTransposeB
                                                           ? static_cast<long long>(column + deep_row) * ldb + deep_at
                                                           : static_cast<long long>(wide_row) * ldb + column + wide_at);
    }

    /// A panel whose stored rows run along the sum; past its end there are zeros.
    template <bool Wide>
    static __device__ __forceinline__ void copy_deep(double* to, const double* from, int ld, int left, int k) {
        const int thread = thread_index(), row = thread / kDeepChunks, at = 2 * (thread % kDeepChunks);
        to += row * S::deep_pitch + at;
        const long long next = static_cast<long long>(kDeepRows) * ld;
        if (Wide && k == S::depth) {  // rows past the tile may hold anything: they end in no element of C
#pragma unroll kUnroll
            for (int pass = 0; pass < S::side / kDeepRows; ++pass) {
                copy_async_if(to + pass * kDeepRows * S::deep_pitch, from, row + pass * kDeepRows < left);
                from += next;
            }
            return;
        }
        const int bytes = min(max(8 * (k - at), 0), 16);
#pragma unroll kSlowUnroll
        for (int pass = 0; pass < S::side / kDeepRows; ++pass) {
            if (pass * kDeepRows >= left) break;
            const int here = row + pass * kDeepRows < left ? bytes : 0;
            copy_chunk<Wide>(to + pass * kDeepRows * S::deep_pitch, from, here);
            from += next;
        }
    }
    /// A panel whose stored rows run along the tile; rows past the end of the sum are zeros.
    template <bool Wide>
    static __device__ __forceinline__ void copy_wide(double* to, const double* from, int ld, int left, int k) {
        const int thread = thread_index(), row = thread / kWideChunks, at = 2 * (thread % kWideChunks);
        to += row * S::wide_pitch + at;
        const long long next = static_cast<long long>(kWideRows) * ld;
        if (Wide && k == S::depth) {
#pragma unroll kUnroll
            for (int pass = 0; pass < S::depth / kWideRows; ++pass) {
                copy_async_if(to + pass * kWideRows * S::wide_pitch, from, at < left);
                from += next;
            }
            return;
        }
        const int bytes = min(max(8 * (left - at), 0), 16);
#pragma unroll kSlowUnroll
        for (int pass = 0; pass < S::depth / kWideRows; ++pass) {
            if (pass * kWideRows >= (k + 3) / 4 * 4) break;
            const int here = row + pass * kWideRows < k ? bytes : 0;
            copy_chunk<Wide>(to + pass * kWideRows * S::wide_pitch, from, here);
            from += next;
        }
    }
    template <bool Wide>
    static __device__ __forceinline__ void copy_chunk(double* to, const double* from, int bytes) {
        if constexpr (Wide) {
            copy_async<16>(to, from, bytes);
        } else {
            copy_async<8>(to, from, min(bytes, 8));
            copy_async<8>(to + 1, from + 1, max(bytes - 8, 0));
        }
    }

    /// Starts the copies of the next step and moves on. The caller commits.
    __device__ __forceinline__ void start_step(Step* step, double* panel_a, double* panel_b) {
        if (item < 0) {
            if (threadIdx.x == 0) *step = Step{nullptr, 0, 0, 0, 0, kStepStop, {}};
            return;
        }
        const int k = min(k_left, S::depth);
        if (k > 0) {
            if (flags & kTransposeA) {
                if (wide_a)
                    copy_wide<true>(panel_a, a, lda, rows, k);
                else
                    copy_wide<false>(panel_a, a, lda, rows, k);
                a += static_cast<long long>(S::depth) * lda;
            } else {
                if (wide_a)
                    copy_deep<true>(panel_a, a, lda, rows, k);
                else
                    copy_deep<false>(panel_a, a, lda, rows, k);
                a += S::depth;
            }
            if (flags & kTransposeB) {
                if (wide_b)
                    copy_deep<true>(panel_b, b, ldb, columns, k);
                else
                    copy_deep<false>(panel_b, b, ldb, columns, k);
                b += S::depth;
            } else {
                if (wide_b)
                    copy_wide<true>(panel_b, b, ldb, columns, k);
                else
                    copy_wide<false>(panel_b, b, ldb, columns, k);
                b += static_cast<long long>(S::depth) * ldb;
            }
        }
        step_flags |= flags & (kTransposeA | kTransposeB);
        k_left -= k;
        ended = k_left == 0 && product == end;
        if (threadIdx.x == 0) {
            *step = Step{c,
                         ldc,
                         static_cast<short>(rows),
                         static_cast<short>(columns),
                         static_cast<short>((k + 3) / 4),
                         static_cast<unsigned short>(step_flags | (ended ? kStepLast : 0)),
                         {}};
            // As late as the pipeline allows: who asks early holds work back from others at the end.
            if (ended) next_item[turn] = static_cast<int>(gridDim.x + atomicAdd(counter, 1U));
        }
        step_flags = 0;
        if (k_left == 0) begin_product();
    }
    /// After a barrier behind start_step.
    __device__ __forceinline__ void settle() {
        if (item < 0 || !ended) return;
        ended = false;
        item = next_item[turn];
        turn ^= 1;
        begin_item();
    }
};

}  // namespace tessera::kernels::cuda::device
