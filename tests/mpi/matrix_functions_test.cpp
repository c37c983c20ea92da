// Functions of matrices on ranks: matrices of a known spectrum, so that the exact result is known too; bounds that
// hold; the bits of one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/draw.hpp"
#include "support/insulator.hpp"
#include "support/message.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/matrix/functions.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {
namespace {

using testing::Draw;
using testing::insulator;
using testing::message;

template <class T>
struct MatrixFunctions : ::testing::Test {
    static constexpr bool kSingle = std::is_same_v<RealOf<T>, float>;
    static constexpr double kEps = kSingle ? 2e-4 : 1e-11;
    using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
    Communicator& ranks = mpi_world();

    static Wide conjugate(const Wide& x) {
        if constexpr (is_complex<T>) return std::conj(x);
        return x;
    }
    /// Eigenvectors: three reflections, each from a random vector.
    struct Basis {
        std::int64_t n;
        std::vector<Wide> q;
        Basis(Draw& draw, std::int64_t rows) : n(rows), q(static_cast<std::size_t>(rows * rows)) {
            for (std::int64_t i = 0; i < n; ++i) at(i, i) = 1;
            for (int round = 0; round < 3; ++round) {
                std::vector<Wide> v(static_cast<std::size_t>(n));
                double square = 0;
                for (auto& x : v) {
                    if constexpr (is_complex<T>)
                        x = {draw.unit() - 0.5, draw.unit() - 0.5};
                    else
                        x = draw.unit() - 0.5;
                    square += std::norm(x);
                }
                for (std::int64_t j = 0; j < n; ++j) {
                    Wide dot{};
                    for (std::int64_t i = 0; i < n; ++i) dot += conjugate(v[static_cast<std::size_t>(i)]) * at(i, j);
                    for (std::int64_t i = 0; i < n; ++i)
                        at(i, j) -= 2.0 / square * v[static_cast<std::size_t>(i)] * dot;
                }
            }
        }
        Wide& at(std::int64_t i, std::int64_t j) { return q[static_cast<std::size_t>(i * n + j)]; }
        /// Q diag(values) Q*
        std::vector<T> matrix(const std::vector<double>& values) {
            std::vector<T> out(static_cast<std::size_t>(n * n));
            for (std::int64_t i = 0; i < n; ++i)
                for (std::int64_t j = 0; j < n; ++j) {
                    Wide sum{};
                    for (std::int64_t k = 0; k < n; ++k)
                        sum += at(i, k) * values[static_cast<std::size_t>(k)] * conjugate(at(j, k));
                    out[static_cast<std::size_t>(i * n + j)] = static_cast<T>(sum);
                }
            return out;
        }
    };
    struct Two {
        Tensor<T> many, one;
    };
    Two tensors(Draw& draw, const Tiling& t, const std::vector<T>& dense) {
        const TileGrid grid{t, t};
        return {Tensor<T>::from_dense(grid, dense, 0, {ranks, draw.distribution(grid, ranks.size())}),
                Tensor<T>::from_dense(grid, dense)};
    }
    static double distance(const std::vector<T>& x, const std::vector<T>& y) {
        double square = 0;
        for (std::size_t i = 0; i < x.size(); ++i) square += std::norm(Wide(x[i]) - Wide(y[i]));
        return std::sqrt(square);
    }
    /// The result of both, which has the same bits, and is what it should be.
    void expect(const MatrixResult<T>& many, const MatrixResult<T>& one, const std::vector<T>& exact, const char* what,
                double times = 1) {
        EXPECT_EQ(checksum(many.matrix), checksum(one.matrix)) << what;
        EXPECT_EQ(many.report.error, one.report.error) << what;
        EXPECT_EQ(many.report.history.size(), one.report.history.size()) << what;
        const double off = distance(one.matrix.to_dense(), exact);
        EXPECT_LE(off, times * kEps) << what;
        // The exact result itself was rounded to T.
        EXPECT_LE(off, one.report.error + times * kEps / 10) << what;
        EXPECT_LE(one.report.error, 300 * times * kEps) << what;
    }
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(MatrixFunctions, Scalars);

TYPED_TEST(MatrixFunctions, OfKnownSpectra) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const std::int64_t n = seed == 1 ? 1 : 9 + draw.below(20);
        const Tiling t = draw.tiling(n);
        typename TestFixture::Basis basis(draw, n);
        std::vector<double> mixed, positive;
        for (std::int64_t i = 0; i < n; ++i) {
            const double x = 0.2 + 0.8 * draw.unit();
            mixed.push_back(i % 3 == 0 ? -x : x);
            positive.push_back(x);
        }
        const auto mapped = [&](const std::vector<double>& values, auto&& f) {
            auto out = values;
            for (double& x : out) x = f(x);
            return basis.matrix(out);
        };
        const MatrixOptions options;
        auto a = this->tensors(draw, t, basis.matrix(mixed));
        this->expect(sign(a.many), sign(a.one), mapped(mixed, [](double x) { return x < 0 ? -1.0 : 1.0; }), "sign");
        this->expect(inverse(a.many), inverse(a.one), mapped(mixed, [](double x) { return 1 / x; }), "inverse", 20);
        this->expect(exponential(a.many), exponential(a.one), mapped(mixed, [](double x) { return std::exp(x); }),
                     "exponential");
        const std::int64_t electrons = (n + 2) / 3;
        const auto lowest = mapped(mixed, [](double x) { return x < 0 ? 1.0 : 0.0; });
        this->expect(purify(a.many, electrons), purify(a.one, electrons), lowest, "purify");
        auto p = this->tensors(draw, t, basis.matrix(positive));
        this->expect(sqrt_inverse(p.many), sqrt_inverse(p.one),
                     mapped(positive, [](double x) { return 1 / std::sqrt(x); }), "sqrt_inverse", 20);
        if (n > 1) {
            const auto purified = purify(a.one, electrons);
            double homo = -2, lumo = 2;
            for (const double x : mixed) (x < 0 ? homo : lumo) = x < 0 ? std::max(homo, x) : std::min(lumo, x);
            EXPECT_GE(purified.report.homo, homo - this->kEps);
            EXPECT_LE(purified.report.lumo, lumo + this->kEps);
            EXPECT_GT(purified.report.gap(), 0.9 * (lumo - homo));
            const auto found = extremal_eigenvalues(a.many, 1e-8);
            const auto all = gershgorin_interval(a.many);
            EXPECT_NEAR(found.lowest, *std::ranges::min_element(mixed), 10 * this->kEps);
            EXPECT_NEAR(found.highest, *std::ranges::max_element(mixed), 10 * this->kEps);
            EXPECT_EQ(found.lowest, extremal_eigenvalues(a.one, 1e-8).lowest);
            EXPECT_LE(all.lowest, found.lowest + this->kEps);
            EXPECT_GE(all.highest, found.highest - this->kEps);
        }
        // A matrix that is not symmetric: A^-1 of Q D.
        auto skew = basis.matrix(positive);
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < n; ++j)
                skew[static_cast<std::size_t>(i * n + j)] *= static_cast<RealOf<T>>(i + 1);
        auto exact = mapped(positive, [](double x) { return 1 / x; });
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < n; ++j)
                exact[static_cast<std::size_t>(i * n + j)] /= static_cast<RealOf<T>>(j + 1);
        auto s = this->tensors(draw, t, skew);
        this->expect(inverse(s.many), inverse(s.one), exact, "inverse of a matrix that is not symmetric", 200);
    }
}

