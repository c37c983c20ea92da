// Block-cyclic matrices against ScaLAPACK: what pdgemm and pdsyev find in the same arrays. Only this test links it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>

#include "support/draw.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/matrix/functions.hpp"
#include "tessera/matrix/layouts.hpp"

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
void Cblacs_gridexit(int context);
int numroc_(const int* n, const int* block, const int* process, const int* source, const int* processes);
void descinit_(int* description, const int* m, const int* n, const int* mb, const int* nb, const int* row_source,
               const int* column_source, const int* context, const int* leading, int* info);
#define TESSERA_PGEMM(NAME, T)                                                                                    \
    void NAME(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,         \
              const T* alpha, const T* a, const int* ia, const int* ja, const int* da, const T* b, const int* ib, \
              const int* jb, const int* db, const T* beta, T* c, const int* ic, const int* jc, const int* dc)
TESSERA_PGEMM(psgemm_, float);
TESSERA_PGEMM(pdgemm_, double);
TESSERA_PGEMM(pcgemm_, std::complex<float>);
TESSERA_PGEMM(pzgemm_, std::complex<double>);
#undef TESSERA_PGEMM
void pdsyev_(const char* vectors, const char* triangle, const int* n, double* a, const int* ia, const int* ja,
             const int* da, double* w, double* z, const int* iz, const int* jz, const int* dz, double* work,
             const int* words, int* info);
}

namespace tessera {
namespace {

using testing::Draw;

template <class T>
constexpr auto* pgemm() {
    if constexpr (std::is_same_v<T, float>) return psgemm_;
    if constexpr (std::is_same_v<T, double>) return pdgemm_;
    if constexpr (std::is_same_v<T, std::complex<float>>) return pcgemm_;
    if constexpr (std::is_same_v<T, std::complex<double>>) return pzgemm_;
}

/// All ranks as a grid of BLACS.
class Grid {
  public:
    Grid(int of_rows, int of_columns) : rows(of_rows), columns(of_columns) {
        Cblacs_get(-1, 0, &context);
        Cblacs_gridinit(&context, "Row", rows, columns);
        Cblacs_gridinfo(context, &rows, &columns, &row, &column);
    }
    ~Grid() { Cblacs_gridexit(context); }
    Grid(const Grid&) = delete;
    Grid& operator=(const Grid&) = delete;
    int context = 0, rows, columns, row = 0, column = 0;
};

/// A rank's array and what ScaLAPACK's descriptor says of it, in both languages.
template <class T>
struct Matrix {
    BlockCyclic layout;
    std::array<int, 9> description{};
    std::vector<T> local;

    Matrix(Draw& draw, const Grid& on, int rows, int columns, int row_block, int column_block) {
        const int first_row = draw.below(on.rows), first_column = draw.below(on.columns);
        const int mine = numroc_(&rows, &row_block, &on.row, &first_row, &on.rows);
        const int along = numroc_(&columns, &column_block, &on.column, &first_column, &on.columns);
        const int leading = std::max(1, mine) + draw.below(3);
        int info = 0;
        descinit_(description.data(), &rows, &columns, &row_block, &column_block, &first_row, &first_column,
                  &on.context, &leading, &info);
        EXPECT_EQ(info, 0);
        layout = {rows, columns, row_block, column_block, on.rows, on.columns, first_row, first_column, leading};
        local.assign(static_cast<std::size_t>(leading) * static_cast<std::size_t>(std::max(1, along)), T{});
        // Both count alike.
        EXPECT_EQ(layout.local_rows(mpi_world().rank()), mine);
        EXPECT_EQ(layout.local_columns(mpi_world().rank()), along);
    }
};

template <class T>
double largest_difference(const std::vector<T>& x, const std::vector<T>& y) {
    double most[] = {0};
    for (std::size_t i = 0; i < x.size(); ++i) most[0] = std::max(most[0], double(std::abs(x[i] - y[i])));
    mpi_world().max(most);
    return most[0];
}

template <class T>
struct Scalapack : ::testing::Test {};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Scalapack, Scalars);

TYPED_TEST(Scalapack, ProductsAreThoseOfPdgemm) {
    using T = TypeParam;
    Communicator& ranks = mpi_world();
    const T alpha = T(RealOf<T>(0.75)), zero{};
    const int one = 1;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        int rows = 1 + draw.below(ranks.size());
        while (ranks.size() % rows != 0) --rows;
        const Grid grid(rows, ranks.size() / rows);
        const int m = 1 + draw.below(70), n = 1 + draw.below(70), k = 1 + draw.below(70);
        const int bm = 1 + draw.below(9), bn = 1 + draw.below(9), bk = 1 + draw.below(9);
        Matrix<T> a(draw, grid, m, k, bm, bk), b(draw, grid, k, n, bk, bn), c(draw, grid, m, n, bm, bn);
        const TileGrid grid_a{draw.tiling(m), draw.tiling(k)}, grid_b{grid_a.tiling(1), draw.tiling(n)};
        const auto x =
            Tensor<T>::random(draw.shape(grid_a, 0.7), seed, 0, {ranks, draw.distribution(grid_a, ranks.size())});
        const auto y =
            Tensor<T>::random(draw.shape(grid_b, 0.7), seed + 100, 0, {ranks, draw.distribution(grid_b, ranks.size())});
        // Out: what ScaLAPACK makes of the arrays is what the contraction says.
        to_block_cyclic<T>(x, a.layout, a.local);
        to_block_cyclic<T>(y, b.layout, b.local);
        pgemm<T>()("N", "N", &m, &n, &k, &alpha, a.local.data(), &one, &one, a.description.data(), b.local.data(), &one,
                   &one, b.description.data(), &zero, c.local.data(), &one, &one, c.description.data());
        ContractOptions options;
        options.alpha = 0.75;
        const auto product = contract<T>("ik,kj->ij", x, y, {.communicator = &ranks}, options);
        auto ours = c.local;
        to_block_cyclic<T>(product.tensor, c.layout, ours);
        const double most = 4.0 * k * std::numeric_limits<RealOf<T>>::epsilon();
        EXPECT_LE(largest_difference(ours, c.local), most);
        // In: what it made comes back as a tensor, to the bit, and is that product.
        const auto theirs = from_block_cyclic<T>(c.layout, c.local, product.tensor.grid(), ranks);
        auto again = c.local;
        to_block_cyclic<T>(theirs, c.layout, again);
        EXPECT_EQ(again, c.local);
        EXPECT_LE(norm(add<T>(T(1), theirs, T(-1), product.tensor)), most * std::sqrt(double(m) * n));
    }
}

