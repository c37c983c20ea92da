#pragma once
// Random transposes for the CPU and the CUDA tests: ranks to 16, extents of 0, 1 and primes, padded strides.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "tessera/base/cpu.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels::testing {

using Extents = std::vector<std::int64_t>;
using Perm = std::vector<int>;

template <Scalar T>
T random_value(std::mt19937_64& rng) {
    std::uniform_int_distribution<int> d(-1000, 1000);  // small integers: every order of operations is exact
    if constexpr (is_complex<T>)
        return T(static_cast<RealOf<T>>(d(rng)), static_cast<RealOf<T>>(d(rng)));
    else
        return static_cast<T>(d(rng));
}

struct TransposeCase {
    Extents extents;
    Perm permutation;
    Extents in_strides, out_strides;
    std::int64_t in_span = 0, out_span = 0;
};

/// Packed strides, some of them widened, in the given order of extents.
inline Extents strides_of(const Extents& extents, std::mt19937_64& rng, bool pad, std::int64_t& span) {
    Extents s(extents.size());
    std::int64_t step = pad && rng() % 8 == 0 ? 2 : 1;
    for (int d = static_cast<int>(extents.size()) - 1; d >= 0; --d) {
        s[d] = step;
        step *= extents[d];
        if (pad && rng() % 3 == 0) step += static_cast<std::int64_t>(rng() % 9);
    }
    span = 1;
    for (std::size_t d = 0; d < extents.size(); ++d) span += std::max<std::int64_t>(0, extents[d] - 1) * s[d];
    return s;
}

inline TransposeCase random_case(std::mt19937_64& rng, std::int64_t largest) {
    TransposeCase c;
    const int rank = static_cast<int>(rng() % 8 == 0 ? 9 + rng() % 8 : 1 + rng() % 8);
    std::int64_t volume = 1;
    const int style = static_cast<int>(rng() % 4);
    for (int d = 0; d < rank; ++d) {
        static constexpr std::int64_t primes[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 61, 127, 257};
        const double room = std::pow(static_cast<double>(largest) / static_cast<double>(volume), 1.0 / (rank - d));
        std::int64_t n = 1;
        if (style == 0) n = primes[rng() % 15];
        if (style == 1) n = 1 + static_cast<std::int64_t>(rng() % 40);
        if (style == 2) n = 8 * (1 + static_cast<std::int64_t>(rng() % 6));
        if (style == 3) n = 1 + static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(room * 2 + 1));
        if (rng() % 10 == 0) n = 1;
        if (rng() % 200 == 0) n = 0;
        if (volume * std::max<std::int64_t>(n, 1) > largest) n = 1 + (volume * 2 <= largest);
        c.extents.push_back(n);
        volume *= std::max<std::int64_t>(n, 1);
    }
    std::shuffle(c.extents.begin(), c.extents.end(), rng);
    c.permutation.resize(rank);
    std::iota(c.permutation.begin(), c.permutation.end(), 0);
    if (rng() % 6 == 0)
        std::reverse(c.permutation.begin(), c.permutation.end());
    else
        std::shuffle(c.permutation.begin(), c.permutation.end() - (rng() % 5 == 0), rng);
    Extents out(rank);
    for (int d = 0; d < rank; ++d) out[d] = c.extents[c.permutation[d]];
    const bool pad = rng() % 3 == 0;
    c.in_strides = strides_of(c.extents, rng, pad, c.in_span);
    c.out_strides = strides_of(out, rng, pad, c.out_span);
    return c;
}

/// Half of them the plain copy, half with any factors.
template <Scalar T>
TransposeArguments<T> random_arguments(std::mt19937_64& rng) {
    TransposeArguments<T> args;
    if (rng() % 2 == 0) return args;
    args.alpha = random_value<T>(rng);
    args.beta = rng() % 3 == 0 ? T(0) : random_value<T>(rng);
    args.conjugate = rng() % 2 == 0;
    return args;
}

/// Calls run(args) for each instruction set this processor has, with one to `most` threads.
template <Scalar T, class Run>
void on_each_isa(TransposeArguments<T> args, unsigned most, std::mt19937_64& rng, Run&& run) {
    for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        args.isa = isa;
        args.threads = 1 + static_cast<int>(rng() % most);
        run(args);
        if (::testing::Test::HasFatalFailure()) return;
    }
}

}  // namespace tessera::kernels::testing
