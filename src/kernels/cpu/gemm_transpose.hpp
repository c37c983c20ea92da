#pragma once
// Register transposes with 256-bit vectors, for the gemm_<isa>.cpp files (hence the unnamed namespace).

#include <immintrin.h>

#include <cstdint>

namespace tessera::kernels::cpu {
namespace {

#if defined(__AVX512VL__)
inline __m256 load_first(const float* p, int n) {
    return _mm256_maskz_loadu_ps(static_cast<__mmask8>((1u << n) - 1), p);
}
inline void store_first(float* p, int n, __m256 x) {
    _mm256_mask_storeu_ps(p, static_cast<__mmask8>((1u << n) - 1), x);
}
#else
inline __m256 load_first(const float* p, int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}
// In pieces: masked stores of AVX2 take twenty times as long as whole ones on some processors.
inline __attribute__((always_inline)) void store_first(float* p, int n, __m256 x) {
    if (n >= 8) return _mm256_storeu_ps(p, x);
    __m128 rest = _mm256_castps256_ps128(x);
    if (n & 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(x, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi(reinterpret_cast<__m64*>(p), rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, rest);
}
inline __m256d load_first(const double* p, int n) {
    const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
    return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lane));
}
inline __attribute__((always_inline)) void store_first(double* p, int n, __m256d x) {
    if (n >= 4) return _mm256_storeu_pd(p, x);
    __m128d rest = _mm256_castpd256_pd128(x);
    if (n & 2) {
        _mm_storeu_pd(p, rest);
        rest = _mm256_extractf128_pd(x, 1);
        p += 2;
    }
    if (n & 1) _mm_store_sd(p, rest);
}
#endif

// Rows become columns.
inline __attribute__((always_inline)) void transpose_registers(__m256 (&r)[8]) {
    __m256 t[8];
    for (int j = 0; j < 8; j += 2) {
        t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);      // columns 0 1 4 5 of rows j, j + 1
        t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);  // columns 2 3 6 7
    }
    for (int h = 0; h < 2; ++h) {
        const __m256 x0 = _mm256_shuffle_ps(t[h], t[h + 2], 0x44);  // columns 2h and 2h + 4 of rows 0-3
        const __m256 x1 = _mm256_shuffle_ps(t[h], t[h + 2], 0xee);  // columns 2h + 1 and 2h + 5
        const __m256 y0 = _mm256_shuffle_ps(t[h + 4], t[h + 6], 0x44);
        const __m256 y1 = _mm256_shuffle_ps(t[h + 4], t[h + 6], 0xee);
        r[2 * h] = _mm256_permute2f128_ps(x0, y0, 0x20);
        r[2 * h + 1] = _mm256_permute2f128_ps(x1, y1, 0x20);
        r[2 * h + 4] = _mm256_permute2f128_ps(x0, y0, 0x31);
        r[2 * h + 5] = _mm256_permute2f128_ps(x1, y1, 0x31);
    }
}
[[maybe_unused]] inline __attribute__((always_inline)) void transpose_registers(__m256d (&r)[4]) {
    const __m256d even01 = _mm256_unpacklo_pd(r[0], r[1]), odd01 = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d even23 = _mm256_unpacklo_pd(r[2], r[3]), odd23 = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(even01, even23, 0x20);
    r[1] = _mm256_permute2f128_pd(odd01, odd23, 0x20);
    r[2] = _mm256_permute2f128_pd(even01, even23, 0x31);
    r[3] = _mm256_permute2f128_pd(odd01, odd23, 0x31);
}

// dst[p * dst_k + j] = src[j * src_j + p] for p < k, j < n, both at most 8.
inline __attribute__((always_inline)) void transpose8(const float* src, std::int64_t src_j, float* dst,
                                                      std::int64_t dst_k, int k, int n) {
    __m256 r[8];
    const bool whole = k == 8 && n == 8;
    for (int j = 0; j < 8; ++j)
        r[j] = whole ? _mm256_loadu_ps(src + j * src_j) : j < n ? load_first(src + j * src_j, k) : _mm256_setzero_ps();
    transpose_registers(r);
    for (int p = 0; p < 8; ++p) {
        if (whole)
            _mm256_storeu_ps(dst + p * dst_k, r[p]);
        else if (p < k)
            store_first(dst + p * dst_k, n, r[p]);
    }
}

#if !defined(__AVX512VL__)
// The same, both at most 4.
inline __attribute__((always_inline)) void transpose4(const double* src, std::int64_t src_j, double* dst,
                                                      std::int64_t dst_k, int k, int n) {
    __m256d r[4];
    const bool whole = k == 4 && n == 4;
    for (int j = 0; j < 4; ++j)
        r[j] = whole ? _mm256_loadu_pd(src + j * src_j) : j < n ? load_first(src + j * src_j, k) : _mm256_setzero_pd();
    transpose_registers(r);
    for (int p = 0; p < 4; ++p) {
        if (whole)
            _mm256_storeu_pd(dst + p * dst_k, r[p]);
        else if (p < k)
            store_first(dst + p * dst_k, n, r[p]);
    }
}
#endif

}  // namespace
}  // namespace tessera::kernels::cpu
