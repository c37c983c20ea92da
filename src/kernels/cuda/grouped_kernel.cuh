#pragma once
// Device code of the grouped products in double.
//
// A thread block (one warp for small tiles) owns part of a C tile in registers and walks its chain in steps of at most
// Depth summed elements. Steps are numbered through products and work items alike: copies run Stages - 1 steps ahead
// of the matrix instructions, across the ends of products and of items, so the pipeline never drains until the queue is
// empty. Large blocks have a kernel of their own (grouped_large.cuh). Warps take fragments of 16 rows by 8 columns in
// turn, so what an edge leaves out is left out of all of them.

#include "kernels/cuda/grouped_gemm.hpp"

namespace tessera::kernels::cuda::device {

/// Fragments FragmentsM x FragmentsN per warp, WarpsM x WarpsN warps.
template <int WarpsM, int WarpsN, int FragmentsM, int FragmentsN, int Depth, int Stages, int BlocksPerSm>
struct GroupedShape {
    static constexpr int warps_m = WarpsM, warps_n = WarpsN, fragments_m = FragmentsM, fragments_n = FragmentsN;
    static constexpr int depth = Depth, stages = Stages, blocks_per_sm = BlocksPerSm;
    static constexpr int multipliers = 32 * WarpsM * WarpsN;
    static constexpr bool large = multipliers > 128;  // one block per multiprocessor, with threads that only copy
    static constexpr int copiers = large ? 128 : multipliers;  // a warp group: registers are shared out by those
    static constexpr int first_multiplier = large ? copiers : 0, threads = first_multiplier + multipliers;
    static constexpr bool fetch_ahead = !large;  // of products; long ones do without
    static constexpr int side = 16 * WarpsM * FragmentsM;
    static_assert(side == 8 * WarpsN * FragmentsN, "square blocks: both panels are copied alike");
    // Rows of a panel run along the tile or along the sum; either way they fall into different banks.
    static constexpr int wide_pitch = side + 4, deep_pitch = Depth + 4;
    static_assert(wide_pitch % 8 == 4 && deep_pitch % 8 == 4);
    static constexpr int panel = side * deep_pitch > Depth* wide_pitch ? side* deep_pitch : Depth* wide_pitch;
    static constexpr int barrier_bytes = large ? 16 : 0;  // per stage
    static constexpr int shared_bytes = 8 * 2 * panel * Stages + (32 + barrier_bytes) * Stages + 16;
};

/// threadIdx.x, read anew: what hangs on it is cheaper to compute again than to hold in registers.
__device__ __forceinline__ int thread_index() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

template <int Bytes>
__device__ __forceinline__ void copy_async(double* to, const double* from, int bytes) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
/// Sixteen bytes, or nothing: much shorter code than a run-time number of bytes.
__device__ __forceinline__ void copy_async_if(double* to, const double* from, bool wanted) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0;\n"
        "@p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(address),
        "l"(from), "r"(static_cast<int>(wanted))
        : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Groups>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}

/// c += a b over 16 x 8 x 4: one chain of fused multiply-adds per element, as on the host (tests hold this).
__device__ __forceinline__ void multiply(double (&c)[4], double a, double a8, double b) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a), "d"(a8), "d"(b));
#else
    asm volatile(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1},{%4},{%6},{%0,%1};\n"
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%2,%3},{%5},{%6},{%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a), "d"(a8), "d"(b));
#endif
}

/// The same over 16 x 8 x 16: a[2 q] and b[q] belong to the q-th four. One warp alone keeps the matrix unit busy with
/// it.
__device__ __forceinline__ void multiply(double (&c)[4], const double (&a)[8], const double (&b)[4]) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3},{%4,%5,%6,%7,%8,%9,%10,%11},"
        "{%12,%13,%14,%15},{%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
          "d"(b[2]), "d"(b[3]));
#else
    for (int q = 0; q < 4; ++q) multiply(c, a[2 * q], a[2 * q + 1], b[q]);
#endif
}

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

template <class S>
struct Accumulator {
    double c[S::fragments_m][S::fragments_n][4];

    /// This lane's first element of C and what is left of the item from there on.
    struct Place {
        double* c;
        long long ldc;
        int rows, columns;
        bool pairs;  // two neighbours at once
    };
    static __device__ __forceinline__ Place place(const Step& step) {
        const int thread = thread_index() - S::first_multiplier, warp = thread / 32, lane = thread % 32;
        const int row = 16 * (warp / S::warps_n) + lane / 4, column = 8 * (warp % S::warps_n) + 2 * (lane % 4);
        return {step.c + static_cast<long long>(row) * step.ldc + column, step.ldc, step.rows - row,
                step.columns - column, reinterpret_cast<unsigned long long>(step.c) % 16 == 0 && step.ldc % 2 == 0};
    }
    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < S::fragments_m; ++i)
