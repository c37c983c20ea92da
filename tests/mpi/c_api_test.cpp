// tessera.h on ranks: each function does what its C++ one does, to the bit; what is wrong is a code and a line.
#include "tessera/tessera.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#ifdef TESSERA_TEST_MPI
#include "tessera/comm/mpi.hpp"
#endif
#include "support/draw.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace {

#define CHECK_OK(call) ASSERT_EQ(call, TESSERA_SUCCESS) << tessera_message()

/// A grid as C has it.
struct CGrid {
    explicit CGrid(const TileGrid& grid) {
        for (const auto& tiling : grid.tilings()) sizes.push_back(tiling.sizes());
        for (const auto& list : sizes) {
            tiles.push_back(static_cast<std::int64_t>(list.size()));
            pointers.push_back(list.data());
        }
        c = {grid.rank(), tiles.data(), pointers.data()};
    }
    CGrid(const CGrid&) = delete;
    std::vector<std::vector<std::int64_t>> sizes;
    std::vector<std::int64_t> tiles;
    std::vector<const std::int64_t*> pointers;
    tessera_grid c{};
};

template <class T>
constexpr int type_of = static_cast<int>(ScalarTraits<T>::kind);

template <class T>
struct CApi : ::testing::Test {
    void SetUp() override { CHECK_OK(tessera_comm_world(&comm)); }
    void TearDown() override {
        for (auto* x : owned) EXPECT_EQ(tessera_destroy(x), 0);
        EXPECT_EQ(tessera_comm_destroy(comm), 0);
    }
    /// The same random tensor through C and through C++.
    struct Two {
        tessera_tensor c = nullptr;
        Tensor<T> cpp;
    };
    Two random(const TileGrid& grid, double density) {
        Two x;
        const auto shape = draw.shape(grid, density);
        std::vector<std::int64_t> coordinates;
        std::vector<IndexVector> tiles;
        std::vector<double> norms;
        for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
            tiles.push_back(grid.coordinates(shape.tile(s)));
            coordinates.insert(coordinates.end(), tiles.back().begin(), tiles.back().end());
            norms.push_back(std::sqrt(static_cast<double>(grid.tile_elements(shape.tile(s)))));
        }
        const CGrid g(grid);
        const tessera_placement evenly{comm, nullptr, nullptr};
        EXPECT_EQ(tessera_create_random(type_of<T>, &g.c, &evenly, shape.tile_count(), coordinates.data(), seed, &x.c),
                  0)
            << tessera_message();
        x.cpp = Tensor<T>::random(Shape::from_coordinates(grid, tiles, norms), seed, 0,
                                  {ranks, Distribution::even(grid, ranks.size())});
        ++seed;
        owned.push_back(x.c);
        return x;
    }
    void same(tessera_tensor c, const Tensor<T>& cpp) {
        std::uint64_t bits = 0;
        EXPECT_EQ(tessera_checksum(c, &bits), 0) << tessera_message();
        EXPECT_EQ(bits, checksum(cpp));
    }
    tessera_tensor kept(tessera_tensor x) {
        owned.push_back(x);
        return x;
    }
    Communicator& ranks = mpi_world();
    tessera_comm comm = nullptr;
    testing::Draw draw{17};
    std::uint64_t seed = 5;
    std::vector<tessera_tensor> owned;
    const Tiling i{4, 3, 5, 1}, k{2, 6, 3}, j{7, 2};
};

using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CApi, Types);

