#include <immintrin.h>

#include "kernels/cpu/triples_micro.hpp"

namespace tessera::kernels::cpu {

namespace {

struct Double4 {
    using Reg = __m256d;
    static constexpr int lanes = kAvx2Lanes;
    static constexpr int scalars = 2;  // sixteen registers do not hold a 4 x 4 tile beside its operands
    static Reg load(const double* p) { return _mm256_load_pd(p); }
    static void store(double* p, Reg x) { _mm256_store_pd(p, x); }
    static Reg spread(const double* p) { return _mm256_broadcast_sd(p); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
};

}  // namespace

void term_kernel_avx2(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    term_kernel<Double4>(c, p, q, m, n, k, cm, cn);
}

void term_kernel_untiled_avx2(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                              const int* cn) {
    term_kernel_untiled<Double4>(c, p, q, m, n, k, cm, cn);
}

void store_row_avx2(double* dst, const double* src, int n) {
    const auto address = reinterpret_cast<unsigned long long>(dst);
    int x = 0;
    if (address % 32 == 0)
        for (; x + 4 <= n; x += 4) _mm256_stream_pd(dst + x, _mm256_load_pd(src + x));
    if (address % 16 == 0)
        for (; x + 2 <= n; x += 2) _mm_stream_pd(dst + x, _mm_load_pd(src + x));
    for (; x < n; ++x) dst[x] = src[x];
}

void energy_row_avx2(const double* w, const double* v, double base, const double* e, double* __restrict acc) {
    energy_row<kAvx2Lanes>(w, v, base, e, acc);
}

void closed_shell_row_avx2(const double* const* w, const double* v, double base, const double* e,
                           double* __restrict acc) {
    closed_shell_row<kAvx2Lanes>(w, v, base, e, acc);
}

}  // namespace tessera::kernels::cpu
