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

}  // namespace tessera::kernels::cpu