TYPED_TEST(CApi, ContractsWithEveryOption) {
    using T = TypeParam;
    auto a = this->random(TileGrid{this->i, this->k}, 0.7), b = this->random(TileGrid{this->k, this->j}, 0.7);
    auto c = this->random(TileGrid{this->i, this->j}, 0.5);
    const tessera_bounds bounds{'k', 1, 9};
    tessera_options options;
    tessera_options_init(&options);
    options.alpha[0] = 1.5;
    if (is_complex<T>) options.alpha[1] = -0.5;
    options.conjugate_a = 1;
    options.filter = 0.1;
    options.bounds = &bounds;
    options.n_bounds = 1;
    options.threads = 2;
    ContractOptions cpp;
    cpp.alpha = {options.alpha[0], options.alpha[1]};
    cpp.conjugate_a = true;
    cpp.filter = 0.1;
    cpp.bounds = {{'k', 1, 9}};
    const auto should = contract("ik,kj->ij", a.cpp, b.cpp, {.threads = 2}, cpp);
    tessera_tensor made = nullptr;
    tessera_report report;
    CHECK_OK(tessera_contract("ik,kj->ij", a.c, b.c, &options, &made, &report));
    this->same(this->kept(made), should.tensor);
    EXPECT_EQ(report.left_out, should.report.left_out);
    EXPECT_EQ(report.flops, should.report.flops);
    EXPECT_EQ(report.products, should.report.products);
    EXPECT_EQ(report.ranks, this->ranks.size());

    options.filter = 0;
    options.beta[0] = -2;
    cpp.filter = 0;
    cpp.beta = -2.0;
    contract_into<T>("ik,kj->ij", a.cpp, b.cpp, c.cpp, {}, cpp);
    CHECK_OK(tessera_contract_into("ik,kj->ij", a.c, b.c, c.c, &options, nullptr));
    this->same(c.c, c.cpp);

    const tessera_tensor three[] = {a.c, b.c, c.c};
    CHECK_OK(tessera_einsum("ik,kj,ij->", 3, three, nullptr, &made, nullptr));
    this->same(this->kept(made), contract("ik,kj,ij->", operands(a.cpp, b.cpp, c.cpp)).tensor);
    CHECK_OK(tessera_einsum("ik->ki", 1, three, nullptr, &made, nullptr));
    this->same(this->kept(made), einsum("ik->ki", a.cpp));
}

TYPED_TEST(CApi, PlansAndBatches) {
    using T = TypeParam;
    auto a = this->random(TileGrid{this->i, this->k}, 0.7), b = this->random(TileGrid{this->k, this->j}, 0.7);
    tessera_plan planned = nullptr;
    CHECK_OK(tessera_plan_create("ik,kj->ij", a.c, b.c, nullptr, &planned));
    const char *text = nullptr, *json = nullptr;
    CHECK_OK(tessera_plan_explain(planned, &text));
    CHECK_OK(tessera_plan_explain_json(planned, &json));
    EXPECT_NE(std::strstr(text, "plan for ik,kj->ij"), nullptr) << text;
    EXPECT_EQ(json[0], '{');
    tessera_tensor made = nullptr;
    CHECK_OK(tessera_plan_execute(planned, a.c, b.c, &made, nullptr));
    const auto whole = contract("ik,kj->ij", a.cpp, b.cpp);
    this->same(this->kept(made), whole.tensor);
    CHECK_OK(tessera_plan_destroy(planned));

    auto c = this->random(TileGrid{this->i, this->j}, 0.5);
    tessera_options options;
    tessera_options_init(&options);
    options.beta[0] = 1;
    tessera_batch steps = nullptr;
    CHECK_OK(tessera_batch_create("ik,kj->ij", c.c, &options, &steps));
    auto cpp = batch<T>("ik,kj->ij", c.cpp, {}, {});
    for (std::int64_t lo = 0; lo < 11; lo += 4) {
        const tessera_bounds part{'k', lo, std::min<std::int64_t>(lo + 4, 11)};
        CHECK_OK(tessera_batch_add(steps, a.c, b.c, 1, &part));
        cpp.add(a.cpp, b.cpp, {{'k', part.lo, part.hi}});
    }
    tessera_report report;
    CHECK_OK(tessera_batch_finish(steps, 0.01, &report));
    EXPECT_EQ(report.left_out, cpp.finish(0.01).left_out);
    this->same(c.c, c.cpp);
    CHECK_OK(tessera_batch_destroy(steps));
}

