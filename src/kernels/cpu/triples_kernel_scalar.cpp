#include <cmath>

#include "kernels/cpu/triples_kernel.hpp"

namespace tessera::kernels::cpu {

void term_kernel_scalar(double* c, const double* p, const double* q, int m, int n, int k, const int* cm,
                        const int* cn) {
    const int pm = m < 4 ? m : 4, pn = n < 4 ? n : 4;
    for (int x = 0; x < m; ++x)
        for (int y = 0; y < n; ++y) {
            const double* px = p + ((x / pm) * k * pm + x % pm) * kScalarLanes;
            const double* qy = q + (y / pn) * k * pn + y % pn;
            for (int lane = 0; lane < kScalarLanes; ++lane) {
                double& out = c[cm[x] + cn[y] + lane];
                double acc = out;
                for (int s = 0; s < k; ++s) acc = std::fma(px[s * pm * kScalarLanes + lane], qy[s * pn], acc);
                out = acc;
            }
        }
}

void store_row_scalar(double* dst, const double* src, int n) {
    for (int x = 0; x < n; ++x) dst[x] = src[x];
}

void store_fence() {
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}

void energy_row_scalar(const double* w, const double* v, double base, const double* e, double* __restrict acc) {
    for (int x = 0; x < kScalarLanes; ++x) acc[x] += w[x] * v[x] / (base + e[x]);
}

void closed_shell_row_scalar(const double* const* w, const double* v, double base, const double* e,
                             double* __restrict acc) {
    const double *w0 = w[0], *w1 = w[1], *w2 = w[2], *w3 = w[3], *w4 = w[4], *w5 = w[5];
    for (int x = 0; x < kScalarLanes; ++x)
        acc[x] += (4 * w0[x] + w1[x] + w2[x] - 2 * (w3[x] + w4[x] + w5[x])) * v[x] / (base + e[x]);
}

}  // namespace tessera::kernels::cpu
