// The tile product written as its definition: one chain of fused multiply-adds per element of C.

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

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

std::vector<std::int64_t> offsets(const Axes& axes) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(axes.extent()));
    for (std::size_t p = 0; p < all.size(); ++p) all[p] = axes.offset(static_cast<std::int64_t>(p));
    return all;
}

}  // namespace

template <Scalar T>
void multiply_chains(std::span<const Chain<T>> chains, GemmFlags flags) {
    for (const Chain<T>& chain : chains) {
        const std::vector<std::int64_t> c_rows = offsets(chain.c_layout->rows), c_cols = offsets(chain.c_layout->cols);
        if (chain.overwrite)
            for (const std::int64_t i : c_rows)
                for (const std::int64_t j : c_cols) chain.c[i + j] = T(0);
        for (const ChainLink<T>& link : chain.links) {
            const std::vector<std::int64_t> a_rows = offsets(link.a_layout->rows),
                                            a_cols = offsets(link.a_layout->cols);
            const std::vector<std::int64_t> b_rows = offsets(link.b_layout->rows),
                                            b_cols = offsets(link.b_layout->cols);
            for (std::size_t i = 0; i < c_rows.size(); ++i) {
                for (std::size_t j = 0; j < c_cols.size(); ++j) {
                    T sum = chain.c[c_rows[i] + c_cols[j]];
                    for (std::size_t p = 0; p < a_cols.size(); ++p)
                        fused_add(
                            static_cast<RealOf<T>>(link.factor) *
                                conjugate_if(link.a[a_rows[i] + a_cols[p]], flags.conjugate_a != link.conjugate_a),
                            conjugate_if(link.b[b_rows[p] + b_cols[j]], flags.conjugate_b != link.conjugate_b), sum);
                    chain.c[c_rows[i] + c_cols[j]] = sum;
                }
            }
        }
    }
}

template void multiply_chains(std::span<const Chain<float>>, GemmFlags);
template void multiply_chains(std::span<const Chain<double>>, GemmFlags);
template void multiply_chains(std::span<const Chain<std::complex<float>>>, GemmFlags);
template void multiply_chains(std::span<const Chain<std::complex<double>>>, GemmFlags);

}  // namespace tessera::kernels::ref
