#pragma once
// Device code of the grouped products in float and complex: no matrix instructions of full precision, so plain fused
// multiply-adds, in the order of kernels/gemm.hpp. 64 x 64 elements of C per thread block, 4 x 4 per thread.

#include <cuda_runtime.h>

#include "device/cuda/grouped_gemm.hpp"

namespace tessera::kernels::cuda::device {

constexpr int kPlainSide = 64, kPlainDepth = 8, kPlainThreads2 = 256;

struct Complex64 {
    float re, im;
};
struct Complex128 {
    double re, im;
};

__device__ __forceinline__ void add_product(float a, float b, float& c) { c = __fmaf_rn(a, b, c); }
__device__ __forceinline__ void add_product(double a, double b, double& c) { c = __fma_rn(a, b, c); }
template <class Z>
__device__ __forceinline__ void add_product(const Z& a, const Z& b, Z& c) {
    add_product(a.re, b.re, c.re);
    add_product(-a.im, b.im, c.re);
    add_product(a.re, b.im, c.im);
    add_product(a.im, b.re, c.im);
}
__device__ __forceinline__ float conjugate(float x) { return x; }
__device__ __forceinline__ double conjugate(double x) { return x; }
template <class Z>
__device__ __forceinline__ Z conjugate(Z z) {
    z.im = -z.im;
    return z;
}

/// Two elements of a panel per thread, of kPlainDepth summed by kPlainSide elements.
template <class T>
struct PlainPanel {
    T value[2];

    /// Element (x, k) of the matrix lies at x * step_x + k * step_k.
    __device__ __forceinline__ void load(const T* from, long long step_x, long long step_k, int x_left, int k_left,
                                         bool along_x, bool conj) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const auto [x, k] = where(p, along_x);
            T v{};
            if (x < x_left && k < k_left) v = from[x * step_x + k * step_k];
            value[p] = conj ? conjugate(v) : v;
        }
    }
    __device__ __forceinline__ void put(T (&to)[kPlainDepth][kPlainSide + 1], bool along_x) const {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            const auto [x, k] = where(p, along_x);
            to[k][x] = value[p];
        }
    }

  private:
    struct At {
        int x, k;
    };
    /// Neighbouring threads read neighbours in memory.
    static __device__ __forceinline__ At where(int p, bool along_x) {
        const int e = static_cast<int>(threadIdx.x) + p * kPlainThreads2;
        if (along_x) return {e % kPlainSide, e / kPlainSide};
        return {e / kPlainDepth, e % kPlainDepth};
    }
};

template <class T>
__global__ void __launch_bounds__(kPlainThreads2, sizeof(T) == 16 ? 1 : 2)
    plain_grouped_kernel(const GroupedTile* tiles, const GroupedProduct* products, const GroupedItem* items,
                         int item_count, unsigned* counter) {
    __shared__ T a[2][kPlainDepth][kPlainSide + 1], b[2][kPlainDepth][kPlainSide + 1];
    __shared__ int next;
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (int item = static_cast<int>(blockIdx.x); item < item_count;) {
        const GroupedItem at = items[item];
        const GroupedTile tile = tiles[at.tile];
        const int rows = min(tile.m - at.row, 16 * at.row_pieces),
                  columns = min(tile.n - at.column, 8 * at.column_pieces);
        T* c = reinterpret_cast<T*>(tile.c) + static_cast<long long>(at.row) * tile.ldc + at.column;
        T sum[4][4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int r = ty + 16 * i, q = tx + 16 * j;
                sum[i][j] = tile.resume && r < rows && q < columns ? c[static_cast<long long>(r) * tile.ldc + q] : T{};
            }
        int buffer = 0;
        for (int p = 0; p < tile.product_count; ++p) {
            const GroupedProduct product = products[tile.first_product + p];
            const bool ta = product.flags & kTransposeA, tb = product.flags & kTransposeB;
            const long long ax = ta ? 1 : product.lda, ak = ta ? product.lda : 1;
            const long long bx = tb ? product.ldb : 1, bk = tb ? 1 : product.ldb;
            const T* from_a = reinterpret_cast<const T*>(product.a) + at.row * ax;
            const T* from_b = reinterpret_cast<const T*>(product.b) + at.column * bx;
            PlainPanel<T> panel_a, panel_b;
            const auto load = [&](int k0) {
                panel_a.load(from_a + k0 * ak, ax, ak, rows, product.k - k0, ta, product.flags & kConjugateA);
                panel_b.load(from_b + k0 * bk, bx, bk, columns, product.k - k0, !tb, product.flags & kConjugateB);
            };
            load(0);
            for (int k0 = 0; k0 < product.k; k0 += kPlainDepth) {
                panel_a.put(a[buffer], ta);
                panel_b.put(b[buffer], !tb);
                __syncthreads();
                if (k0 + kPlainDepth < product.k) load(k0 + kPlainDepth);
                const int depth = min(product.k - k0, kPlainDepth);
                for (int k = 0; k < depth; ++k) {
                    T x[4], y[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) x[i] = a[buffer][k][ty + 16 * i];
#pragma unroll
                    for (int j = 0; j < 4; ++j) y[j] = b[buffer][k][tx + 16 * j];
#pragma unroll
                    for (int i = 0; i < 4; ++i)
#pragma unroll
                        for (int j = 0; j < 4; ++j) add_product(x[i], y[j], sum[i][j]);
                }
                buffer ^= 1;  // one barrier per round: who is a round ahead writes the other buffer
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int r = ty + 16 * i, q = tx + 16 * j;
                if (r < rows && q < columns) c[static_cast<long long>(r) * tile.ldc + q] = sum[i][j];
            }
        if (threadIdx.x == 0) next = static_cast<int>(gridDim.x + atomicAdd(counter, 1U));
        __syncthreads();
        item = next;
        __syncthreads();
    }
}

}  // namespace tessera::kernels::cuda::device