TYPED_TEST(MatrixFunctions, DensityMatricesWithOverlaps) {
    using T = TypeParam;
    Draw draw(5);
    const std::int64_t n = 22, electrons = 8;
    const Tiling t = draw.tiling(n);
    typename TestFixture::Basis basis(draw, n), other(draw, n);
    std::vector<double> energies, overlaps;
    for (std::int64_t i = 0; i < n; ++i) {
        energies.push_back((i < electrons ? -1 : 1) * (0.3 + 0.7 * draw.unit()));
        overlaps.push_back(0.3 + draw.unit());
    }
    // F = S^1/2 H S^1/2 has the eigenvectors of H, times S^-1/2.
    auto root = overlaps, inverse_root = overlaps, projector = energies;
    for (double& x : root) x = std::sqrt(x);
    for (double& x : inverse_root) x = 1 / std::sqrt(x);
    for (double& x : projector) x = x < 0;
    const TileGrid grid{t, t};
    const auto tensor = [&](const std::vector<T>& dense) { return Tensor<T>::from_dense(grid, dense); };
    const auto between = [&](const Tensor<T>& outer, const Tensor<T>& inner) {
        return einsum("ik,kj->ij", einsum("ik,kj->ij", outer, inner), outer);
    };
    const auto f = between(tensor(other.matrix(root)), tensor(basis.matrix(energies)));
    const auto exact = between(tensor(other.matrix(inverse_root)), tensor(basis.matrix(projector)));
    const auto s = this->tensors(draw, t, other.matrix(overlaps));
    const auto two = this->tensors(draw, t, f.to_dense());
    const auto many = purify(two.many, s.many, electrons);
    const auto one = purify(two.one, s.one, electrons);
    this->expect(many, one, exact.to_dense(), "purify with an overlap", 20);
    EXPECT_NEAR(std::abs(trace(one.matrix, s.one)), static_cast<double>(electrons), 100 * this->kEps);
}

