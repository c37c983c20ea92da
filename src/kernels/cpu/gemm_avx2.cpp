// The register kernels of the tile product for AVX2 with FMA: 4 rows by 3 vectors (12 sums of 16 registers).

#include "kernels/cpu/gemm_table.hpp"

#if defined(__AVX2__)

#include <immintrin.h>

#include "kernels/cpu/gemm_micro.hpp"
#include "kernels/cpu/gemm_transpose.hpp"

namespace tessera::kernels::cpu {
namespace {

struct Prefetch256 {
    static void prefetch_far(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }
    static void prefetch_near(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
    static void prefetch_write(const void* p) { __builtin_prefetch(p, 1, 3); }
    static constexpr int rows1 = 10, rows2 = 6, rows3 = 4;
};

struct Mask256 {
    __m256i lanes;
    int count;
};

struct Double4 : Prefetch256 {
    using Real = double;
    using Reg = __m256d;
    using Mask = Mask256;
    static constexpr int lanes = 4, across = 4;
    static Mask mask(int n) { return {_mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)), n}; }
    static Reg zero() { return _mm256_setzero_pd(); }
    static Reg load(const double* p) { return _mm256_loadu_pd(p); }
    static Reg load_mask(const double* p, Mask m) { return _mm256_maskload_pd(p, m.lanes); }
    static void store(double* p, Reg x) { _mm256_storeu_pd(p, x); }
    static void store_mask(double* p, Mask m, Reg x) { store_first(p, m.count, x); }
    static Reg spread(const double* p) { return _mm256_broadcast_sd(p); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
    static bool any_nan(Reg x) { return _mm256_movemask_pd(_mm256_cmp_pd(x, x, _CMP_UNORD_Q)) != 0; }
    static Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
    static Reg alternate(double x, double y) { return _mm256_setr_pd(x, y, x, y); }
    static Reg swap_pairs(Reg x) { return _mm256_permute_pd(x, 0x5); }
    static void unzip(Reg x, Reg y, Reg& even, Reg& odd) {
        even = _mm256_permute4x64_pd(_mm256_unpacklo_pd(x, y), 0xd8);
        odd = _mm256_permute4x64_pd(_mm256_unpackhi_pd(x, y), 0xd8);
    }
    using Dots = Double4;
    static void transpose(Reg (&r)[4]) { transpose_registers(r); }
    static void pack_across(const double* src, std::int64_t src_j, double* dst, std::int64_t dst_k) {
        transpose4(src, src_j, dst, dst_k, 4, 4);
    }
    static void pack_corner(const double* src, std::int64_t src_j, double* dst, std::int64_t dst_k, int k, int n) {
        transpose4(src, src_j, dst, dst_k, k, n);
    }
};

struct Float8 : Prefetch256 {
    using Real = float;
    using Reg = __m256;
    using Mask = Mask256;
    static constexpr int lanes = 8, across = 8;
    static Mask mask(int n) {
        return {_mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), n};
    }
    static Reg zero() { return _mm256_setzero_ps(); }
    static Reg load(const float* p) { return _mm256_loadu_ps(p); }
    static Reg load_mask(const float* p, Mask m) { return _mm256_maskload_ps(p, m.lanes); }
    static void store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
    static void store_mask(float* p, Mask m, Reg x) { store_first(p, m.count, x); }
    static Reg spread(const float* p) { return _mm256_broadcast_ss(p); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
    static bool any_nan(Reg x) { return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0; }
    static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
    static Reg alternate(float x, float y) { return _mm256_setr_ps(x, y, x, y, x, y, x, y); }
    static Reg swap_pairs(Reg x) { return _mm256_permute_ps(x, 0xb1); }
    static void unzip(Reg x, Reg y, Reg& even, Reg& odd) {
        even = in_order(_mm256_shuffle_ps(x, y, 0x88));
        odd = in_order(_mm256_shuffle_ps(x, y, 0xdd));
    }
    static Reg in_order(Reg x) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8)); }
    using Dots = Float8;
    static void transpose(Reg (&r)[8]) { transpose_registers(r); }
    static void pack_across(const float* src, std::int64_t src_j, float* dst, std::int64_t dst_k) {
        transpose8(src, src_j, dst, dst_k, 8, 8);
    }
    static void pack_corner(const float* src, std::int64_t src_j, float* dst, std::int64_t dst_k, int k, int n) {
        transpose8(src, src_j, dst, dst_k, k, n);
    }
};

}  // namespace

const KernelTable<float>& avx2_table(float) {
    static const KernelTable<float> table = make_table<Float8>();
    return table;
}

const KernelTable<double>& avx2_table(double) {
    static const KernelTable<double> table = make_table<Double4>();
    return table;
}

}  // namespace tessera::kernels::cpu

#else  // another processor family: never chosen, but linked

namespace tessera::kernels::cpu {
const KernelTable<float>& avx2_table(float) { return scalar_table(0.0F); }
const KernelTable<double>& avx2_table(double) { return scalar_table(0.0); }
}  // namespace tessera::kernels::cpu

#endif
