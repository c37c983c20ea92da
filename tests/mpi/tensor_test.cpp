// What any number of ranks makes of tensors has the bits that one rank makes.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "support/draw.hpp"
#include "tensor/exchange.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {
namespace {

using Deal = Distribution::Deal;
using testing::Draw;

template <class T>
struct Ranks : ::testing::Test {
    Communicator& ranks = mpi_world();
    Placement dealt(const Distribution& d) { return {ranks, d}; }
    void expect_same(const Tensor<T>& many, const Tensor<T>& one, const char* what) {
        ASSERT_EQ(many.shape(), one.shape()) << what;
        ASSERT_EQ(checksum(many), checksum(one)) << what;
        for (std::int64_t s = 0; s < one.tile_count(); ++s) {
            ASSERT_EQ(many.is_local(s), many.owner(s) == ranks.rank());
            ASSERT_EQ(many.tile(s).size(), many.is_local(s) ? one.tile(s).size() : 0u);
            ASSERT_TRUE(!many.is_local(s) || std::ranges::equal(many.tile(s), one.tile(s))) << what;
        }
    }
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Ranks, Scalars);

TYPED_TEST(Ranks, TheAlgebraHasOneRanksBits) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const TileGrid grid = draw.grid();
        const Shape sx = draw.shape(grid, 0.6), sy = draw.shape(grid, 0.5);
        const Distribution dx = draw.distribution(grid, this->ranks.size()),
                           dy = draw.distribution(grid, this->ranks.size());
        const auto x1 = Tensor<T>::random(sx, seed), y1 = Tensor<T>::random(sy, seed + 100);
        const auto x = Tensor<T>::random(sx, seed, 0, this->dealt(dx));
        const auto y = Tensor<T>::random(sy, seed + 100, 0, this->dealt(dy));
        this->expect_same(x, x1, "random");
        this->expect_same(y, y1, "random");

        T alpha(static_cast<RealOf<T>>(1.25)), beta(static_cast<RealOf<T>>(-0.3));
        if constexpr (is_complex<T>) alpha += T(0, static_cast<RealOf<T>>(0.7));
        const T d = dot(x, y), d1 = dot(x1, y1);
        EXPECT_EQ(std::memcmp(&d, &d1, sizeof d), 0);
        EXPECT_EQ(norm(x), norm(x1));
        EXPECT_EQ(max_abs(x), max_abs(x1));
        this->expect_same(add(alpha, x, beta, y), add(alpha, x1, beta, y1), "add");
        auto z = y, z1 = y1;
        axpy(alpha, x, z);
        axpy(alpha, x1, z1);
        this->expect_same(z, z1, "axpy");
        EXPECT_TRUE(z.distribution() == dy || this->ranks.size() == 1);
        auto w = add(alpha, x, beta, y), w1 = add(alpha, x1, beta, y1);
        axpy(beta, y, w);  // into a tensor that has all the tiles
        axpy(beta, y1, w1);
        this->expect_same(w, w1, "axpy in place");
        scale(z, beta);
        scale(z1, beta);
        this->expect_same(z, z1, "scale");
        this->expect_same(filter(x, 0.6), filter(x1, 0.6), "filter");
        EXPECT_EQ(checksum(convert<std::complex<double>>(x)), checksum(convert<std::complex<double>>(x1)));
        EXPECT_EQ(checksum(convert<std::complex<float>>(x)), checksum(convert<std::complex<float>>(x1)));

        const auto moved = redistribute(x, dy);
        EXPECT_EQ(moved.distribution(), dy);
        this->expect_same(moved, x1, "redistribute");
        EXPECT_TRUE(moved == x);
        EXPECT_EQ(moved.to_dense(), x1.to_dense());
        EXPECT_EQ(x == z, x1 == z1);
        const auto dense = x1.to_dense();
        this->expect_same(Tensor<T>::from_dense(grid, dense, 0, this->dealt(dy)), Tensor<T>::from_dense(grid, dense),
                          "from_dense");
        this->expect_same(Tensor<T>(sx, this->dealt(dx)), Tensor<T>(sx), "zeros");

        const int root = static_cast<int>(seed) % this->ranks.size();
        const auto whole = gather(x, root);
        EXPECT_EQ(whole.communicator().size(), 1);
        EXPECT_EQ(whole.tile_count(), this->ranks.rank() == root ? x1.tile_count() : 0);
        if (this->ranks.rank() == root) {
            EXPECT_EQ(checksum(whole), checksum(x1));
        }
        this->expect_same(scatter(whole, this->ranks, dy, root), x1, "scatter");
    }
}

