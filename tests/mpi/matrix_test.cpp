// Functions of matrices on ranks: the slow obvious thing on the dense array, and the bits of one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/draw.hpp"
#include "support/message.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {
namespace {

using testing::Draw;
using testing::message;

template <class T>
bool same_bits(const T& x, const T& y) {
    return std::memcmp(&x, &y, sizeof(T)) == 0;
}

template <class T>
struct Matrix : ::testing::Test {
    static constexpr double kEps = std::is_same_v<RealOf<T>, float> ? 2e-5 : 1e-13;
    Communicator& ranks = mpi_world();
    Placement dealt(const Distribution& d) { return {ranks, d}; }
    static T number(double x) { return T(static_cast<RealOf<T>>(x)); }
    /// A random matrix on the ranks, and on this one.
    struct Two {
        Tensor<T> many, one;
        std::vector<T> dense;
        std::int64_t rows, columns;
        T at(std::int64_t i, std::int64_t j) const { return dense[static_cast<std::size_t>(i * columns + j)]; }
    };
    Two random(Draw& draw, const TileGrid& grid, double density) {
        const auto shape = draw.shape(grid, density);
        const auto seed = static_cast<std::uint64_t>(draw.below(1000));
        Two x{Tensor<T>::random(shape, seed, 0, dealt(draw.distribution(grid, ranks.size()))),
              Tensor<T>::random(shape, seed),
              {},
              grid.tiling(0).extent(),
              grid.tiling(1).extent()};
        x.dense = x.one.to_dense();
        return x;
    }
    void expect_same(const Tensor<T>& many, const Tensor<T>& one, const std::vector<T>& dense, const char* what) {
        EXPECT_EQ(many.shape(), one.shape()) << what;
        EXPECT_EQ(checksum(many), checksum(one)) << what;
        EXPECT_EQ(one.to_dense(), dense) << what;
    }
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Matrix, Scalars);

TYPED_TEST(Matrix, DiagonalTraceTriangle) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const std::int64_t n = seed == 1 ? 0 : seed == 2 ? 1 : 2 + draw.below(30);
        const TileGrid grid{draw.tiling(n), draw.tiling(n)};
        auto x = this->random(draw, grid, 0.5);
        T sum{};
        std::vector<T> line;
        for (std::int64_t i = 0; i < n; ++i) sum += x.at(i, i), line.push_back(x.at(i, i));
        EXPECT_LE(std::abs(trace(x.many) - sum), this->kEps * (1 + static_cast<double>(n)));
        EXPECT_TRUE(same_bits(trace(x.many), trace(x.one)));
        EXPECT_EQ(diagonal(x.many), line);

        for (const auto which : {Triangle::upper, Triangle::lower}) {
            auto dense = x.dense;
            for (std::int64_t i = 0; i < n; ++i)
                for (std::int64_t j = 0; j < n; ++j)
                    if (which == Triangle::upper ? j < i : j > i) dense[static_cast<std::size_t>(i * n + j)] = T{};
            this->expect_same(triangle(x.many, which), triangle(x.one, which), dense, "triangle");
        }
        auto added = x.many, added_one = x.one;
        add_on_diagonal(added, this->number(0.75));
        add_on_diagonal(added_one, this->number(0.75));
        auto dense = x.dense;
        for (std::int64_t i = 0; i < n; ++i) dense[static_cast<std::size_t>(i * n + i)] += this->number(0.75);
        this->expect_same(added, added_one, dense, "add_on_diagonal");
        std::vector<T> values;
        for (std::int64_t i = 0; i < n; ++i) values.push_back(this->number(draw.unit()));
        set_diagonal(added, values);
        set_diagonal(added_one, values);
        for (std::int64_t i = 0; i < n; ++i)
            dense[static_cast<std::size_t>(i * n + i)] = values[static_cast<std::size_t>(i)];
        this->expect_same(added, added_one, dense, "set_diagonal");
        EXPECT_EQ(diagonal(added), values);
    }
}

/// The first element of column j, on every rank.
template <class T>
T first_of(const Tensor<T>& x, int j) {
    return x.to_dense()[static_cast<std::size_t>(j)];
}

TYPED_TEST(Matrix, TraceOfAProductAndNorms) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const Tiling rows = draw.tiling(1 + draw.below(30)), columns = draw.tiling(1 + draw.below(30));
        const auto a = this->random(draw, {rows, columns}, 0.6), b = this->random(draw, {columns, rows}, 0.6);
        T sum{};
        double most = 0, size = 0;
        for (std::int64_t i = 0; i < a.rows; ++i) {
            double along = 0;
            for (std::int64_t j = 0; j < a.columns; ++j) {
                sum += a.at(i, j) * b.at(j, i);
                size += std::abs(a.at(i, j) * b.at(j, i));
                along += std::abs(a.at(i, j));
            }
            most = std::max(most, along);
        }
        EXPECT_LE(std::abs(trace(a.many, b.many) - sum), this->kEps * (1 + size));
        EXPECT_TRUE(same_bits(trace(a.many, b.many), trace(a.one, b.one)));
        EXPECT_NEAR(gershgorin_norm(a.many), most, this->kEps * most);
        EXPECT_EQ(gershgorin_norm(a.many), gershgorin_norm(a.one));
        EXPECT_EQ(frobenius(a.many), norm(a.one));
        const auto norms = column_norms(a.many);
        EXPECT_EQ(norms, column_norms(a.one));
        for (std::int64_t j = 0; j < a.columns; ++j) {
            double square = 0;
            for (std::int64_t i = 0; i < a.rows; ++i) square += static_cast<double>(std::norm(a.at(i, j)));
            EXPECT_NEAR(norms[static_cast<std::size_t>(j)], std::sqrt(square), this->kEps * std::sqrt(square));
        }
    }
    // Columns of very different size keep their digits.
    const TileGrid grid{Tiling{2, 2}, Tiling{1, 1, 1}};
    auto x = Tensor<T>::generate(
        Shape::dense(grid),
        [&](const TileInfo& info, std::span<T> tile) {
            const double scale = std::is_same_v<RealOf<T>, float> ? 1e15 : 1e150;
            const double by[] = {scale, 1, 1 / scale};
            for (auto& e : tile) e = this->number(by[info.coordinates[1]] * 3);
        },
        0, this->dealt(Distribution::even(grid, this->ranks.size())));
    const auto norms = column_norms(x);
    for (int j = 0; j < 3; ++j)
        EXPECT_NEAR(norms[static_cast<std::size_t>(j)] / (2 * static_cast<double>(std::abs(first_of(x, j)))), 1, 1e-13);
}

