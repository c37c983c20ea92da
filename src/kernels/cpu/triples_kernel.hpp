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

inline constexpr int kScalarLanes = 4, kAvx2Lanes = 4, kAvx512Lanes = 8;

/// Copies n doubles past the caches where dst allows it.
using StreamKernel = void (*)(double* dst, const double* src, int n);

}  // namespace tessera::kernels::cpu
