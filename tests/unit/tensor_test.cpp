#include "tessera/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "base/page_pool.hpp"
#include "storage/buffer.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

template <class T>
class TensorAlgebra : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(TensorAlgebra, AllScalars);

template <Scalar T>
std::vector<T> random_dense(std::int64_t n, unsigned seed, double zeros = 0) {
    std::mt19937 r(seed);
    std::uniform_real_distribution<> u(-1, 1);
    std::vector<T> x(static_cast<std::size_t>(n));
    for (auto& e : x) {
        if constexpr (is_complex<T>)
            e = T(static_cast<RealOf<T>>(u(r)), static_cast<RealOf<T>>(u(r)));
        else
            e = static_cast<T>(u(r));
        if (std::abs(u(r)) < zeros) e = T{};
    }
    return x;
}

TYPED_TEST(TensorAlgebra, DenseRoundTripOfAnyRank) {
    using T = TypeParam;
    const Tiling t{1, 2}, s{2};
    for (int rank = 0; rank <= 8; ++rank) {
        std::vector<Tiling> tilings;
        for (int d = 0; d < rank; ++d) tilings.push_back(d % 2 ? s : t);
        const TileGrid grid(tilings);
        const auto dense = random_dense<T>(grid.element_total(), 7);
        const auto x = Tensor<T>::from_dense(grid, dense);
        EXPECT_EQ(x.to_dense(), dense) << rank;
        EXPECT_TRUE(x == Tensor<T>(x));
        double square = 0;
        for (const T& e : dense) square += static_cast<double>(std::norm(e));
        EXPECT_NEAR(norm(x), std::sqrt(square), 1e-6 * std::sqrt(square));
    }
}

TYPED_TEST(TensorAlgebra, ZeroTilesAreNotStored) {
    using T = TypeParam;
    const TileGrid grid{Tiling{2, 2}, Tiling{3, 1}};
    std::vector<T> dense(16);
    dense[3] = T(2);  // element (0, 3): tile (0, 1)
    const auto x = Tensor<T>::from_dense(grid, dense);
    ASSERT_EQ(x.tile_count(), 1);
    EXPECT_TRUE(x.tile({0, 0}).empty());
    EXPECT_EQ(x.tile({0, 1})[0], T(2));
    EXPECT_EQ(x.to_dense(), dense);
    EXPECT_EQ(Tensor<T>::from_dense(grid, dense, 3.0).tile_count(), 0);
}

TYPED_TEST(TensorAlgebra, AddScaleAxpyDotFilter) {
    using T = TypeParam;
    const TileGrid grid{Tiling{3, 2, 4}, Tiling{2, 5}};
    auto dx = random_dense<T>(63, 1), dy = random_dense<T>(63, 2);
    for (int i = 0; i < 2; ++i)
        for (int r = 0; r < 3; ++r) dx[static_cast<std::size_t>(r * 7 + i)] = T{};  // tile (0, 0) of x is zero
    const auto x = Tensor<T>::from_dense(grid, dx), y = Tensor<T>::from_dense(grid, dy);
    ASSERT_EQ(x.tile_count(), 5);
    const double eps = std::is_same_v<RealOf<T>, float> ? 1e-5 : 1e-14;

    const auto sum = add(T(2), x, T(-1), y).to_dense();
    for (std::size_t i = 0; i < 63; ++i) EXPECT_NEAR(std::abs(sum[i] - (T(2) * dx[i] - dy[i])), 0, eps);
    auto z = x;
    axpy(T(3), y, z);
    auto w = y;
    axpy(T(3), x, w);
    for (std::size_t i = 0; i < 63; ++i) {
        EXPECT_NEAR(std::abs(z.to_dense()[i] - (dx[i] + T(3) * dy[i])), 0, eps);
        EXPECT_NEAR(std::abs(w.to_dense()[i] - (dy[i] + T(3) * dx[i])), 0, eps);
    }
    scale(z, T(0.5));
    EXPECT_NEAR(std::abs(z.to_dense()[10] - T(0.5) * (dx[10] + T(3) * dy[10])), 0, eps);
    EXPECT_NEAR(norm(z), z.shape().norm(), 0);

    T expected{};
    double top = 0;
    for (std::size_t i = 0; i < 63; ++i) {
        expected += conjugate_if(dx[i], true) * dy[i];
        top = std::max(top, static_cast<double>(std::abs(dy[i])));
    }
    EXPECT_NEAR(std::abs(dot(x, y) - expected), 0, 20 * eps);
    EXPECT_NEAR(max_abs(y), top, eps);

    const double middle = std::ranges::max(y.shape().norms());
    const auto kept = filter(y, middle);
    for (double n : kept.shape().norms()) EXPECT_GE(n, middle);
    EXPECT_LT(kept.tile_count(), y.tile_count());
    EXPECT_GT(kept.tile_count(), 0);
    EXPECT_THROW(filter(y, -1), UserError);
}