TYPED_TEST(CApi, Assembles) {
    using T = TypeParam;
    const TileGrid grid{this->i, this->k};
    const CGrid g(grid);
    // Tiles dealt by lists: all of a row on one rank.
    std::vector<std::int32_t> rows, columns(3, 0);
    for (int t = 0; t < 4; ++t) rows.push_back((t * 7) % this->ranks.size());
    const std::int32_t *maps[] = {rows.data(), columns.data()}, sides[] = {this->ranks.size(), 1};
    const tessera_placement where{this->comm, maps, sides};
    tessera_builder c = nullptr;
    CHECK_OK(tessera_builder_create(type_of<T>, &g.c, &where, 0, &c));
    TensorBuilder<T> cpp(
        grid, {this->ranks, Distribution::from_maps(this->ranks.size(), {rows, columns}, {this->ranks.size(), 1})});
    const auto fill = [&](const IndexVector& tile, double value) {
        std::vector<T> block(static_cast<std::size_t>(grid.tile_elements(grid.ordinal(tile))));
        for (std::size_t e = 0; e < block.size(); ++e)
            block[e] = T(static_cast<RealOf<T>>(value + 0.25 * static_cast<double>(e)));
        return block;
    };
    const int me = this->ranks.rank();
    const IndexVector keyed{1, 1}, summed{2, 0}, put{3, 2}, reserved{0, 0};
    for (int n = 0; n < 3; ++n) {
        CHECK_OK(tessera_add_keyed(c, keyed.begin(), fill(keyed, n + 0.1 * me).data(), 10 * me - n));
        cpp.add(keyed, fill(keyed, n + 0.1 * me), 10 * me - n);
    }
    CHECK_OK(tessera_add(c, summed.begin(), fill(summed, me).data()));
    cpp.add(summed, fill(summed, me));
    CHECK_OK(tessera_reserve(c, reserved.begin()));
    cpp.reserve(reserved);
    if (me == this->ranks.size() - 1) {
        CHECK_OK(tessera_put(c, put.begin(), fill(put, 9).data()));
        cpp.put(put, fill(put, 9));
    }
    tessera_tensor made = nullptr;
    CHECK_OK(tessera_finalize(c, 0, &made));
    this->kept(made);
    const auto should = cpp.finalize();
    this->same(made, should);
    int owner = -1;
    CHECK_OK(tessera_owner(made, put.begin(), &owner));
    EXPECT_EQ(owner, rows[3]);

    // Into what is there: one tile is added to, one replaced, by a rank that need not have it, the rest stay.
    if (me == 0) {
        CHECK_OK(tessera_put(c, keyed.begin(), fill(keyed, -3).data()));
        CHECK_OK(tessera_add(c, summed.begin(), fill(summed, 0.5).data()));
    }
    CHECK_OK(tessera_finalize_into(c, 0, made));
    int64_t slot = -1, missing = 0;
    const void* elements = nullptr;
    const auto expect = [&](const IndexVector& tile, const std::vector<T>& values) {
        CHECK_OK(tessera_find_tile(made, tile.begin(), &slot));
        ASSERT_GE(slot, 0);
        CHECK_OK(tessera_tile(made, slot, nullptr, nullptr, nullptr, &elements));
        CHECK_OK(tessera_owner(made, tile.begin(), &owner));
        ASSERT_EQ(elements != nullptr, owner == me);
        if (elements) {
            EXPECT_EQ(std::memcmp(elements, values.data(), values.size() * sizeof(T)), 0);
        }
    };
    expect(keyed, fill(keyed, -3));
    expect(put, fill(put, 9));
    auto sum = fill(summed, 0.5);
    const auto before = should.shape().find(grid.ordinal(summed));
    if (should.is_local(*before))
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] = should.tile(*before)[e] + sum[e];
    expect(summed, sum);
    CHECK_OK(tessera_find_tile(made, IndexVector{3, 0}.begin(), &missing));
    EXPECT_EQ(missing, -1);
    CHECK_OK(tessera_builder_destroy(c));
    CHECK_OK(tessera_builder_create_like(made, 0, &c));
    CHECK_OK(tessera_builder_destroy(c));
}

