#pragma once
// The innermost product of the fused contractions: one term, one piece of its sum, into one cached block.
// Plain types only: the instruction-set files include this.

namespace tessera::kernels::cpu {

/// For each of m vectors and n scalars:  c[cm[x] + cn[y] + lane] = fma chain over s of p[.., lane] * q[..].
/// p is packed [m / 4][k][4][lanes], q [n / 4][k][4] (panels of m or n when those are below 4); m and n are powers
/// of two, or multiples of four. c and p are aligned to a vector.
using TermKernel = void (*)(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                            const int* cn);

void term_kernel_scalar(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn);
void term_kernel_avx2(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn);
void term_kernel_avx512(double* c, const double* p, const double* q, int m, int n, int k, const int* cm, const int* cn);

/// One vector and one scalar at a time; the plain kernel is that anyway.
void term_kernel_untiled_avx2(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                              const int* cn);
void term_kernel_untiled_avx512(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                                const int* cn);

inline constexpr int kScalarLanes = 4, kAvx2Lanes = 4, kAvx512Lanes = 8;

/// dst = src, n doubles, past the caches where dst is aligned: the output is far larger than any cache and is not read
/// again here. src is aligned to a vector. Ends need no fence of their own: call store_fence once per thread.
using RowStore = void (*)(double* dst, const double* src, int n);
void store_row_scalar(double* dst, const double* src, int n);
void store_row_avx2(double* dst, const double* src, int n);
void store_row_avx512(double* dst, const double* src, int n);
void store_fence();

/// acc[lane] += w[lane] * v[lane] / (base + e[lane]), one vector.
using EnergyRow = void (*)(const double* w, const double* v, double base, const double* e, double* acc);
void energy_row_scalar(const double* w, const double* v, double base, const double* e, double* acc);
void energy_row_avx2(const double* w, const double* v, double base, const double* e, double* acc);
void energy_row_avx512(const double* w, const double* v, double base, const double* e, double* acc);

/// acc[lane] += (4 w[0] + w[1] + w[2] - 2 (w[3] + w[4] + w[5])) * v / (base + e[lane]); w points at six vectors.
using ClosedShellRow = void (*)(const double* const* w, const double* v, double base, const double* e, double* acc);
void closed_shell_row_scalar(const double* const* w, const double* v, double base, const double* e, double* acc);
void closed_shell_row_avx2(const double* const* w, const double* v, double base, const double* e, double* acc);
void closed_shell_row_avx512(const double* const* w, const double* v, double base, const double* e, double* acc);

}  // namespace tessera::kernels::cpu
