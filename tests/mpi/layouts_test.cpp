// Matrices as other libraries hold them: element by element, from rules that the test writes down anew.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/draw.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/matrix/layouts.hpp"

namespace tessera {
namespace {

using testing::Draw;

template <class T>
struct Layouts : ::testing::Test {
    Communicator& ranks = mpi_world();
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Layouts, Scalars);

/// Calls visit(place in this rank's array, row, column).
template <class Visit>
void for_each_element(const BlockCyclic& l, int rank, Visit&& visit) {
    const int p = rank / l.grid_columns, q = rank % l.grid_columns;
    if (p >= l.grid_rows) return;
    std::int64_t n = 0;
    for (std::int64_t c = 0; c < l.columns; ++c) {
        if ((c / l.column_block + l.first_column) % l.grid_columns != q) continue;
        std::int64_t m = 0;
        for (std::int64_t r = 0; r < l.rows; ++r)
            if ((r / l.row_block + l.first_row) % l.grid_rows == p) visit(n * l.leading + m++, r, c);
        ++n;
    }
}

TYPED_TEST(Layouts, BlockCyclicThereAndBack) {
    using T = TypeParam;
    const int size = this->ranks.size(), me = this->ranks.rank();
    for (unsigned seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        BlockCyclic l;
        l.rows = seed == 1 ? 0 : 1 + draw.below(60);
        l.columns = 1 + draw.below(60);
        l.row_block = 1 + draw.below(8);
        l.column_block = 1 + draw.below(8);
        l.grid_rows = 1 + draw.below(size);
        l.grid_columns = size / l.grid_rows;
        l.first_row = draw.below(l.grid_rows);
        l.first_column = draw.below(l.grid_columns);
        const TileGrid grid{draw.tiling(l.rows), draw.tiling(l.columns)};
        const auto one = Tensor<T>::random(draw.shape(grid, 0.6), seed);
        const auto dense = one.to_dense();
        l.leading = l.local_rows(me) + 3;
        std::vector<T> local(static_cast<std::size_t>(l.leading * l.local_columns(me)), T(7)), back = local;
        std::int64_t elements = 0;
        for_each_element(l, me, [&](std::int64_t at, std::int64_t r, std::int64_t c) {
            local[static_cast<std::size_t>(at)] = dense[static_cast<std::size_t>(r * l.columns + c)];
            ++elements;
        });
        EXPECT_EQ(elements, l.local_rows(me) * l.local_columns(me));
        const auto x = from_block_cyclic<T>(l, local, grid, this->ranks);
        EXPECT_EQ(x.to_dense(), dense);
        EXPECT_EQ(checksum(x), checksum(filter(one, 1e-300)));
        to_block_cyclic<T>(x, l, back);
        EXPECT_EQ(back, local);  // what is not of the matrix is left
    }
}

TYPED_TEST(Layouts, CompressedRowsThereAndBack) {
    using T = TypeParam;
    const int size = this->ranks.size(), me = this->ranks.rank();
    for (unsigned seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const std::int64_t rows = 5 + draw.below(60), columns = 1 + draw.below(60);
        const TileGrid grid{draw.tiling(rows), draw.tiling(columns)};
        const auto one = Tensor<T>::random(draw.shape(grid, 0.4), seed);
        const auto dense = one.to_dense();
        // Any cut of the rows, in any order of ranks.
        CsrRows<T> mine;
        const std::int64_t part = (size - 1 - me + static_cast<int>(seed)) % size;
        mine.first_row = rows * part / size;
        for (std::int64_t r = mine.first_row; r < rows * (part + 1) / size; ++r) {
            for (std::int64_t c = 0; c < columns; ++c)
                if (const T e = dense[static_cast<std::size_t>(r * columns + c)]; e != T{})
                    mine.columns.push_back(c), mine.values.push_back(e);
            mine.starts.push_back(static_cast<std::int64_t>(mine.columns.size()));
        }
        const auto x = from_csr<T>(mine, grid, {this->ranks, draw.distribution(grid, size)});
        EXPECT_EQ(x.to_dense(), dense);
        EXPECT_EQ(checksum(x), checksum(one));
        const auto back = to_csr(x);
        std::int64_t counted[] = {back.rows()};
        this->ranks.sum(counted);
        EXPECT_EQ(counted[0], rows);
        for (std::int64_t r = 0; r < back.rows(); ++r) {
            std::vector<T> line(static_cast<std::size_t>(columns));
            for (auto e = back.starts[static_cast<std::size_t>(r)]; e < back.starts[static_cast<std::size_t>(r) + 1];
                 ++e)
                line[static_cast<std::size_t>(back.columns[static_cast<std::size_t>(e)])] =
                    back.values[static_cast<std::size_t>(e)];
            for (std::int64_t c = 0; c < columns; ++c)
                EXPECT_EQ(line[static_cast<std::size_t>(c)],
                          dense[static_cast<std::size_t>((back.first_row + r) * columns + c)]);
        }
    }
}

TEST(LayoutsOnRanks, SayWhatIsWrong) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling::uniform(8, 3), Tiling::uniform(8, 3)};
    const std::vector<double> local(64);
    const auto refuses = [&](const BlockCyclic& l, const std::string& word) {
        try {
            from_block_cyclic<double>(l, local, grid, ranks);
            FAIL() << word;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
        }
    };
    refuses({7, 8, 2, 2}, "tiles of 8 x 8 elements for a matrix of 7 x 8");
    refuses({8, 8, 0, 2}, "blocks of 0 x 2");
    refuses({8, 8, 2, 2, ranks.size() + 1, 1}, "grid of");
    refuses({8, 8, 2, 2, 1, 1, 1, 0}, "the first block is at (1, 0)");
    refuses({8, 8, 2, 2, 1, 1, 0, 0, 5}, "a leading dimension of 5 for 8 rows");
    refuses({8, 8, 2, 2, 1, 1, 0, 0, 20}, "an array of 64 elements");
    CsrRows<double> rows;
    rows.starts = {0, 1};
    rows.columns = {9};
    rows.values = {1};
    try {
        from_csr(rows, grid, {ranks, Distribution::even(grid, ranks.size())});
        FAIL();
    } catch (const UserError& e) {
        EXPECT_STREQ(e.what(), "from_csr: column 9 of 8");
    }
}

}  // namespace
}  // namespace tessera