/// Density matrices by purification, from an array of ScaLAPACK's into another one, against its eigenvectors.
TEST(ScalapackEigen, DensityMatricesAreThoseOfPdsyev) {
    Communicator& ranks = mpi_world();
    const int one = 1;
    for (unsigned seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        int rows = 1 + draw.below(ranks.size());
        while (ranks.size() % rows != 0) --rows;
        const Grid grid(rows, ranks.size() / rows);
        const int n = 24 + draw.below(40), block = 2 + draw.below(7), electrons = (n + 1) / 2;
        Matrix<double> f(draw, grid, n, n, block, block);
        Matrix<double> z = f, d = f;
        const Tiling t = draw.tiling(n);
        const TileGrid tiles{t, t};
        // Alternating levels with couplings that leave the gap open.
        const auto x = Tensor<double>::generate(
            Shape::dense(tiles),
            [&](const TileInfo& info, std::span<double> tile) {
                for (std::int64_t i = 0; i < info.extents[0]; ++i)
                    for (std::int64_t j = 0; j < info.extents[1]; ++j) {
                        const auto r = info.begin[0] + i, c = info.begin[1] + j;
                        const auto apart = static_cast<double>(std::abs(r - c));
                        tile[static_cast<std::size_t>(i * info.extents[1] + j)] =
                            r == c ? (r % 2 == 0 ? -1.0 : 1.0) + 0.01 * static_cast<double>(r % 7)
                                   : 0.2 * std::cos(static_cast<double>(r + c) + seed) * std::exp(-apart);
                    }
            },
            0, {ranks, draw.distribution(tiles, ranks.size())});
        to_block_cyclic<double>(x, f.layout, f.local);
        const auto purified = purify(from_block_cyclic<double>(f.layout, f.local, tiles, ranks), electrons);

        std::vector<double> levels(static_cast<std::size_t>(n)), work(1);
        auto spoilt = f.local;
        int words = -1, info = 0;
        const auto solve = [&] {
            pdsyev_("V", "L", &n, spoilt.data(), &one, &one, f.description.data(), levels.data(), z.local.data(), &one,
                    &one, z.description.data(), work.data(), &words, &info);
        };
        solve();
        words = static_cast<int>(work[0]) + 64 * n;  // some versions ask for too little
        work.resize(static_cast<std::size_t>(words));
        solve();
        ASSERT_EQ(info, 0);
        const double plus = 1, zero = 0;
        pdgemm_("N", "T", &n, &n, &electrons, &plus, z.local.data(), &one, &one, z.description.data(), z.local.data(),
                &one, &one, z.description.data(), &zero, d.local.data(), &one, &one, d.description.data());
        auto ours = d.local;
        to_block_cyclic<double>(purified.matrix, d.layout, ours);
        EXPECT_LE(largest_difference(ours, d.local), purified.report.error + 1e-12);
        EXPECT_LE(purified.report.error, 1e-8);
        EXPECT_GE(purified.report.homo, levels[static_cast<std::size_t>(electrons) - 1] - 1e-12);
        EXPECT_LE(purified.report.lumo, levels[static_cast<std::size_t>(electrons)] + 1e-12);
        const auto found = extremal_eigenvalues(x, 1e-10);
        EXPECT_NEAR(found.lowest, levels.front(), 1e-8);
        EXPECT_NEAR(found.highest, levels.back(), 1e-8);
    }
}

}  // namespace
}  // namespace tessera
