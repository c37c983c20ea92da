#pragma once
// Register transposes with 256-bit vectors, for the gemm_<isa>.cpp files (hence the unnamed namespace).

#include <immintrin.h>

#include <cstdint>

namespace tessera::kernels::cpu {
namespace {

// dst[p * dst_k + j] = src[j * src_j + p], p and j below 8.
inline void transpose8(const float* src, std::int64_t src_j, float* dst, std::int64_t dst_k) {
    __m256 r[8], t[8];
    for (int j = 0; j < 8; ++j) r[j] = _mm256_loadu_ps(src + j * src_j);
    for (int j = 0; j < 8; j += 2) {
        t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);      // columns 0 1 4 5 of rows j, j + 1
        t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);  // columns 2 3 6 7
    }
    for (int h = 0; h < 2; ++h) {
        const __m256 x0 = _mm256_shuffle_ps(t[h], t[h + 2], 0x44);  // columns 2h and 2h + 4 of rows 0-3
        const __m256 x1 = _mm256_shuffle_ps(t[h], t[h + 2], 0xee);  // columns 2h + 1 and 2h + 5
        const __m256 y0 = _mm256_shuffle_ps(t[h + 4], t[h + 6], 0x44);
        const __m256 y1 = _mm256_shuffle_ps(t[h + 4], t[h + 6], 0xee);
        _mm256_storeu_ps(dst + (2 * h) * dst_k, _mm256_permute2f128_ps(x0, y0, 0x20));
        _mm256_storeu_ps(dst + (2 * h + 1) * dst_k, _mm256_permute2f128_ps(x1, y1, 0x20));
        _mm256_storeu_ps(dst + (2 * h + 4) * dst_k, _mm256_permute2f128_ps(x0, y0, 0x31));
        _mm256_storeu_ps(dst + (2 * h + 5) * dst_k, _mm256_permute2f128_ps(x1, y1, 0x31));
    }
}

// The same, p and j below 4.
[[maybe_unused]] inline void transpose4(const double* src, std::int64_t src_j, double* dst, std::int64_t dst_k) {
    const __m256d r0 = _mm256_loadu_pd(src), r1 = _mm256_loadu_pd(src + src_j);
    const __m256d r2 = _mm256_loadu_pd(src + 2 * src_j), r3 = _mm256_loadu_pd(src + 3 * src_j);
    const __m256d even01 = _mm256_unpacklo_pd(r0, r1), odd01 = _mm256_unpackhi_pd(r0, r1);
    const __m256d even23 = _mm256_unpacklo_pd(r2, r3), odd23 = _mm256_unpackhi_pd(r2, r3);
    _mm256_storeu_pd(dst, _mm256_permute2f128_pd(even01, even23, 0x20));
    _mm256_storeu_pd(dst + dst_k, _mm256_permute2f128_pd(odd01, odd23, 0x20));
    _mm256_storeu_pd(dst + 2 * dst_k, _mm256_permute2f128_pd(even01, even23, 0x31));
    _mm256_storeu_pd(dst + 3 * dst_k, _mm256_permute2f128_pd(odd01, odd23, 0x31));
}

}  // namespace
}  // namespace tessera::kernels::cpu