TYPED_TEST(MatrixFunctions, BoundsHoldWithFilters) {
    using T = TypeParam;
    const std::int64_t n = 80;
    const Tiling t = Tiling::uniform(n, 4);
    const Placement where(this->ranks, Distribution::even({t, t}, this->ranks.size()));
    const auto f = insulator<T>(n, t, where, 0), s = insulator<T>(n, t, where, 1.5);
    for (const double filter : {1e-3, 1e-4}) {
        MatrixOptions options;
        options.filter = filter;
        const auto check = [&](const char* what, double times, auto&& function) {
            const auto exact = function(MatrixOptions{}), filtered = function(options);
            const double off = norm(add<T>(T(1), exact.matrix, T(-1), filtered.matrix));
            EXPECT_LE(off, filtered.report.error + exact.report.error) << what;
            EXPECT_LE(filtered.report.error, times * filter) << what;
            EXPECT_GT(off, 0) << what;
            EXPECT_LT(filtered.matrix.tile_count(), exact.matrix.tile_count()) << what;
            double left_out = 0;
            for (const auto& step : filtered.report.history) left_out += step.left_out;
            EXPECT_GT(left_out, 0) << what;
            // Tiles cease to change, and then nothing is planned.
            EXPECT_LT(filtered.report.plans, filtered.report.products) << what;
        };
        check("purify", 300, [&](const MatrixOptions& o) { return purify(f, n / 2, o); });
        check("sign", 300, [&](const MatrixOptions& o) { return sign(f, o); });
        check("inverse", 300, [&](const MatrixOptions& o) { return inverse(f, o); });
        check("sqrt_inverse", 1000, [&](const MatrixOptions& o) { return sqrt_inverse(s, o); });
        check("exponential", 1000, [&](const MatrixOptions& o) { return exponential(f, o); });
        check("purify with an overlap", 3000, [&](const MatrixOptions& o) { return purify(f, s, n / 2, o); });
    }
}

