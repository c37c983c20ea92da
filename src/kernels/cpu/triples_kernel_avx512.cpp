#include <immintrin.h>

#include "kernels/cpu/triples_micro.hpp"

namespace tessera::kernels::cpu {

namespace {

struct Double8 {
    using Reg = __m512d;
    static constexpr int lanes = kAvx512Lanes;
    static constexpr int scalars = 4;
    static Reg load(const double* p) { return _mm512_load_pd(p); }
    static void store(double* p, Reg x) { _mm512_store_pd(p, x); }
    static Reg spread(const double* p) { return _mm512_set1_pd(*p); }
    static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
};

}  // namespace

void term_kernel_avx512(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                        const int* cn) {
    term_kernel<Double8>(c, p, q, m, n, k, cm, cn);
}

void term_kernel_untiled_avx512(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                                const int* cn) {
    term_kernel_untiled<Double8>(c, p, q, m, n, k, cm, cn);
}

void store_row_avx512(double* dst, const double* src, int n) {
    const auto address = reinterpret_cast<unsigned long long>(dst);
    int x = 0;
    if (address % 64 == 0)
        for (; x + 8 <= n; x += 8) _mm512_stream_pd(dst + x, _mm512_load_pd(src + x));
    if (address % 32 == 0)
        for (; x + 4 <= n; x += 4) _mm256_stream_pd(dst + x, _mm256_load_pd(src + x));
    if (address % 16 == 0)
        for (; x + 2 <= n; x += 2) _mm_stream_pd(dst + x, _mm_load_pd(src + x));
    if (x < n) {
        const auto rest = static_cast<__mmask8>((1U << (n - x)) - 1U);
        _mm512_mask_storeu_pd(dst + x, rest, _mm512_maskz_loadu_pd(rest, src + x));
    }
}

void energy_row_avx512(const double* w, const double* v, double base, const double* e, double* __restrict acc) {
    energy_row<kAvx512Lanes>(w, v, base, e, acc);
}

void closed_shell_row_avx512(const double* const* w, const double* v, double base, const double* e,
                             double* __restrict acc) {
    closed_shell_row<kAvx512Lanes>(w, v, base, e, acc);
}

}  // namespace tessera::kernels::cpu
