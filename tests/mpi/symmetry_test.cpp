// Tensors with symmetry on ranks have the bits of one rank.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "support/draw.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {
namespace {

using testing::Draw;

template <class T>
struct Ranks : ::testing::Test {
    Communicator& ranks = mpi_world();
    void expect_same(const Tensor<T>& many, const Tensor<T>& one, const std::string& what) {
        ASSERT_EQ(many.shape(), one.shape()) << what;
        for (std::int64_t s = 0; s < one.tile_count(); ++s)
            if (many.is_local(s)) {
                ASSERT_EQ(std::memcmp(many.tile(s).data(), one.tile(s).data(), one.tile(s).size_bytes()), 0) << what;
            }
    }
};
using Scalars = ::testing::Types<double, std::complex<float>>;
TYPED_TEST_SUITE(Ranks, Scalars);

TYPED_TEST(Ranks, TensorsWithSymmetry) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        Draw draw(seed);
        std::vector<std::int64_t> sizes;
        for (int t = 2 + draw.below(3); t > 0; --t) sizes.push_back(1 + draw.below(6));
        const auto tiling = Tiling::from_sizes(sizes);
        for (const char* symmetry : {"ij=ji*", "ij=-ji", "ijk=jki", "ijab=-jiab,ijab=-ijba"}) {
            const TileGrid grid(std::vector<Tiling>(static_cast<std::size_t>(Symmetry(symmetry).rank()), tiling));
            const auto shape = draw.shape(grid, 0.7).with_symmetry(symmetry);
            const auto d = draw.distribution(grid, this->ranks.size()), e = draw.distribution(grid, this->ranks.size());
            const auto x1 = Tensor<T>::random(shape, seed), x = Tensor<T>::random(shape, seed, 0, {this->ranks, d});
            this->expect_same(x, x1, "random");
            const auto whole = desymmetrise(x), whole1 = desymmetrise(x1);
            this->expect_same(whole, whole1, "desymmetrise");
            EXPECT_TRUE(with_symmetry(whole, symmetry) == x);
            EXPECT_EQ(x.to_dense(), x1.to_dense());
            const T one = dot(x, x), other = dot(x1, x1);
            EXPECT_EQ(std::memcmp(&one, &other, sizeof one), 0);
            this->expect_same(redistribute(x, e), x1, "redistribute");
            const auto at_root = gather(x);
            EXPECT_EQ(at_root.shape().symmetry(), Symmetry(symmetry));
            this->expect_same(scatter(at_root, this->ranks, e), x1, "gather and scatter");
        }
    }
}

TYPED_TEST(Ranks, ContractionsHaveTheSameBits) {
    using T = TypeParam;
    struct Product {
        const char *spec, *a, *b, *c;
    };
    for (unsigned seed = 1; seed <= 4; ++seed)
        for (const auto& p :
             {Product{"ij,jk->ik", "ij=ji*", "ij=-ji", ""}, Product{"ki,kj->ij", "ij=-ji", "ij=-ji", "ij=ji"},
              Product{"ijcd,cdab->ijab", "ijcd=jidc", "cdab=dcba", "ijab=jiba"}})
            for (const auto algorithm :
                 {Algorithm::automatic, Algorithm::stationary_b, Algorithm::outer_product, Algorithm::replicate_b}) {
                Draw draw(seed);
                std::vector<std::int64_t> sizes;
                for (int t = 2 + draw.below(3); t > 0; --t) sizes.push_back(1 + draw.below(6));
                const TileGrid grid(std::vector<Tiling>(std::strchr(p.spec, ',') - p.spec, Tiling::from_sizes(sizes)));
                const auto sa = draw.shape(grid, 0.8).with_symmetry(p.a), sb = draw.shape(grid, 0.8).with_symmetry(p.b);
                const auto& shape_b = p.spec[0] == 'k' ? sa : sb;
                const auto a1 = Tensor<T>::random(sa, 1), b1 = Tensor<T>::random(shape_b, 2);
                const auto da = draw.distribution(grid, this->ranks.size()),
                           db = draw.distribution(grid, this->ranks.size());
                const auto a = Tensor<T>::random(sa, 1, 0, {this->ranks, da}),
                           b = Tensor<T>::random(shape_b, 2, 0, {this->ranks, db});
                ContractOptions what;
                what.result_symmetry = p.c;
                const auto one = contract(p.spec, desymmetrise(a1), desymmetrise(b1));
                const auto half = contract(p.spec, a1, b1, {}, what).tensor;
                const auto many = contract(p.spec, a, b, {}, what, {.algorithm = algorithm});
                this->expect_same(many.tensor, half, p.spec);
                EXPECT_TRUE(*p.c || half == one.tensor);
            }
}

TEST(RanksOnce, FilesCarryIt) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling{3, 2, 4}, Tiling{3, 2, 4}};
    const auto d = Distribution::even(grid, ranks.size());
    const auto x = Tensor<double>::random(Shape::dense(grid).with_symmetry("ij=-ji"), 1, 0, {ranks, d});
    std::vector<std::byte> name(64);
    if (ranks.rank() == 0)
        std::snprintf(reinterpret_cast<char*>(name.data()), name.size(), "/tmp/tessera_symmetry_%d.h5",
                      static_cast<int>(getpid()));
    ranks.broadcast(name, 0);
    const std::string path = reinterpret_cast<const char*>(name.data());
    write_tensor(path, x);
    const auto back = read_tensor<double>(path, 0, ranks);
    EXPECT_EQ(back.shape().symmetry(), x.shape().symmetry());
    EXPECT_TRUE(back == x);
    std::int64_t all = 0;
    ranks.sum(std::span(&all, 1));
    if (ranks.rank() == 0) std::remove(path.c_str());
}

}  // namespace
}  // namespace tessera
