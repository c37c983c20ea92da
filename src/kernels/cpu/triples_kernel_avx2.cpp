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

}  // namespace tessera::kernels::cpu