TYPED_TEST(CApi, TellsAndVisitsTiles) {
    using T = TypeParam;
    auto a = this->random(TileGrid{this->i, this->k}, 0.6);
    int number = 0;
    CHECK_OK(tessera_type(a.c, &number));
    EXPECT_EQ(number, type_of<T>);
    CHECK_OK(tessera_rank(a.c, &number));
    EXPECT_EQ(number, 2);
    std::int64_t tiles = 0, sizes[4] = {};
    CHECK_OK(tessera_tiles_along(a.c, 0, &tiles));
    CHECK_OK(tessera_tile_sizes(a.c, 0, sizes));
    EXPECT_EQ(std::vector<std::int64_t>(sizes, sizes + tiles), this->i.sizes());
    CHECK_OK(tessera_element_count(a.c, &tiles));
    EXPECT_EQ(tiles, a.cpp.shape().elements());
    CHECK_OK(tessera_tile_count(a.c, &tiles));
    ASSERT_EQ(tiles, a.cpp.tile_count());
    for (std::int64_t s = 0; s < tiles; ++s) {
        std::int64_t at[2], extents[2];
        double size = 0;
        const void* elements = nullptr;
        CHECK_OK(tessera_tile(a.c, s, at, extents, &size, &elements));
        EXPECT_EQ((IndexVector{at[0], at[1]}), a.cpp.grid().coordinates(a.cpp.shape().tile(s)));
        EXPECT_EQ((IndexVector{extents[0], extents[1]}), a.cpp.grid().tile_extents(a.cpp.shape().tile(s)));
        EXPECT_EQ(size, a.cpp.shape().norm_of(s));
        const auto mine = a.cpp.tile(s);
        ASSERT_EQ(elements == nullptr, mine.empty());
        if (elements) {
            EXPECT_EQ(std::memcmp(elements, mine.data(), mine.size_bytes()), 0);
        }
    }
    std::atomic<std::int64_t> seen{0};
    CHECK_OK(tessera_for_each_tile(
        a.c,
        [](void* context, const std::int64_t*, const std::int64_t* extents, const void*) {
            *static_cast<std::atomic<std::int64_t>*>(context) += extents[0] * extents[1];
        },
        &seen, 2));
    std::int64_t mine = 0;
    a.cpp.for_each_tile([&](const TileInfo&, std::span<const T> x) { mine += static_cast<std::int64_t>(x.size()); });
    EXPECT_EQ(seen, mine);
    CHECK_OK(tessera_update_tiles(
        a.c,
        [](void*, const std::int64_t* at, const std::int64_t* extents, void* elements) {
            for (std::int64_t e = 0; e < extents[0] * extents[1]; ++e)
                static_cast<T*>(elements)[e] *= T(static_cast<RealOf<T>>(at[0] + 2));
        },
        nullptr, 2));
    a.cpp.update_tiles([](const TileInfo& info, std::span<T> x) {
        for (auto& e : x) e *= T(static_cast<RealOf<T>>(info.coordinates[0] + 2));
    });
    this->same(a.c, a.cpp);
}

TYPED_TEST(CApi, MovesCutsAndSums) {
    using T = TypeParam;
    auto a = this->random(TileGrid{this->i, this->k}, 0.6), b = this->random(TileGrid{this->i, this->k}, 0.6);
    tessera_tensor y = nullptr;
    const auto made = [&](int error) {
        EXPECT_EQ(error, 0) << tessera_message();
        return this->kept(y);
    };
    const int order[] = {1, 0};
    this->same(made(tessera_permute(a.c, order, &y)), permute(a.cpp, {1, 0}));
    const TileGrid other{Tiling::uniform(13, 4), Tiling::uniform(11, 6)};
    const CGrid g(other);
    this->same(made(tessera_retile(a.c, &g.c, &y)), retile(a.cpp, other));
    const std::int64_t lo[] = {2, 0}, hi[] = {9, 8};
    auto part = made(tessera_slice(a.c, lo, hi, &y));
    auto cpp_part = slice(a.cpp, {{2, 9}, {0, 8}});
    this->same(part, cpp_part);
    CHECK_OK(tessera_assign_slice(b.c, lo, hi, part));
    assign_slice(b.cpp, {{2, 9}, {0, 8}}, cpp_part);
    this->same(b.c, b.cpp);
    std::vector<std::int32_t> zero(4, 0), nought(3, 0);
    const std::int32_t* maps[] = {zero.data(), nought.data()};
    auto home = made(tessera_redistribute(a.c, maps, nullptr, &y));
    this->same(home, a.cpp);
    int owner = -1;
    CHECK_OK(tessera_owner(home, IndexVector{3, 2}.begin(), &owner));
    EXPECT_EQ(owner, 0);
    this->same(made(tessera_copy(a.c, &y)), a.cpp);
    this->same(made(tessera_filter(a.c, 1.5, &y)), filter(a.cpp, 1.5));
    this->same(made(tessera_hadamard(a.c, b.c, &y)), hadamard(a.cpp, b.cpp));

    const double factor[] = {0.5, is_complex<T> ? 0.25 : 0.0};
    const T f = [&] {
        if constexpr (is_complex<T>) return T(0.5f, 0.25f);
        return T(static_cast<RealOf<T>>(0.5));
    }();
    CHECK_OK(tessera_scale(a.c, factor));
    scale(a.cpp, f);
    this->same(a.c, a.cpp);
    CHECK_OK(tessera_axpy(factor, a.c, b.c));
    axpy(f, a.cpp, b.cpp);
    this->same(b.c, b.cpp);
    double number[2], real = 0;
    CHECK_OK(tessera_dot(a.c, b.c, number));
    const T product = dot(a.cpp, b.cpp);
    EXPECT_EQ(number[0], static_cast<double>(std::real(product)));
    EXPECT_EQ(number[1], static_cast<double>(std::imag(product)));
    CHECK_OK(tessera_norm(a.c, &real));
    EXPECT_EQ(real, norm(a.cpp));
    CHECK_OK(tessera_max_abs(a.c, &real));
    EXPECT_EQ(real, max_abs(a.cpp));

    std::vector<T> dense(13 * 11);
    CHECK_OK(tessera_to_dense(a.c, dense.data()));
    EXPECT_EQ(dense, a.cpp.to_dense());
    const CGrid mine(a.cpp.grid());
    this->same(made(tessera_from_dense(type_of<T>, &mine.c, nullptr, dense.data(), 0, &y)),
               Tensor<T>::from_dense(a.cpp.grid(), dense));
}

