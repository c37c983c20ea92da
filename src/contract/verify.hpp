#pragma once
// A result held against a slow sum written apart from the library's kernels, on a sample of its tiles.

#include <cstdint>
#include <string_view>

#include "tessera/contract/contract.hpp"

namespace tessera {

struct VerifyOptions {
    int tiles = 8;       // sampled, the same ones for the same result
    double flops = 2e9;  // at most about this much work; fewer rows of each tile where tiles are large
    std::complex<double> alpha = 1.0;
    bool conjugate_a = false, conjugate_b = false;
    int threads = 0;
};

struct Verification {
    std::int64_t tiles = 0, elements = 0;
    double max_relative_error = 0;  // of an element, relative to the largest sum of |a b| of the tile's sample
};

/// Only for specs without diagonals and one-operand sums, and a result without an old C in it.
template <Scalar T>
Verification verify_sample(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                           const std::type_identity_t<ContractOperand<T>>& b, const Tensor<T>& c,
                           const VerifyOptions& options = {});

}  // namespace tessera
