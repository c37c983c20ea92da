#pragma once
// The obvious einsum on dense arrays: every label a loop. Slow; the reference of the contraction tests.

#include <complex>
#include <map>
#include <string>
#include <vector>

#include "tessera/tensor/tensor.hpp"

namespace tessera::testing {

using Wide = std::complex<double>;

struct Dense {
    IndexVector extents;
    std::vector<Wide> values;
};

template <Scalar T>
Dense widen(const Tensor<T>& x) {
    Dense d{x.grid().extents(), {}};
    for (const T& v : x.to_dense()) {
        if constexpr (is_complex<T>)
            d.values.emplace_back(v.real(), v.imag());
        else
            d.values.emplace_back(v, 0.0);
    }
    return d;
}

/// Labels of operands and result as in "ik,kj->ij"; also the sum of magnitudes, to scale a tolerance with.
struct EinsumResult {
    Dense sum;
    std::vector<double> magnitude;
};

inline EinsumResult dense_einsum(const std::vector<std::string>& operands, const std::string& result,
                                 const std::vector<Dense>& x, const std::vector<bool>& conjugate) {
    std::string labels;
    std::map<char, std::int64_t> extent;
    for (std::size_t o = 0; o < operands.size(); ++o)
        for (std::size_t d = 0; d < operands[o].size(); ++d) {
            extent[operands[o][d]] = x[o].extents[static_cast<int>(d)];
            if (labels.find(operands[o][d]) == std::string::npos) labels += operands[o][d];
        }
    EinsumResult out;
    for (char l : result) out.sum.extents.push_back(extent[l]);
    std::int64_t total = 1;
    for (auto e : out.sum.extents) total *= e;
    out.sum.values.assign(static_cast<std::size_t>(total), 0);
    out.magnitude.assign(static_cast<std::size_t>(total), 0);
    for (char l : labels)
        if (extent[l] == 0) return out;

    std::map<char, std::int64_t> at;
    for (char l : labels) at[l] = 0;
    const auto offset = [&](const std::string& ls, const IndexVector& extents) {
        std::int64_t o = 0;
        for (std::size_t d = 0; d < ls.size(); ++d) o = o * extents[static_cast<int>(d)] + at[ls[d]];
        return static_cast<std::size_t>(o);
    };
    for (;;) {
        Wide product = 1;
        for (std::size_t o = 0; o < operands.size(); ++o) {
            const Wide v = x[o].values[offset(operands[o], x[o].extents)];
            product *= conjugate[o] ? std::conj(v) : v;
        }
        const auto to = offset(result, out.sum.extents);
        out.sum.values[to] += product;
        out.magnitude[to] += std::abs(product);
        std::size_t d = 0;
        for (; d < labels.size(); ++d) {
            if (++at[labels[d]] < extent[labels[d]]) break;
            at[labels[d]] = 0;
        }
        if (d == labels.size()) return out;
    }
}

}  // namespace tessera::testing
