// The register kernels of the tile product for AVX-512: 8 rows by 3 vectors (24 sums), up to 14 rows when narrower.

#include "kernels/cpu/gemm_table.hpp"

#if defined(__AVX512F__)

// g++ 12 warns of its own intrinsics, which leave the unused operand of an unmasked instruction unset.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#include "kernels/cpu/gemm_micro.hpp"
#include "kernels/cpu/gemm_transpose.hpp"

namespace tessera::kernels::cpu {
namespace {

struct Prefetch512 {
    static void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
    static void prefetch_near(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
    static void prefetch_write(const void* p) { __builtin_prefetch(p, 1, 3); }
    static constexpr int rows1 = 14, rows2 = 14, rows3 = 8;
};

struct Double8 : Prefetch512 {
    using Real = double;
    using Reg = __m512d;
    using Mask = __mmask8;
    static constexpr int lanes = 8, across = 8;
    static Mask mask(int n) { return static_cast<Mask>((1u << n) - 1); }
    static Reg zero() { return _mm512_setzero_pd(); }
    static Reg load(const double* p) { return _mm512_loadu_pd(p); }
    static Reg load_mask(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
    static void store(double* p, Reg x) { _mm512_storeu_pd(p, x); }
    static void store_mask(double* p, Mask m, Reg x) { _mm512_mask_storeu_pd(p, m, x); }
    static Reg spread(const double* p) { return _mm512_set1_pd(*p); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
    static bool any_nan(Reg x) { return _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q) != 0; }
    static Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
    static Reg alternate(double x, double y) { return _mm512_setr_pd(x, y, x, y, x, y, x, y); }
    static Reg swap_pairs(Reg x) { return _mm512_permute_pd(x, 0x55); }
    static void unzip(Reg x, Reg y, Reg& even, Reg& odd) {
        even = _mm512_permutex2var_pd(x, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), y);
        odd = _mm512_permutex2var_pd(x, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), y);
    }
    using Dots = Double8;
    // dst[p * dst_k + j] = src[j * src_j + p], p and j below 8.
    static void pack_across(const double* src, std::int64_t src_j, double* dst, std::int64_t dst_k) {
        Reg r[8];
        for (int j = 0; j < 8; ++j) r[j] = load(src + j * src_j);
        transpose(r);
        for (int p = 0; p < 8; ++p) store(dst + p * dst_k, r[p]);
    }
    static void pack_corner(const double* src, std::int64_t src_j, double* dst, std::int64_t dst_k, int k, int n) {
        // Without branches, so that the rows stay in registers.
        const Mask some = mask(k);
        Reg r[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) r[j] = load_mask(src + (j < n ? j : 0) * src_j, j < n ? some : Mask{0});
        transpose(r);
#pragma GCC unroll 8
        for (int p = 0; p < 8; ++p)
            if (p < k) store_mask(dst + p * dst_k, mask(n), r[p]);
    }
    static void transpose(Reg (&r)[8]) {
        Reg t[8];
        for (int j = 0; j < 8; j += 2) {
            t[j] = _mm512_unpacklo_pd(r[j], r[j + 1]);      // columns 0 2 4 6 of rows j, j + 1
            t[j + 1] = _mm512_unpackhi_pd(r[j], r[j + 1]);  // columns 1 3 5 7
        }
        for (int odd = 0; odd < 2; ++odd) {
            const Reg x0 = _mm512_shuffle_f64x2(t[odd], t[2 + odd], 0x44);      // columns 0 2 of rows 0-3
            const Reg x1 = _mm512_shuffle_f64x2(t[odd], t[2 + odd], 0xee);      // columns 4 6 of rows 0-3
            const Reg y0 = _mm512_shuffle_f64x2(t[4 + odd], t[6 + odd], 0x44);  // of rows 4-7
            const Reg y1 = _mm512_shuffle_f64x2(t[4 + odd], t[6 + odd], 0xee);
            r[0 + odd] = _mm512_shuffle_f64x2(x0, y0, 0x88);
            r[2 + odd] = _mm512_shuffle_f64x2(x0, y0, 0xdd);
            r[4 + odd] = _mm512_shuffle_f64x2(x1, y1, 0x88);
            r[6 + odd] = _mm512_shuffle_f64x2(x1, y1, 0xdd);
        }
    }
};

struct Float16 : Prefetch512 {
    using Real = float;
    using Reg = __m512;
    using Mask = __mmask16;
    static constexpr int lanes = 16, across = 8;
    static Mask mask(int n) { return static_cast<Mask>((1u << n) - 1); }
    static Reg zero() { return _mm512_setzero_ps(); }
    static Reg load(const float* p) { return _mm512_loadu_ps(p); }
    static Reg load_mask(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
    static void store(float* p, Reg x) { _mm512_storeu_ps(p, x); }
    static void store_mask(float* p, Mask m, Reg x) { _mm512_mask_storeu_ps(p, m, x); }
    static Reg spread(const float* p) { return _mm512_set1_ps(*p); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
    static bool any_nan(Reg x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0; }
    static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
    static Reg alternate(float x, float y) { return _mm512_setr_ps(x, y, x, y, x, y, x, y, x, y, x, y, x, y, x, y); }
    static Reg swap_pairs(Reg x) { return _mm512_permute_ps(x, 0xb1); }
    static void unzip(Reg x, Reg y, Reg& even, Reg& odd) {
        const __m512i index = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        even = _mm512_permutex2var_ps(x, index, y);
        odd = _mm512_permutex2var_ps(x, _mm512_add_epi32(index, _mm512_set1_epi32(1)), y);
    }
    // Sums of single elements: as many as there are, not as a vector has room for.
    struct Dots {
        using Reg = __m256;
        static constexpr int lanes = 8;
        static Reg load(const float* p) { return _mm256_loadu_ps(p); }
        static void store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
        static Reg spread(const float* p) { return _mm256_broadcast_ss(p); }
        static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
        static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
        static void transpose(Reg (&r)[8]) { transpose_registers(r); }
    };
    static void pack_across(const float* src, std::int64_t src_j, float* dst, std::int64_t dst_k) {
        transpose8(src, src_j, dst, dst_k, 8, 8);
    }
    static void pack_corner(const float* src, std::int64_t src_j, float* dst, std::int64_t dst_k, int k, int n) {
        transpose8(src, src_j, dst, dst_k, k, n);
    }
};

}  // namespace

const KernelTable<float>& avx512_table(float) {
    static const KernelTable<float> table = make_table<Float16>();
    return table;
}

const KernelTable<double>& avx512_table(double) {
    static const KernelTable<double> table = make_table<Double8>();
    return table;
}

}  // namespace tessera::kernels::cpu

#else  // another processor family: never chosen, but linked

namespace tessera::kernels::cpu {
const KernelTable<float>& avx512_table(float) { return scalar_table(0.0F); }
const KernelTable<double>& avx512_table(double) { return scalar_table(0.0); }
}  // namespace tessera::kernels::cpu

#endif