TYPED_TEST(Ranks, ABitThatDiffersOnOneRankIsSeenByAll) {
    using T = TypeParam;
    const TileGrid grid{Tiling::uniform(12, 2), Tiling::uniform(9, 3)};
    const auto d = Distribution::even(grid, this->ranks.size());
    const auto x = Tensor<T>::random(Shape::dense(grid), 1, 0, this->dealt(d));
    for (std::int64_t slot : {std::int64_t{0}, std::int64_t{7}, x.tile_count() - 1}) {
        auto y = x;
        y.update_tiles([&](const TileInfo& info, std::span<T> tile) {
            if (info.tile == x.shape().tile(slot)) tile.back() = -tile.back();
        });
        EXPECT_FALSE(x == y);
        EXPECT_NE(checksum(x), checksum(y));
        EXPECT_EQ(y.shape(), x.shape());  // the norm stays
    }
}

TEST(RanksStreams, BatchesOfAnySize) {
    Communicator& ranks = mpi_world();
    Draw draw(5);
    for (int round = 0; round < 10; ++round) {
        const TileGrid grid = draw.grid();
        const Shape shape = draw.shape(grid, 0.8);
        const auto x1 = Tensor<double>::random(shape, 3);
        const auto x = Tensor<double>::random(shape, 3, 0, {ranks, draw.distribution(grid, ranks.size())});
        for (const std::int64_t batch : {1, 500, 4000, 1 << 20}) {
            const int root = draw.below(ranks.size());
            std::int64_t seen = 0;
            Tensor<double> y(shape, x.placement());
            std::vector<double> kept;
            stream_to_root<double>(
                x, root,
                [&](std::int64_t first, std::int64_t last, std::span<const double> elements) {
                    EXPECT_EQ(first, seen);
                    seen = last;
                    kept.insert(kept.end(), elements.begin(), elements.end());
                },
                batch);
            EXPECT_EQ(seen, x.tile_count());
            std::size_t at = 0;
            if (ranks.rank() == root) {
                for (std::int64_t s = 0; s < x1.tile_count(); ++s)
                    for (const double e : x1.tile(s)) ASSERT_EQ(kept[at++], e);
            }
            EXPECT_EQ(at, kept.size());
            at = 0;
            stream_from_root<double>(
                y, root,
                [&](std::int64_t, std::int64_t, std::span<double> elements) {
                    for (double& e : elements) e = kept[at++];
                },
                batch);
            EXPECT_TRUE(x == y);
        }
    }
}

TEST(RanksErrors, AllRanksThrowOrNone) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling::uniform(8, 2)}, other{Tiling::uniform(8, 4)};
    const Placement dealt(ranks, Distribution::even(grid, ranks.size()));
    const auto nan = [](const TileInfo& info, std::span<double> tile) {
        if (info.tile.value == 2) tile[0] = std::numeric_limits<double>::quiet_NaN();
    };
    EXPECT_THROW(Tensor<double>::generate(Shape::dense(grid), nan, 0, dealt), UserError);
    std::vector<double> dense(8, 1.0);
    dense[5] = std::numeric_limits<double>::infinity();
    EXPECT_THROW(Tensor<double>::from_dense(grid, dense, 0, dealt), UserError);
    const Tensor<double> x(Shape::dense(grid), dealt), y(Shape::dense(other), dealt);
    EXPECT_THROW(dot(x, y), UserError);
    EXPECT_THROW(Tensor<double>(Shape::dense(grid), {ranks, Distribution(ranks.size() + 1, {})}), UserError);
    EXPECT_THROW(Tensor<double>(Shape::dense(grid), {ranks, Distribution(ranks.size(), {{1}, {1}})}), UserError);
    EXPECT_THROW(gather(x, ranks.size()), UserError);
    EXPECT_THROW(redistribute(x, Distribution(ranks.size(), {{1}, {1}})), UserError);
    if (ranks.size() > 1) {
        EXPECT_THROW(dot(x, Tensor<double>(Shape::dense(grid))), UserError);  // one on all ranks, one on each
        EXPECT_THROW(scatter(x, ranks, x.distribution()), UserError);
    }
    ranks.barrier();
}

TEST(RanksLimit, TensorsMoveInParts) {
    const auto ranks = mpi_communicator(MPI_COMM_WORLD, 100);
    const TileGrid grid{Tiling::uniform(20, 3), Tiling::uniform(20, 7)};
    const auto one = Tensor<double>::random(Shape::dense(grid), 9);
    const auto x = Tensor<double>::random(Shape::dense(grid), 9, 0, {*ranks, Distribution::even(grid, ranks->size())});
    const auto y = redistribute(x, Distribution(ranks->size(), {{1}, {ranks->size(), Deal::blocked}}));
    EXPECT_EQ(checksum(y), checksum(one));
    EXPECT_EQ(y.to_dense(), one.to_dense());
}

}  // namespace
}  // namespace tessera