TYPED_TEST(TensorAlgebra, PermuteConvertUpdateChecksum) {
    using T = TypeParam;
    const TileGrid grid{Tiling{3, 2}, Tiling{2, 5}, Tiling{4}};
    const auto dense = random_dense<T>(5 * 7 * 4, 3);
    const auto x = Tensor<T>::from_dense(grid, dense);
    const auto p = permute(x, {2, 0, 1});
    const auto got = p.to_dense();
    for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t j = 0; j < 7; ++j)
            for (std::size_t k = 0; k < 4; ++k) ASSERT_EQ(got[(k * 5 + i) * 7 + j], dense[(i * 7 + j) * 4 + k]);
    EXPECT_TRUE(permute(p, Permutation{2, 0, 1}.inverse()) == x);
    EXPECT_THROW(permute(x, {1, 0}), UserError);

    const auto wide = convert<std::complex<double>>(x);
    EXPECT_TRUE(convert<T>(wide) == x);
    EXPECT_EQ(checksum(x), checksum(Tensor<T>(x)));
    EXPECT_NE(checksum(x), checksum(p));
    auto y = x;
    y.update_tiles([](const TileInfo& info, std::span<T> tile) {
        if (info.tile.value == 2) tile[0] += T(1e-3F);
    });
    EXPECT_NE(checksum(x), checksum(y));
    EXPECT_FALSE(x == y);
    EXPECT_NE(x.shape().norm_of(2), y.shape().norm_of(2));
}

TYPED_TEST(TensorAlgebra, RandomKeepsTheNormsOfTheShapeAndItsSeed) {
    using T = TypeParam;
    const Shape shape(TileGrid{Tiling{30, 20}, Tiling{40}}, {{TileOrdinal{0}, 1e-3}, {TileOrdinal{1}, 50.0}});
    const auto x = Tensor<T>::random(shape, 5, 1), y = Tensor<T>::random(shape, 5, 3);
    EXPECT_TRUE(x == y);
    EXPECT_FALSE(x == Tensor<T>::random(shape, 6));
    for (std::int64_t s = 0; s < 2; ++s) {
        EXPECT_LE(x.shape().norm_of(s), shape.norm_of(s));
        EXPECT_GT(x.shape().norm_of(s), 0.4 * shape.norm_of(s));
    }
}

TEST(Tensor, NormsSurviveHugeAndTinyElements) {
    const TileGrid g{Tiling{2}};
    EXPECT_NEAR(norm(Tensor<double>::from_dense(g, std::vector{3e200, 4e200})) / 5e200, 1, 1e-15);
    EXPECT_NEAR(norm(Tensor<double>::from_dense(g, std::vector{3e-200, 4e-200})) / 5e-200, 1, 1e-15);
}

TEST(Tensor, ATileByCoordinatesAndBySlot) {
    const auto x =
        Tensor<double>::generate(Shape(TileGrid{Tiling{2, 2, 2, 2}}, {{TileOrdinal{1}, 1.0}, {TileOrdinal{3}, 1.0}}),
                                 [](const TileInfo& info, std::span<double> tile) {
                                     std::ranges::fill(tile, info.tile.value == 1 ? 2.0 : 4.0);
                                 });
    EXPECT_EQ(x.tile({1})[0], 2);
    EXPECT_EQ(x.tile({3})[0], 4);
    EXPECT_TRUE(x.tile({0}).empty());
    EXPECT_EQ(x.tile(1)[0], 4);
}

TEST(Tensor, NormsAreThoseOfTheDataAfterAFailure) {
    const TileGrid grid{Tiling{2, 2, 2}};
    const auto ones = Tensor<double>::generate(
        Shape::dense(grid), [](const TileInfo&, std::span<double> tile) { std::ranges::fill(tile, 1.0); });
    const auto expect_true_norms = [](const Tensor<double>& x) {
        for (std::int64_t s = 0; s < x.tile_count(); ++s)
            EXPECT_DOUBLE_EQ(x.shape().norm_of(s), std::hypot(x.tile(s)[0], x.tile(s)[1])) << s;
    };
    auto x = ones;
    EXPECT_THROW(x.update_tiles([](const TileInfo& info, std::span<double> tile) {
        tile[0] = info.tile.value == 1 ? std::nan("") : 5.0;
    }),
                 UserError);
    expect_true_norms(x);
    EXPECT_EQ(x.tile(1)[0], 0);
    EXPECT_EQ(x.tile(2)[0], 5);
    x = ones;
    EXPECT_THROW(x.update_tiles([](const TileInfo& info, std::span<double> tile) {
        tile[1] = 9;
        if (info.tile.value == 2) throw UserError("no more");
    }),
                 UserError);
    expect_true_norms(x);
    x = ones;
    scale(x, 1e308);
    EXPECT_THROW(scale(x, 1e308), UserError);
    expect_true_norms(x);
}