#pragma unroll
            for (int j = 0; j < S::fragments_n; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) c[i][j][e] = 0;
    }
    __device__ __forceinline__ void load(const Place& at) {
#pragma unroll
        for (int i = 0; i < S::fragments_m; ++i)
#pragma unroll
            for (int j = 0; j < S::fragments_n; ++j)
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int r = 16 * S::warps_m * i + 8 * h, q = 8 * S::warps_n * j;
                    double x = 0, y = 0;
                    if (r < at.rows) {
                        const double* from = at.c + r * at.ldc + q;
                        if (q < at.columns) x = from[0];
                        if (q + 1 < at.columns) y = from[1];
                    }
                    c[i][j][2 * h] = x;
                    c[i][j][2 * h + 1] = y;
                }
    }
    __device__ __forceinline__ void store(const Place& at) const {
#pragma unroll
        for (int i = 0; i < S::fragments_m; ++i)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int r = 16 * S::warps_m * i + 8 * h;
                if (r >= at.rows) continue;
                double* to = at.c + r * at.ldc;
#pragma unroll
                for (int j = 0; j < S::fragments_n; ++j) {
                    const int q = 8 * S::warps_n * j;
                    if (at.pairs && q + 1 < at.columns) {
                        *reinterpret_cast<double2*>(to + q) = make_double2(c[i][j][2 * h], c[i][j][2 * h + 1]);
                    } else {
                        if (q < at.columns) to[q] = c[i][j][2 * h];
                        if (q + 1 < at.columns) to[q + 1] = c[i][j][2 * h + 1];
                    }
                }
            }
    }
    /// Adds `depth` fours of the panels to the first m x n fragments. Their numbers are compile-time constants inside:
    /// a matrix instruction under a predicate costs more than the copies of the code.
    template <bool TransposeA, bool TransposeB>
    __device__ __forceinline__ void add(const double* panel_a, const double* panel_b, int depth, int m, int n) {
        const int thread = thread_index() - S::first_multiplier, warp = thread / 32, lane = thread % 32;
        using P = Panels<TransposeA, TransposeB>;
        panel_a += (16 * (warp / S::warps_n) + lane / 4) * P::row_a + lane % 4 * P::k_a;
        panel_b += (8 * (warp % S::warps_n) + lane / 4) * P::column_b + lane % 4 * P::k_b;
        by_rows<P, S::fragments_m>(panel_a, panel_b, depth, m, n);
        if constexpr (S::large) {  // what sixteens leave, on all fragments: those outside are never stored
#pragma unroll 1
            for (int k = depth / 4 * 4; k < depth; ++k)
                four<P, S::fragments_m, S::fragments_n>(panel_a + 4 * k * P::k_a, panel_b + 4 * k * P::k_b);
        }
    }

    /// A large block's step whose panels are there; the caller stores. (The small blocks' kernel has this in line: as a
    /// call it compiles to other code.)
    __device__ __forceinline__ void take(const Step& step, const double* a, int warp, int& m, int& n) {
        const double* b = a + S::panel;
        if (step.flags & kStepFirst) {
            m = ((step.rows + 15) / 16 - warp / S::warps_n + S::warps_m - 1) / S::warps_m;
            n = ((step.columns + 7) / 8 - warp % S::warps_n + S::warps_n - 1) / S::warps_n;
            if (step.flags & kStepResume)
                load(place(step));
            else
                clear();
        }
        switch (step.flags & 3) {
            case 0:
                add<false, false>(a, b, step.depth, m, n);
                break;
            case 1:
                add<true, false>(a, b, step.depth, m, n);
                break;
            case 2:
                add<false, true>(a, b, step.depth, m, n);
                break;
            default:
                add<true, true>(a, b, step.depth, m, n);
                break;
        }
    }

  private:
    template <bool TransposeA, bool TransposeB>
    struct Panels {
        static constexpr int row_a = TransposeA ? 1 : S::deep_pitch, k_a = TransposeA ? S::wide_pitch : 1;
        static constexpr int column_b = TransposeB ? S::deep_pitch : 1, k_b = TransposeB ? 1 : S::wide_pitch;
    };
    template <class P, int M>
    __device__ __forceinline__ void by_rows(const double* a, const double* b, int depth, int m, int n) {
        if (m == M) return by_columns<P, M, S::fragments_n>(a, b, depth, n);
        if constexpr (M > 1) by_rows<P, M - 1>(a, b, depth, m, n);
    }
    template <class P, int M, int N>
    __device__ __forceinline__ void by_columns(const double* a, const double* b, int depth, int n) {
        if (n == N) {
            if constexpr (S::large) {
                if (depth == S::depth / 4) return full<P, M, N>(a, b);
#pragma unroll 1
                for (int k = 0; k + 4 <= depth; k += 4) sixteen<P, M, N>(a + 4 * k * P::k_a, b + 4 * k * P::k_b);
            } else if (depth == S::depth / 4) {
#pragma unroll
                for (int k = 0; k < S::depth / 4; ++k) four<P, M, N>(a + 4 * k * P::k_a, b + 4 * k * P::k_b);
            } else {
#pragma unroll 1
                for (int k = 0; k < depth; ++k) four<P, M, N>(a + 4 * k * P::k_a, b + 4 * k * P::k_b);
            }
            return;
        }
        if constexpr (N > 1) by_columns<P, M, N - 1>(a, b, depth, n);
    }
    /// A whole step. Fragments are read from shared memory one group of matrix instructions before they are needed.
    template <class P, int M, int N>
    __device__ __forceinline__ void full(const double* panel_a, const double* panel_b) {
        constexpr int kSixteens = S::depth / 16;
        double b[N][4], a[2][8];
        const auto read_a = [&](double(&to)[8], int k, int i) {
            const double* p = panel_a + 16 * k * P::k_a + 16 * S::warps_m * i * P::row_a;
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                to[2 * q] = p[4 * q * P::k_a];
                to[2 * q + 1] = p[4 * q * P::k_a + 8 * P::row_a];
            }
        };
        const auto read_b = [&](int k, int j) {
            const double* p = panel_b + 16 * k * P::k_b + 8 * S::warps_n * j * P::column_b;
#pragma unroll
            for (int q = 0; q < 4; ++q) b[j][q] = p[4 * q * P::k_b];
        };
        read_a(a[0], 0, 0);
