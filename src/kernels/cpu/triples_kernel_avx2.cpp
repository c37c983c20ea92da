#include <immintrin.h>

#include "kernels/cpu/triples_kernel.hpp"

namespace tessera::kernels::cpu {

namespace {

// N of the panel's PN scalars at a time: sixteen registers do not hold a 4 x 4 tile beside its operands.
template <int M, int N, int PN>
inline __attribute__((always_inline)) void micro(double* c, const double* p, const double* q, int k, const int* cm,
                                                 const int* cn) {
    __m256d acc[M][N];
    for (int x = 0; x < M; ++x)
        for (int y = 0; y < N; ++y) acc[x][y] = _mm256_load_pd(c + cm[x] + cn[y]);
    for (int s = 0; s < k; ++s) {
        __m256d v[M];
        for (int x = 0; x < M; ++x) v[x] = _mm256_load_pd(p + 4 * x);
        for (int y = 0; y < N; ++y) {
            const __m256d b = _mm256_broadcast_sd(q + y);
            for (int x = 0; x < M; ++x) acc[x][y] = _mm256_fmadd_pd(v[x], b, acc[x][y]);
        }
        p += 4 * M;
        q += PN;
    }
    for (int x = 0; x < M; ++x)
        for (int y = 0; y < N; ++y) _mm256_store_pd(c + cm[x] + cn[y], acc[x][y]);
}

template <int M, int N>
void panels(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    for (int x = 0; x < m; x += M)
        for (int y = 0; y < n; y += N) {
            const double* px = p + x * k * 4;
            const double* qy = q + y * k;
            if constexpr (N == 4) {
                micro<M, 2, 4>(c, px, qy, k, cm + x, cn + y);
                micro<M, 2, 4>(c, px, qy + 2, k, cm + x, cn + y + 2);
            } else {
                micro<M, N, N>(c, px, qy, k, cm + x, cn + y);
            }
        }
}

template <int M>
void rows(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    if (n >= 4)
        panels<M, 4>(c, p, q, m, n, k, cm, cn);
    else if (n == 2)
        panels<M, 2>(c, p, q, m, n, k, cm, cn);
    else
        panels<M, 1>(c, p, q, m, n, k, cm, cn);
}

}  // namespace

void term_kernel_avx2(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    if (m >= 4)
        rows<4>(c, p, q, m, n, k, cm, cn);
    else if (m == 2)
        rows<2>(c, p, q, m, n, k, cm, cn);
    else
        rows<1>(c, p, q, m, n, k, cm, cn);
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
    for (int x = 0; x < kAvx2Lanes; ++x) acc[x] += w[x] * v[x] / (base + e[x]);
}

void closed_shell_row_avx2(const double* const* w, const double* v, double base, const double* e,
                           double* __restrict acc) {
    const double *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3], *w4 = w[4], *w5 = w[5];
    for (int x = 0; x < kAvx2Lanes; ++x)
        acc[x] += (4 * w0[x] + w1[x] + w2[x] - 2 * (w3[x] + w4[x] + w5[x])) * v[x] / (base + e[x]);
}

}  // namespace tessera::kernels::cpu
