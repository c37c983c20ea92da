// The tile product written as its definition: one chain of fused multiply-adds per element of C.

#include <cmath>
#include <complex>
#include <cstdint>

#include "kernels/gemm.hpp"

namespace tessera::kernels::ref {

namespace {

template <class R>
void fused_add(R a, R b, R& c) {
    c = std::fma(a, b, c);
}

template <class R>
void fused_add(std::complex<R> a, std::complex<R> b, std::complex<R>& c) {
    R re = c.real(), im = c.imag();
    re = std::fma(a.real(), b.real(), re);
    re = std::fma(-a.imag(), b.imag(), re);
    im = std::fma(a.real(), b.imag(), im);
    im = std::fma(a.imag(), b.real(), im);
    c = {re, im};
}

}  // namespace

template <Scalar T>
void multiply_chains(std::span<const Chain<T>> chains, GemmFlags flags) {
    for (const Chain<T>& chain : chains) {
        const std::int64_t m = chain.c_layout->rows.extent(), n = chain.c_layout->cols.extent();
        for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
                T& c = chain.c[chain.c_layout->rows.offset(i) + chain.c_layout->cols.offset(j)];
                T sum = chain.overwrite ? T(0) : c;
                for (const ChainLink<T>& link : chain.links) {
                    const T* a = link.a + link.a_layout->rows.offset(i);
                    const T* b = link.b + link.b_layout->cols.offset(j);
                    const std::int64_t k = link.a_layout->cols.extent();
                    for (std::int64_t p = 0; p < k; ++p)
                        fused_add(conjugate_if(a[link.a_layout->cols.offset(p)], flags.conjugate_a),
                                  conjugate_if(b[link.b_layout->rows.offset(p)], flags.conjugate_b), sum);
                }
                c = sum;
            }
        }
    }
}

template void multiply_chains(std::span<const Chain<float>>, GemmFlags);
template void multiply_chains(std::span<const Chain<double>>, GemmFlags);
template void multiply_chains(std::span<const Chain<std::complex<float>>>, GemmFlags);
template void multiply_chains(std::span<const Chain<std::complex<double>>>, GemmFlags);

}  // namespace tessera::kernels::ref