#pragma unroll
        for (int j = 0; j < N; ++j) read_b(0, j);
#pragma unroll
        for (int k = 0; k < kSixteens; ++k)
#pragma unroll
            for (int i = 0; i < M; ++i) {
                const int next = k * M + i + 1;
                const bool last_use = i == M - 1 && k + 1 < kSixteens;  // of this sixteen's b
#pragma unroll
                for (int j = 0; j < N; ++j) {
                    multiply(c[i][j], a[(next - 1) & 1], b[j]);
                    if (j == 0 && next < kSixteens * M) read_a(a[next & 1], next / M, next % M);
                    if (last_use && j > 0) read_b(k + 1, j - 1);
                }
                if (last_use) read_b(k + 1, N - 1);
            }
    }
    template <class P, int M, int N>
    __device__ __forceinline__ void sixteen(const double* panel_a, const double* panel_b) {
        double b[N][4];
#pragma unroll
        for (int j = 0; j < N; ++j)
#pragma unroll
            for (int q = 0; q < 4; ++q) b[j][q] = panel_b[8 * S::warps_n * j * P::column_b + 4 * q * P::k_b];
#pragma unroll
        for (int i = 0; i < M; ++i) {
            const double* p = panel_a + 16 * S::warps_m * i * P::row_a;
            double a[8];
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                a[2 * q] = p[4 * q * P::k_a];
                a[2 * q + 1] = p[4 * q * P::k_a + 8 * P::row_a];
            }
#pragma unroll
            for (int j = 0; j < N; ++j) multiply(c[i][j], a, b[j]);
        }
    }
    template <class P, int M, int N>
    __device__ __forceinline__ void four(const double* panel_a, const double* panel_b) {
        double b[N];
#pragma unroll
        for (int j = 0; j < N; ++j) b[j] = panel_b[8 * S::warps_n * j * P::column_b];
#pragma unroll
        for (int i = 0; i < M; ++i) {
            const double* p = panel_a + 16 * S::warps_m * i * P::row_a;
            const double a0 = p[0], a8 = p[8 * P::row_a];
#pragma unroll
            for (int j = 0; j < N; ++j) multiply(c[i][j], a0, a8, b[j]);
        }
    }
};

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
    Loader<S> loader;
    loader.tiles = tiles, loader.products = products, loader.items = items;
    loader.item_count = item_count, loader.counter = counter;
    loader.next_item = reinterpret_cast<int*>(steps + S::stages);
    loader.item = static_cast<int>(blockIdx.x), loader.turn = 0, loader.ended = false;
    loader.begin_item();
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