TYPED_TEST(MatrixFunctions, SameBitsWithFilters) {
    using T = TypeParam;
    const std::int64_t n = 90;
    Draw draw(3);
    const Tiling t = draw.tiling(n);
    const Placement where(this->ranks, Distribution::even({t, t}, this->ranks.size()));
    const auto many = insulator<T>(n, t, where, 0), one = insulator<T>(n, t, {}, 0);
    MatrixOptions options;
    options.filter = 1e-3;
    for (const auto scaling : {Scaling::gershgorin, Scaling::lanczos}) {
        options.scaling = scaling;
        const auto d = purify(one, n / 2, options, {.threads = 1});
        EXPECT_EQ(checksum(purify(many, n / 2, options).matrix), checksum(d.matrix));
        EXPECT_EQ(checksum(purify(one, n / 2, options, {.threads = 3}).matrix), checksum(d.matrix));
        EXPECT_EQ(checksum(sign(many, options).matrix), checksum(sign(one, options, {.threads = 1}).matrix));
        EXPECT_EQ(checksum(inverse(many, options).matrix), checksum(inverse(one, options, {.threads = 1}).matrix));
    }
}

TEST(MatrixFunctionsOnRanks, SayWhatIsWrong) {
    Communicator& ranks = mpi_world();
    const Tiling t = Tiling::uniform(12, 4), other = Tiling::uniform(12, 5), wide = Tiling::uniform(13, 4);
    const auto with = [&](const Tiling& rows, const Tiling& columns) {
        const TileGrid grid{rows, columns};
        return Tensor<double>::random(Shape::dense(grid), 1, 0, {ranks, Distribution::even(grid, ranks.size())});
    };
    EXPECT_EQ(message([&] { inverse(with(t, wide)); }),
              "inverse: a square matrix is needed, this one has 12 rows and 13 columns");
    EXPECT_NE(message([&] { inverse(with(t, other)); }).find("inverse: rows are"), std::string::npos);
    EXPECT_NE(message([&] { sign(with(t, t)); }).find("sign: a symmetric matrix is needed, this one is"),
              std::string::npos);
    const Placement where(ranks, Distribution::even({t, t}, ranks.size()));
    auto f = insulator<double>(12, t, where, 0);
    EXPECT_EQ(message([&] { purify(f, 13); }), "purify: 13 electrons in 12 states");
    EXPECT_EQ(message([&] { purify(f, -1); }), "purify: -1 electrons in 12 states");
    MatrixOptions bad;
    bad.filter = -1;
    EXPECT_EQ(message([&] { sign(f, bad); }), "sign: filter -1 is not a finite number >= 0");
    bad.filter = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(message([&] { sign(f, bad); }), "sign: filter nan is not a finite number >= 0");
    EXPECT_NE(message([&] { sqrt_inverse(f); }).find("sqrt_inverse: the matrix is not positive definite"),
              std::string::npos);
    EXPECT_EQ(purify(f, 0).matrix.tile_count(), 0);
    EXPECT_EQ(trace(purify(f, 12).matrix), 12);

    MatrixOptions few;
    few.max_iterations = 3;
    try {
        purify(f, 6, few);
        FAIL() << "three iterations are not enough";
    } catch (const MatrixNotConverged& e) {
        EXPECT_EQ(e.exit_code(), 4);
        EXPECT_EQ(e.report().history.size(), 4u);
        EXPECT_NE(std::string(e.what()).find("purify: not converged after 4 iterations"), std::string::npos)
            << e.what();
    }
    // Half an electron in each of two states of one energy; a matrix without an inverse.
    Tensor<double> same(Shape({t, t}), where);
    set_diagonal(same, std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2});
    EXPECT_THROW(purify(same, 6), MatrixNotConverged);
    EXPECT_THROW(inverse(same), MatrixNotConverged);
}

TEST(MatrixFunctionsOnRanks, OfNoRows) {
    Communicator& ranks = mpi_world();
    const Tiling none = Tiling::from_sizes({});
    const Tensor<double> a(Shape({none, none}), {ranks, Distribution::even({none, none}, ranks.size())});
    EXPECT_EQ(sign(a).matrix.tile_count(), 0);
    EXPECT_EQ(inverse(a).matrix.tile_count(), 0);
    EXPECT_EQ(exponential(a).matrix.tile_count(), 0);
    EXPECT_EQ(sqrt_inverse(a).matrix.tile_count(), 0);
    EXPECT_EQ(purify(a, 0).matrix.tile_count(), 0);
}

}  // namespace
}  // namespace tessera
