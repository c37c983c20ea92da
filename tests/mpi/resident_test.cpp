// Tensors dealt over ranks and the devices of each: the bits of one rank's hosts. Host memory plays the devices.

#include <gtest/gtest.h>

#include "device/host_store.hpp"
#include "support/draw.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {
namespace {

using testing::Draw;

template <class T>
struct ResidentRanks : ::testing::Test {
    Communicator& ranks = mpi_world();
    const StandInStores stores{host_stores(2)};
    Placement dealt(const Distribution& d) {
        Placement where(ranks, d);
        where.devices = {0, 1};
        return where;
    }
};
using Scalars = ::testing::Types<float, std::complex<double>>;
TYPED_TEST_SUITE(ResidentRanks, Scalars);

TYPED_TEST(ResidentRanks, TheBitsOfOneRanksHost) {
    using T = TypeParam;
    const int n = this->ranks.size();
    for (unsigned seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const Tiling i{3, 1, 4}, j{2, 5, 2}, k{4, 4, 1};
        const Shape sx = draw.shape(TileGrid{i, k}, 0.8), sy = draw.shape(TileGrid{k, j}, 0.8);
        const auto dx = draw.distribution(sx.grid(), n), dy = draw.distribution(sy.grid(), n);
        const auto x1 = Tensor<T>::random(sx, seed), y1 = Tensor<T>::random(sy, seed + 9);
        const auto x = Tensor<T>::random(sx, seed, 0, this->dealt(dx)),
                   y = Tensor<T>::random(sy, seed + 9, 0, this->dealt(dy));
        for (std::int64_t s = 0; s < x.tile_count(); ++s) EXPECT_EQ(x.device(s) >= 0, x.is_local(s));
        EXPECT_EQ(x.shape(), x1.shape());
        EXPECT_EQ(checksum(x), checksum(x1));
        EXPECT_EQ(dot(x, x), dot(x1, x1));
        EXPECT_EQ(x.to_dense(), x1.to_dense());
        auto z = add(T(2), x, T(-1), x), z1 = add(T(2), x1, T(-1), x1);
        axpy(T(3), x, z);
        axpy(T(3), x1, z1);
        EXPECT_EQ(checksum(z), checksum(z1));
        EXPECT_TRUE(z.on_devices());
        const auto moved = redistribute(x, Distribution::even(sx.grid(), n));
        EXPECT_TRUE(moved.on_devices());
        EXPECT_EQ(checksum(moved), checksum(x1));
        const auto turned = permute(x, {1, 0});
        EXPECT_EQ(checksum(turned), checksum(permute(x1, {1, 0})));
        if (n == 1) continue;
        const auto c = contract("ik,kj->ij", x, y).tensor;
        EXPECT_EQ(checksum(c), checksum(einsum("ik,kj->ij", x1, y1)));
        EXPECT_TRUE(c.on_devices());
    }
}

}  // namespace
}  // namespace tessera
