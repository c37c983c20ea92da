#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <random>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/contract/arrays.hpp"

namespace tessera {
namespace {

template <class T>
class Arrays : public testing::Test {};
using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Arrays, Types);

/// Elements that any order of summation adds up exactly.
template <Scalar T>
std::vector<T> values(std::int64_t count, std::mt19937& random) {
    std::vector<T> out(static_cast<std::size_t>(count));
    for (auto& x : out) x = T(static_cast<RealOf<T>>(static_cast<int>(random() % 9) - 4));
    return out;
}

TYPED_TEST(Arrays, OfExtentsFromZeroOnAreTheSlowSum) {
    using T = TypeParam;
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        const std::int64_t i = random() % 5, j = random() % 5, k = random() % 7 * (random() % 40), b = random() % 3;
        const auto x = values<T>(b * i * k, random), y = values<T>(b * k * j, random);
        std::vector<T> z(static_cast<std::size_t>(b * i * j), T(7));
        // B is stored with its indices the other way round.
        const ArrayView<const T> a(x.data(), {b, i, k}), other(y.data(), {b, k, j}, {k * j, 1, k});
        contract_into("bik,bkj->bij", a, other, ArrayView<T>(z.data(), {b, i, j}), {.threads = 1 + round % 3});
        for (std::int64_t n = 0; n < b * i * j; ++n) {
            T sum{};
            for (std::int64_t l = 0; l < k; ++l)
                sum += x[static_cast<std::size_t>(n / j * k + l)] *
                       y[static_cast<std::size_t>(n / (i * j) * k * j + n % j * k + l)];
            ASSERT_EQ(z[static_cast<std::size_t>(n)], sum) << b << " x " << i << " x " << j << " x " << k;
        }
    }
}

TEST(ArrayResult, WithoutElementsHasAnyStrides) {
    std::array<double, 1> x{}, z{7};
    const ArrayView<const double> a(x.data(), {0, 3}, {0, 0}), b(x.data(), {3, 2}, {0, 0});
    contract_into("ik,kj->ij", a, b, ArrayView<double>(z.data(), {0, 2}, {0, 0}));
    EXPECT_EQ(z[0], 7);
    EXPECT_THROW(contract_into("ik,kj->ij", b, ArrayView<const double>(x.data(), {2, 2}, {0, 0}),
                               ArrayView<double>(z.data(), {3, 2}, {0, 0})),
                 UserError);
}

}  // namespace
}  // namespace tessera
