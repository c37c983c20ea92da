#pragma once
// The part of a C tile that a thread block holds in registers, and the matrix instructions that add to it.

#include "device/cuda/grouped_loader.cuh"

namespace tessera::kernels::cuda::device {

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

}  // namespace tessera::kernels::cuda::device
