#pragma once
// A result held against a slow sum written apart from the library's kernels, on a sample of its tiles.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

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

/// The tiles of a result that are looked at: by slot, ascending.
std::vector<std::int64_t> verify_slots(const Shape& c, const VerifyOptions& options);

/// Only for specs without diagonals and one-operand sums, and a result without an old C in it.
template <Scalar T>
Verification verify_sample(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                           const std::type_identity_t<ContractOperand<T>>& b, const Tensor<T>& c,
                           const VerifyOptions& options = {});

/// The same of a result of this shape whose sampled tiles are at hand: `tile` gives those of verify_slots, or nothing
/// where another rank looks at it.
template <Scalar T>
Verification verify_tiles(std::string_view spec, const std::type_identity_t<ContractOperand<T>>& a,
                          const std::type_identity_t<ContractOperand<T>>& b, const Shape& c,
                          const std::function<std::span<const T>(std::int64_t slot)>& tile,
                          const VerifyOptions& options);

}  // namespace tessera
