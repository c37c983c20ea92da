// Some of the ranks as a group of their own: contractions at the same time, tensors copied from group to group.
#include <gtest/gtest.h>

#include "support/draw.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

using testing::Draw;

/// Those of `world` with one colour, in this order of keys.
std::unique_ptr<Communicator> group_of(int colour, int key) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, colour, key, &part);
    auto out = mpi_communicator(part);  // a duplicate
    MPI_Comm_free(&part);
    return out;
}

TEST(Groups, ContractAtTheSameTime) {
    Communicator& world = mpi_world();
    const int groups = std::min(2, world.size()), mine = world.rank() % groups;
    const auto ranks = group_of(mine, -world.rank());
    for (unsigned seed = 1; seed <= 4; ++seed) {
        // Each group its own work, of its own length.
        const int edge = 40 + 24 * mine + 8 * static_cast<int>(seed);
        const auto t = Tiling::uniform(edge, 8);
        const TileGrid grid{t, t};
        Draw draw(seed + 10 * static_cast<unsigned>(mine));
        const Shape a = draw.shape(grid, 0.6), b = draw.shape(grid, 0.5);
        const Placement where(*ranks, Distribution::even(grid, ranks->size()));
        const Resources here{.threads = 2};
        const auto c = contract("ij,jk->ik", Tensor<double>::random(a, seed, 0, where),
                                Tensor<double>::random(b, seed + 1, 0, where), here);
        const auto alone =
            contract("ij,jk->ik", Tensor<double>::random(a, seed), Tensor<double>::random(b, seed + 1), here);
        EXPECT_EQ(checksum(c.tensor), checksum(alone.tensor)) << seed;
    }
}

template <Scalar T>
void copy_both_ways(Communicator& world) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        const int some = 1 + static_cast<int>(seed) % world.size();  // the last so many ranks, in reverse
        const bool inside = world.rank() >= world.size() - some;
        const auto part = group_of(inside ? 0 : 1, -world.rank());
        Draw draw(seed);
        const TileGrid grid = draw.grid();
        const Shape shape = draw.shape(grid, 0.6);
        const auto one = Tensor<T>::random(shape, seed);
        const auto x = Tensor<T>::random(shape, seed, 0, {world, draw.distribution(grid, world.size())});
        const Placement there(*part, Distribution::even(grid, part->size())),
            back(world, Distribution::even(grid, world.size()));
        const auto copy = copy_between(world, &x, inside ? &there : nullptr);
        ASSERT_EQ(copy.has_value(), inside);
        if (copy) {
            EXPECT_EQ(copy->shape(), one.shape());
            EXPECT_EQ(checksum(*copy), checksum(one));
            EXPECT_EQ(&copy->communicator(), part.get());
        }
        const auto again = copy_between(world, copy ? &*copy : nullptr, &back);
        ASSERT_TRUE(again.has_value());
        EXPECT_EQ(checksum(*again), checksum(one));
    }
}

TEST(Groups, TensorsAreCopiedBetweenThem) {
    copy_both_ways<double>(mpi_world());
    copy_both_ways<std::complex<float>>(mpi_world());
}

TEST(Groups, WhatIsNotOneGroupIsRefused) {
    Communicator& world = mpi_world();
    const TileGrid grid{Tiling::uniform(8, 4)};
    const auto x = Tensor<double>::random(Shape::dense(grid), 1, 0, {world, Distribution::even(grid, world.size())});
    EXPECT_THROW(copy_between<double>(world, nullptr, nullptr), UserError);
    EXPECT_THROW(copy_between<double>(world, &x, nullptr), UserError);
    if (world.size() == 1) return;
    // Not all ranks of the placement take part, and each rank is a group of its own.
    const Placement where(world, Distribution::even(grid, world.size())), self;
    EXPECT_THROW(copy_between(world, &x, world.rank() == 0 ? &where : nullptr), UserError);
    EXPECT_THROW(copy_between(world, &x, &self), UserError);
}

}  // namespace
}  // namespace tessera