TYPED_TEST(Matrix, RowsColumnsAndElements) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const Tiling rows = draw.tiling(1 + draw.below(30)), columns = draw.tiling(1 + draw.below(30));
        const auto a = this->random(draw, {rows, columns}, 0.6), b = this->random(draw, {rows, columns}, 0.6);
        std::vector<T> r, c;
        for (std::int64_t i = 0; i < a.rows; ++i) r.push_back(this->number(draw.unit() - 0.5));
        for (std::int64_t j = 0; j < a.columns; ++j) c.push_back(this->number(draw.unit() - 0.5));
        auto many = a.many, one = a.one;
        auto dense = a.dense;
        scale_rows(many, r);
        scale_rows(one, r);
        for (std::size_t e = 0; e < dense.size(); ++e) dense[e] *= r[e / c.size()];
        this->expect_same(many, one, dense, "scale_rows");
        scale_columns(many, c);
        scale_columns(one, c);
        for (std::size_t e = 0; e < dense.size(); ++e) dense[e] *= c[e % c.size()];
        this->expect_same(many, one, dense, "scale_columns");

        const auto h = hadamard(a.many, b.many), h1 = hadamard(a.one, b.one);
        EXPECT_EQ(h.placement(), a.many.placement());
        EXPECT_EQ(checksum(h), checksum(h1));
        const auto products = h.to_dense();
        for (std::size_t e = 0; e < products.size(); ++e)
            EXPECT_LE(std::abs(products[e] - a.dense[e] * b.dense[e]), this->kEps * std::abs(products[e]));
        // The contraction has the same bits, and so has the slow way that permuted tiles take.
        const auto contracted = contract("ij,ij->ij", a.many, b.many).tensor;
        EXPECT_EQ(checksum(contracted), checksum(h));
        EXPECT_EQ(checksum(contract("ij,ji->ij", a.many, permute(b.many, {1, 0})).tensor), checksum(h));
        const auto conjugated = contract("ij,ij->ij", a.many, b.many, {}, {.alpha = 2.0, .conjugate_a = true}).tensor;
        const auto slow =
            contract("ij,ji->ij", a.many, permute(b.many, {1, 0}), {}, {.alpha = 2.0, .conjugate_a = true}).tensor;
        EXPECT_EQ(checksum(conjugated), checksum(slow));
        auto sum = a.one, slow_sum = a.one;
        contract_into("ij,ij->ij", a.one, b.one, sum, {}, {.beta = 0.5, .conjugate_b = true});
        contract_into("ij,ji->ij", a.one, permute(b.one, {1, 0}), slow_sum, {}, {.beta = 0.5, .conjugate_b = true});
        EXPECT_EQ(checksum(sum), checksum(slow_sum));
    }
}

TEST(MatrixErrors, NameTheValues) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling{2, 3}, Tiling{4}}, square{Tiling{2, 3}, Tiling{5}},
        cube{Tiling{2}, Tiling{2}, Tiling{2}};
    const auto on = [&](const TileGrid& g) {
        return Tensor<double>::random(Shape::dense(g), 1, 0, {ranks, Distribution::even(g, ranks.size())});
    };
    auto x = on(grid), y = on(square), z = on(cube);
    const auto before = checksum(y);
    EXPECT_EQ(message([&] { trace(x); }), "trace: a square matrix is needed, this one has 5 rows and 4 columns");
    EXPECT_EQ(message([&] { diagonal(z); }), "diagonal: a matrix is needed, this tensor has rank 3");
    EXPECT_EQ(message([&] { gershgorin_norm(z); }), "gershgorin_norm: a matrix is needed, this tensor has rank 3");
    EXPECT_EQ(message([&] { set_diagonal(y, std::vector<double>(4)); }), "set_diagonal: 4 values for 5 rows");
    EXPECT_EQ(message([&] { scale_rows(x, std::vector<double>(4)); }), "scale_rows: 4 values for 5 rows");
    EXPECT_EQ(message([&] { scale_columns(x, std::vector<double>(5)); }), "scale_columns: 5 values for 4 columns");
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(message([&] {
                  set_diagonal(y, std::vector<double>{0, 1, nan, 0, 0});
              }),
              "set_diagonal: value 2 is not a finite number");
    EXPECT_NE(message([&] { add_on_diagonal(y, nan); }), "");
    EXPECT_NE(message([&] { trace(y, x); }).find("trace: the rows of one matrix are 5 in 2 tiles"), std::string::npos);
    EXPECT_NE(message([&] { hadamard(x, y); }).find("hadamard: index 1 is 4 in 1 tile"), std::string::npos);
    EXPECT_EQ(checksum(y), before);
}

}  // namespace
}  // namespace tessera
