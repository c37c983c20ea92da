#pragma once
// The register kernel of the CCSD(T) terms, written once over a vector type V. Only the triples_kernel_<isa>.cpp files
// include this: everything is in an unnamed namespace, because each of them compiles it for another instruction set.
//
// V gives: Reg, lanes, scalars (of the panel held beside the sums); load, store, spread, fma.

#include "kernels/cpu/triples_kernel.hpp"

namespace tessera::kernels::cpu {
namespace {

// M vectors times N of the panel's PN broadcast scalars stay in registers over the whole piece of the sum.
template <class V, int M, int N, int PN>
inline __attribute__((always_inline)) void micro(double* c, const double* p, const double* q, int k, const int* cm,
                                                 const int* cn) {
    using Reg = typename V::Reg;
    Reg acc[M][N];
    for (int x = 0; x < M; ++x)
        for (int y = 0; y < N; ++y) acc[x][y] = V::load(c + cm[x] + cn[y]);
    for (int s = 0; s < k; ++s) {
        Reg v[M];
        for (int x = 0; x < M; ++x) v[x] = V::load(p + V::lanes * x);
        for (int y = 0; y < N; ++y) {
            const Reg b = V::spread(q + y);
            for (int x = 0; x < M; ++x) acc[x][y] = V::fma(v[x], b, acc[x][y]);
        }
        p += V::lanes * M;
        q += PN;
    }
    for (int x = 0; x < M; ++x)
        for (int y = 0; y < N; ++y) V::store(c + cm[x] + cn[y], acc[x][y]);
}

template <class V, int M, int N>
void panels(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    constexpr int step = N < V::scalars ? N : V::scalars;
    for (int x = 0; x < m; x += M)
        for (int y = 0; y < n; y += N)
            for (int part = 0; part < N; part += step)
                micro<V, M, step, N>(c, p + x * k * V::lanes, q + y * k + part, k, cm + x, cn + y + part);
}

template <class V, int M>
void rows(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    if (n >= 4)
        panels<V, M, 4>(c, p, q, m, n, k, cm, cn);
    else if (n == 2)
        panels<V, M, 2>(c, p, q, m, n, k, cm, cn);
    else
        panels<V, M, 1>(c, p, q, m, n, k, cm, cn);
}

template <class V>
void term_kernel(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn) {
    if (m >= 4)
        rows<V, 4>(c, p, q, m, n, k, cm, cn);
    else if (m == 2)
        rows<V, 2>(c, p, q, m, n, k, cm, cn);
    else
        rows<V, 1>(c, p, q, m, n, k, cm, cn);
}

/// The same, one vector and one scalar at a time.
template <class V>
void term_kernel_untiled(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                         const int* cn) {
    const int wide = m < 4 ? m : 4, high = n < 4 ? n : 4;  // of the packed panels
    for (int x = 0; x < m; ++x)
        for (int y = 0; y < n; ++y) {
            const double *a = p + (x / wide * wide * k + x % wide) * V::lanes, *b = q + y / high * high * k + y % high;
            typename V::Reg sum = V::load(c + cm[x] + cn[y]);
            for (int s = 0; s < k; ++s, a += V::lanes * wide, b += high) sum = V::fma(V::load(a), V::spread(b), sum);
            V::store(c + cm[x] + cn[y], sum);
        }
}

template <int Lanes>
void energy_row(const double* w, const double* v, double base, const double* e, double* __restrict acc) {
    for (int x = 0; x < Lanes; ++x) acc[x] += w[x] * v[x] / (base + e[x]);
}

template <int Lanes>
void closed_shell_row(const double* const* w, const double* v, double base, const double* e, double* __restrict acc) {
    const double *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3], *w4 = w[4], *w5 = w[5];
    for (int x = 0; x < Lanes; ++x)
        acc[x] += (4 * w0[x] + w1[x] + w2[x] - 2 * (w3[x] + w4[x] + w5[x])) * v[x] / (base + e[x]);
}

}  // namespace
}  // namespace tessera::kernels::cpu