TYPED_TEST(CApi, Matrices) {
    using T = TypeParam;
    auto a = this->random(TileGrid{this->i, this->i}, 0.6), b = this->random(TileGrid{this->i, this->i}, 0.6);
    double number[2], real = 0;
    const auto is = [&](T value) {
        EXPECT_EQ(number[0], static_cast<double>(std::real(value)));
        EXPECT_EQ(number[1], static_cast<double>(std::imag(value)));
    };
    CHECK_OK(tessera_trace(a.c, number));
    is(trace(a.cpp));
    CHECK_OK(tessera_trace_product(a.c, b.c, number));
    is(trace(a.cpp, b.cpp));
    std::vector<T> values(13);
    CHECK_OK(tessera_diagonal(a.c, values.data()));
    EXPECT_EQ(values, diagonal(a.cpp));
    for (std::size_t n = 0; n < 13; ++n) values[n] = T(static_cast<RealOf<T>>(0.5 + static_cast<double>(n)));
    CHECK_OK(tessera_set_diagonal(a.c, values.data()));
    set_diagonal<T>(a.cpp, values);
    const double alpha[] = {-1.5, 0};
    CHECK_OK(tessera_add_on_diagonal(a.c, alpha));
    add_on_diagonal(a.cpp, T(static_cast<RealOf<T>>(-1.5)));
    CHECK_OK(tessera_scale_rows(a.c, values.data()));
    scale_rows<T>(a.cpp, values);
    CHECK_OK(tessera_scale_columns(a.c, values.data()));
    scale_columns<T>(a.cpp, values);
    this->same(a.c, a.cpp);
    tessera_tensor part = nullptr;
    CHECK_OK(tessera_triangle(a.c, 1, &part));
    this->same(this->kept(part), triangle(a.cpp, Triangle::upper));
    CHECK_OK(tessera_gershgorin_norm(a.c, &real));
    EXPECT_EQ(real, gershgorin_norm(a.cpp));
    std::vector<double> norms(13);
    CHECK_OK(tessera_column_norms(a.c, norms.data()));
    EXPECT_EQ(norms, column_norms(a.cpp));
}

