// Files of many ranks are those of one, and an error of rank 0 is everyone's.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "support/ranks_folder.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/io/npy.hpp"

namespace tessera {
namespace {

using Folder = testing::RanksFolder;

std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::int64_t files_in(const Folder& folder) {
    const std::filesystem::directory_iterator all(folder / "");
    return std::distance(begin(all), end(all));
}

Shape some_shape(std::uint64_t skip) {
    const TileGrid grid{Tiling{5, 2, 9, 1}, Tiling{4, 4, 3}, Tiling{7, 6}};
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (o % 5 != static_cast<std::int64_t>(skip))
            entries.push_back({TileOrdinal{o}, 1.0 + 0.1 * static_cast<double>(o)});
    return Shape(grid, std::move(entries));
}

template <class T>
struct RanksFiles : ::testing::Test {};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RanksFiles, Scalars);

TYPED_TEST(RanksFiles, SameBytesAndSameTensorBack) {
    using T = TypeParam;
    Communicator& ranks = mpi_world();
    const Folder folder;
    for (const std::uint64_t skip : {1u, 4u}) {  // 4: the last tile is zero
        const Shape shape = some_shape(skip);
        const auto one = Tensor<T>::random(shape, 11);
        const auto many = Tensor<T>::random(shape, 11, 0, {ranks, Distribution::even(shape.grid(), ranks.size())});
        if (ranks.rank() == 0) {
            write_tensor(folder / "one.h5", one);
            write_npy(folder / "one.npy", one);
        }
        write_tensor(folder / "many.h5", many);
        write_npy(folder / "many.npy", many);
        EXPECT_EQ(contents(folder / "one.h5"), contents(folder / "many.h5"));
        EXPECT_EQ(contents(folder / "one.npy"), contents(folder / "many.npy"));

        const auto blocked = [&](const Shape&) {
            return Distribution(ranks.size(), {{1}, {1}, {std::min(2, ranks.size()), Distribution::Deal::blocked}});
        };
        const auto back = read_tensor<T>(folder / "one.h5", 0, ranks, blocked);
        EXPECT_EQ(back.shape(), one.shape());
        EXPECT_EQ(checksum(back), checksum(one));
        EXPECT_TRUE(back == many);
        const auto any = read_any(folder / "many.h5", 0, ranks);
        EXPECT_EQ(checksum(std::get<Tensor<T>>(any)), checksum(one));
        const auto dense = read_npy_tensor(
            folder / "many.npy", [&](const IndexVector&) { return shape.grid(); }, ranks);
        EXPECT_EQ(checksum(std::get<Tensor<T>>(dense)), checksum(one));
        EXPECT_EQ(std::get<Tensor<T>>(dense).shape(), one.shape());
        ranks.barrier();
    }
}

/// A rank that cannot write ends it for all, and leaves the old file and nothing else.
TEST(RanksFilesErrors, AFullDiskOnOneRankLeavesTheOldFile) {
    Communicator& ranks = mpi_world();
    if (ranks.size() == 1) GTEST_SKIP() << "needs another rank";
    const Folder folder;
    const TileGrid grid{Tiling::uniform(40'000, 1000)};
    const Placement where(ranks, Distribution::even(grid, ranks.size()));
    const auto x = Tensor<double>::random(Shape::dense(grid), 1, 0, where);
    const auto y = Tensor<double>::random(Shape::dense(grid), 2, 0, where);
    write_tensor(folder / "x.h5", x);
    struct rlimit old {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    if (ranks.rank() == 1) {
        struct rlimit small = old;
        small.rlim_cur = 1000;
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    }
    EXPECT_THROW(write_tensor(folder / "x.h5", y), MachineError);
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(checksum(read_tensor<double>(folder / "x.h5", 0, ranks)), checksum(x));
    EXPECT_EQ(files_in(folder), 1);
    ranks.barrier();
}

TEST(RanksFilesErrors, EveryRankThrows) {
    Communicator& ranks = mpi_world();
    const Folder folder;
    const auto tile = [](const IndexVector& e) { return TileGrid{Tiling::uniform(e[0], 2)}; };
    EXPECT_THROW(read_any(folder / "none.h5", 0, ranks), UserError);
    EXPECT_THROW(read_npy_tensor(folder / "none.npy", tile, ranks), UserError);
    const TileGrid grid{Tiling::uniform(12, 3)};
    const auto x = Tensor<double>::random(Shape::dense(grid), 1, 0, {ranks, Distribution::even(grid, ranks.size())});
    EXPECT_THROW(write_tensor(folder / "no/such/x.h5", x), UserError);
    EXPECT_THROW(write_npy(folder / "no/such/x.npy", x), UserError);
    write_tensor(folder / "x.h5", x);
    EXPECT_THROW(read_tensor<float>(folder / "x.h5", 0, ranks), UserError);
    // One bit that is not what norms and checksum say.
    if (ranks.rank() == 0) {
        std::string bytes = contents(folder / "x.h5");
        bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 0x41);
        std::ofstream(folder / "bad.h5", std::ios::binary) << bytes;
        std::ofstream(folder / "short.npy", std::ios::binary) << "\x93NUMPY";
    }
    ranks.barrier();
    EXPECT_THROW(read_any(folder / "bad.h5", 0, ranks), UserError);
    EXPECT_THROW(read_npy_tensor(folder / "short.npy", tile, ranks), UserError);
}

TEST(RanksFilesEdges, EmptyAndRankZero) {
    Communicator& ranks = mpi_world();
    const Folder folder;
    for (const Shape& shape :
         {Shape(TileGrid{Tiling{2, 3}}), Shape::dense(TileGrid()), Shape::dense(TileGrid{Tiling()})}) {
        const auto one = Tensor<double>::random(shape, 3);
        const auto x = Tensor<double>::random(shape, 3, 0, {ranks, Distribution::even(shape.grid(), ranks.size())});
        if (ranks.rank() == 0) write_npy(folder / "one.npy", one);
        write_tensor(folder / "x.h5", x);
        write_npy(folder / "x.npy", x);
        EXPECT_EQ(contents(folder / "one.npy"), contents(folder / "x.npy"));
        EXPECT_EQ(checksum(read_tensor<double>(folder / "x.h5", 0, ranks)), checksum(one));
        ranks.barrier();
    }
}

}  // namespace
}  // namespace tessera
