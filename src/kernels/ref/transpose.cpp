#include <array>

#include "base/check.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels::ref {

template <Scalar T>
void transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, const T* in, T* out, T alpha,
               T beta, bool conjugate, std::span<const std::int64_t> in_strides,
               std::span<const std::int64_t> out_strides) {
    const int rank = static_cast<int>(extents.size());
    std::vector<std::int64_t> is(in_strides.begin(), in_strides.end()), os(out_strides.begin(), out_strides.end());
    if (is.empty()) {
        is.assign(rank, 1);
        for (int d = rank - 2; d >= 0; --d) is[d] = is[d + 1] * extents[d + 1];
    }
    if (os.empty()) {
        os.assign(rank, 1);
        for (int d = rank - 2; d >= 0; --d) os[d] = os[d + 1] * extents[permutation[d + 1]];
    }
    for (auto n : extents)
        if (n == 0) return;
    std::vector<std::int64_t> at(rank, 0);  // position in output axes
    for (;;) {
        std::int64_t from = 0, to = 0;
        for (int d = 0; d < rank; ++d) {
            from += at[d] * is[permutation[d]];
            to += at[d] * os[d];
        }
        const T element = conjugate_if(in[from], conjugate);
        const T value = alpha == T(1) ? element : alpha * element;
        if (beta == T(0))
            out[to] = value;
        else
            out[to] = value + (beta == T(1) ? out[to] : beta * out[to]);
        int d = rank - 1;
        while (d >= 0 && ++at[d] == extents[permutation[d]]) at[d--] = 0;
        if (d < 0) return;
    }
}

#define TESSERA_INSTANTIATE(T)                                                                                \
    template void transpose<T>(std::span<const std::int64_t>, std::span<const int>, const T*, T*, T, T, bool, \
                               std::span<const std::int64_t>, std::span<const std::int64_t>);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)
#undef TESSERA_INSTANTIATE

}  // namespace tessera::kernels::ref