TYPED_TEST(CApi, FunctionsOfMatrices) {
    using T = TypeParam;
    // Symmetric, positive definite, with a gap: 4 (i < 6) or 9 on the diagonal, small next to it.
    const TileGrid square{this->i, this->i};
    std::vector<T> dense(13 * 13);
    for (std::size_t r = 0; r < 13; ++r) {
        dense[r * 13 + r] = T(r < 6 ? 4 : 9);
        if (r > 0) dense[r * 13 + r - 1] = dense[(r - 1) * 13 + r] = T(static_cast<RealOf<T>>(0.25));
    }
    const CGrid g(square);
    const tessera_placement evenly{this->comm, nullptr, nullptr};
    tessera_tensor a = nullptr, made = nullptr;
    CHECK_OK(tessera_from_dense(type_of<T>, &g.c, &evenly, dense.data(), 0, &a));
    this->kept(a);
    const auto cpp =
        Tensor<T>::from_dense(square, dense, 0, {this->ranks, Distribution::even(square, this->ranks.size())});
    tessera_matrix_options options;
    tessera_matrix_options_init(&options);
    EXPECT_EQ(options.max_iterations, 100);
    options.filter = 1e-6;
    options.threads = 1;
    const MatrixOptions how{.filter = 1e-6};
    const Resources here{.threads = 1};
    tessera_matrix_report report;
    const auto same_as = [&](const MatrixResult<T>& should) {
        this->same(this->kept(made), should.matrix);
        EXPECT_EQ(report.error, should.report.error);
        EXPECT_EQ(report.residual, should.report.residual);
        EXPECT_EQ(report.iterations, static_cast<int>(should.report.history.size()));
        EXPECT_EQ(report.products, should.report.products);
    };
    CHECK_OK(tessera_sign(a, &options, &made, &report));
    same_as(sign(cpp, how, here));
    CHECK_OK(tessera_inverse(a, &options, &made, &report));
    same_as(inverse(cpp, how, here));
    CHECK_OK(tessera_sqrt_inverse(a, &options, &made, &report));
    same_as(sqrt_inverse(cpp, how, here));
    CHECK_OK(tessera_exponential(a, &options, &made, &report));
    same_as(exponential(cpp, how, here));
    CHECK_OK(tessera_purify(a, nullptr, 6, &options, &made, &report));
    const auto density = purify(cpp, 6, how, here);
    same_as(density);
    EXPECT_EQ(report.homo, density.report.homo);
    CHECK_OK(tessera_purify(a, a, 6, &options, &made, &report));
    same_as(purify(cpp, cpp, 6, how, here));
    options.max_iterations = 1;
    report = {};
    EXPECT_EQ(tessera_inverse(a, &options, &made, &report), TESSERA_NOT_CONVERGED);
    EXPECT_GT(report.iterations, 0);
    EXPECT_GT(report.residual, 0);
}

TYPED_TEST(CApi, FilesComeBackOnTheRanks) {
    auto a = this->random(TileGrid{this->i, this->k}, 0.6);
    // One name for all ranks.
    std::vector<std::byte> name(64);
    const auto text = (std::filesystem::temp_directory_path() / ("tessera_c_" + std::to_string(::getpid()))).string();
    std::memcpy(name.data(), text.c_str(), text.size() + 1);
    this->ranks.broadcast(name, 0);
    const char* path = reinterpret_cast<const char*>(name.data());
    CHECK_OK(tessera_write(path, a.c));
    tessera_tensor read = nullptr;
    CHECK_OK(tessera_read(path, this->comm, &read));
    this->same(this->kept(read), a.cpp);
    this->ranks.barrier();
    if (this->ranks.rank() == 0) std::filesystem::remove(path);
    EXPECT_EQ(tessera_read("/nonexistent/a.h5", this->comm, &read), TESSERA_WRONG_INPUT);
    EXPECT_NE(std::strstr(tessera_message(), "/nonexistent/a.h5"), nullptr) << tessera_message();
}

#ifdef TESSERA_TEST_MPI
TEST(CApiRanks, AreThoseOfACommunicatorOfMpi) {
    mpi_world();
    int rank = -1, size = 0, mine = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, mine % 2, mine, &half);
    tessera_comm comm = nullptr;
    CHECK_OK(tessera_comm_from_mpi(MPI_Comm_c2f(half), &comm));
    CHECK_OK(tessera_comm_rank(comm, &rank));
    CHECK_OK(tessera_comm_size(comm, &size));
    int half_size = 0;
    MPI_Comm_size(half, &half_size);
    EXPECT_EQ(rank, mine / 2);
    EXPECT_EQ(size, half_size);
    CHECK_OK(tessera_comm_destroy(comm));
    MPI_Comm_free(&half);
}
#endif