TEST(Tensor, BadInput) {
    const TileGrid g{Tiling{2, 2}};
    EXPECT_THROW(Tensor<double>::from_dense(g, std::vector{1.0, 2.0}), UserError);
    EXPECT_THROW(Tensor<double>::from_dense(g, std::vector{1.0, 2.0, std::nan(""), 0.0}), UserError);
    EXPECT_THROW(Tensor<double>::generate(Shape::dense(g),
                                          [](const TileInfo&, std::span<double> x) {
                                              x[0] = HUGE_VAL;
                                              x[1] = 0;
                                          }),
                 UserError);
    const Tensor<double> x(Shape::dense(g)), other(Shape::dense(TileGrid{Tiling{4}}));
    EXPECT_THROW(add(1.0, x, 1.0, other), UserError);
    EXPECT_THROW(x.tile(2), UserError);
    EXPECT_THROW(x.tile({2}), UserError);
    const auto z = Tensor<std::complex<double>>::from_dense(g, std::vector<std::complex<double>>{{1, 1}, 0, 0, 0});
    EXPECT_THROW(convert<double>(z), UserError);
}

TEST(Tensor, MetadataIsSmall) {
    const Tiling t = Tiling::uniform(32 * 100, 32);
    const Tensor<double> x(Shape::dense(TileGrid{t, t}));
    EXPECT_LT(static_cast<double>(x.metadata_bytes()), 0.01 * static_cast<double>(x.tile_bytes()));
}

// Random blocks of several threads: none overlap, all are on the grid of huge pages, and what is kept and used together
// stays below the most that was used at once.
TEST(PagePool, ReusesAndNeverHoldsMoreThanThePeak) {
    PagePool pool;
    constexpr std::int64_t page = PagePool::kPage;
    std::atomic<std::int64_t> used{0};
    const auto work = [&](unsigned seed) {
        std::mt19937 random(seed);
        std::vector<std::pair<std::byte*, std::int64_t>> mine;
        for (int step = 0; step < 400; ++step) {
            if (mine.size() < 6 && random() % 2 == 0) {
                const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % (9 * page));
                std::byte* block = pool.take(bytes);
                ASSERT_NE(block, nullptr);
                EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % page, 0u);
                used += (bytes + page - 1) / page * page;
                // Marks at both ends: a block handed out twice would lose them.
                block[0] = static_cast<std::byte>(seed);
                block[bytes - 1] = static_cast<std::byte>(seed);
                mine.emplace_back(block, bytes);
            } else if (!mine.empty()) {
                std::swap(mine[random() % mine.size()], mine.back());
                const auto [block, bytes] = mine.back();
                EXPECT_EQ(block[0], static_cast<std::byte>(seed));
                EXPECT_EQ(block[bytes - 1], static_cast<std::byte>(seed));
                pool.give(block, bytes);
                used -= (bytes + page - 1) / page * page;
                mine.pop_back();
            }
        }
        for (const auto& [block, bytes] : mine) pool.give(block, bytes);
    };
    std::vector<std::thread> threads;
    for (unsigned t = 1; t <= 3; ++t) threads.emplace_back(work, t);
    for (auto& t : threads) t.join();
    pool.release();
    EXPECT_EQ(pool.kept(), 0);

    // 8 pages are the most in use at once: of 5 kept, a request that none of them fits leaves no more than that.
    std::byte* a = pool.take(5 * page);
    std::byte* b = pool.take(3 * page);
    pool.give(a, 5 * page);
    EXPECT_EQ(pool.kept(), 5 * page);
    std::byte* c = pool.take(2 * page);
    EXPECT_EQ(c, a);
    EXPECT_EQ(pool.kept(), 3 * page);
    std::byte* d = pool.take(4 * page);
    EXPECT_EQ(pool.kept(), 0) << "3 + 2 + 4 are more than the peak of 8 without anything kept";
    for (const auto& [block, pages] : {std::pair{d, 4}, {b, 3}, {c, 2}}) pool.give(block, pages * page);
    EXPECT_EQ(pool.kept(), 9 * page);
    pool.release();
}

TEST(MemoryBudget, IsAPromise) {
    MemoryBudget budget(1000);
    {
        Buffer a(512, &budget, "first");
        EXPECT_EQ(budget.used(), 512);
        try {
            Buffer b(600, &budget, "second");
            FAIL();
        } catch (const BudgetError& e) {
            EXPECT_EQ(e.smallest_bytes(), 512 + 640);
            EXPECT_NE(std::string(e.what()).find("second"), std::string::npos);
        }
        Buffer c(400, &budget, "third");
        EXPECT_EQ(budget.used(), 512 + 448);
        Buffer d = std::move(c);
        EXPECT_EQ(budget.used(), 512 + 448);
    }
    EXPECT_EQ(budget.used(), 0);
    EXPECT_EQ(budget.peak(), 960);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Buffer(100).data()) % 64, 0u);
}

}  // namespace
}  // namespace tessera
