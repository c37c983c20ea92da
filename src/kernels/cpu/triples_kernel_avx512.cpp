#include <immintrin.h>

#include "kernels/cpu/triples_kernel.hpp"

namespace tessera::kernels::cpu {

namespace {

// M vectors times N broadcast scalars stay in registers over the whole piece of the sum.
template <int M, int N>
inline __attribute__((always_inline)) void micro(double* c, const double* p, const double* q, int k, const int* cm,
                                                 const int* cn) {
    __m512d acc[M][N];
    for (int x = 0; x < M; ++x)
        for (int y = 0; y < N; ++y) acc[x][y] = _mm512_load_pd(c + cm[x] + cn[y]);
    for (int s = 0; s < k; ++s) {
        __m512d v[M];
        for (int x = 0; x < M; ++x) v[x] = _mm512_load_pd(p + 8 * x);
        for (int y = 0; y < N; ++y) {
            const __m512d b = _mm512_set1_pd(q[y]);
            for (int x = 0; x < M; ++x) acc[x][y] = _mm512_fmadd_pd(v[x], b, acc[x][y]);
        }
        p += 8 * M;
        q += N;
    }
    for (int x = 0; x < M; ++x)
        for (int y = 0; y < N; ++y) _mm512_store_pd(c + cm[x] + cn[y], acc[x][y]);
}

template <int M, int N>
void panels(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    for (int x = 0; x < m; x += M)
        for (int y = 0; y < n; y += N) micro<M, N>(c, p + x * k * 8, q + y * k, k, cm + x, cn + y);
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

void term_kernel_avx512(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                        const int* cn) {
    if (m >= 4)
        rows<4>(c, p, q, m, n, k, cm, cn);
    else if (m == 2)
        rows<2>(c, p, q, m, n, k, cm, cn);
    else
        rows<1>(c, p, q, m, n, k, cm, cn);
}

}  // namespace tessera::kernels::cpu