TEST(CApiRefusals, NameValuesAndMakeNothing) {
    const TileGrid grid{Tiling{2, 3}, Tiling{4}};
    const CGrid g(grid);
    auto* const before = reinterpret_cast<tessera_tensor>(8);
    tessera_tensor x = before, f = nullptr, d = nullptr;
    const auto refused = [&](int error, int code, const char* text) {
        EXPECT_EQ(error, code);
        EXPECT_STREQ(tessera_message(), text);
    };
    refused(tessera_create(7, &g.c, nullptr, &x), TESSERA_WRONG_INPUT,
            "type 7 is none of 0 (float32), 1 (float64), 2 (complex64), 3 (complex128)");
    refused(tessera_create(0, nullptr, nullptr, &x), TESSERA_WRONG_INPUT, "grid is a null pointer");
    const tessera_grid negative{-1, nullptr, nullptr};
    refused(tessera_create(0, &negative, nullptr, &x), TESSERA_WRONG_INPUT, "grid: rank -1 is not between 0 and 16");
    EXPECT_EQ(x, before);
    CHECK_OK(tessera_create(TESSERA_FLOAT32, &g.c, nullptr, &f));
    CHECK_OK(tessera_create(TESSERA_FLOAT64, &g.c, nullptr, &d));
    refused(tessera_axpy(nullptr, f, f), TESSERA_WRONG_INPUT, "alpha is a null pointer");
    const double imaginary[] = {1, 0.5};
    refused(tessera_scale(d, imaginary), TESSERA_WRONG_INPUT,
            "factor has an imaginary part, 0.500000, and the tensor is real");
    refused(tessera_hadamard(d, f, &x), TESSERA_WRONG_INPUT,
            "y has elements of type float32, the first tensor of float64");
    refused(tessera_tile(d, 0, nullptr, nullptr, nullptr, nullptr), TESSERA_WRONG_INPUT,
            "slot 0 of a tensor of 0 tiles");
    std::uint64_t foreign = 5;
    refused(tessera_destroy(reinterpret_cast<tessera_tensor>(&foreign)), TESSERA_WRONG_INPUT,
            "tensor is no tensor: it is of another kind, or destroyed");
    EXPECT_EQ(tessera_contract("ik,kj->ij", d, d, nullptr, &x, nullptr), TESSERA_WRONG_INPUT);
    EXPECT_NE(std::strstr(tessera_message(), "'k'"), nullptr) << tessera_message();
    EXPECT_EQ(tessera_trace(d, nullptr), TESSERA_WRONG_INPUT);
    tessera_builder builder = nullptr;
    CHECK_OK(tessera_builder_create_like(d, 0, &builder));
    const std::int64_t outside[] = {0, 1}, inside[] = {1, 0};
    std::vector<double> block(12, std::numeric_limits<double>::quiet_NaN());
    refused(tessera_add(builder, outside, block.data()), TESSERA_WRONG_INPUT,
            "tile (0, 1) is outside of the grid of (2, 1) tiles");
    EXPECT_EQ(tessera_add(builder, inside, block.data()), TESSERA_WRONG_INPUT);
    EXPECT_NE(std::strstr(tessera_message(), "(1, 0)"), nullptr) << tessera_message();
    block.assign(12, 1.0);
    CHECK_OK(tessera_add(builder, inside, block.data()));
    CHECK_OK(tessera_finalize_into(builder, 1, d));
    // What was refused changed nothing.
    std::uint64_t was = 0, is = 0;
    CHECK_OK(tessera_checksum(d, &was));
    const double endless[] = {std::numeric_limits<double>::infinity(), 0};
    refused(tessera_scale(d, endless), TESSERA_WRONG_INPUT, "scale: a factor of inf + 0i is not finite");
    refused(tessera_axpy(endless, d, d), TESSERA_WRONG_INPUT, "axpy: a factor of inf + 0i is not finite");
    CHECK_OK(tessera_checksum(d, &is));
    EXPECT_EQ(is, was);
    tessera_comm none = nullptr;
    EXPECT_NE(tessera_comm_from_mpi(123456, &none), TESSERA_SUCCESS);
    EXPECT_EQ(none, nullptr);
    tessera_options options;
    tessera_options_init(&options);
    options.memory = 1;
    EXPECT_EQ(tessera_contract("ik,jk->ij", d, d, &options, &x, nullptr), TESSERA_MACHINE_CANNOT);
    EXPECT_GT(tessera_smallest_memory(), 1);
    EXPECT_EQ(tessera_add(builder, nullptr, nullptr), TESSERA_WRONG_INPUT);
    EXPECT_EQ(tessera_smallest_memory(), 0);
    EXPECT_EQ(x, before);
    CHECK_OK(tessera_builder_destroy(builder));
    CHECK_OK(tessera_destroy(d));
    CHECK_OK(tessera_destroy(f));
    CHECK_OK(tessera_destroy(nullptr));
    EXPECT_NE(std::strlen(tessera_version()), 0u);
}

}  // namespace
}  // namespace tessera
