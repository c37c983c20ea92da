// Tensors that ranks and threads assemble, cut into other tiles, take apart and join have the bits of one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <thread>

#include "support/draw.hpp"
#include "support/message.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/tensor/builder.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera {
namespace {

using testing::Draw;
using testing::message;

template <class T>
struct Assemble : ::testing::Test {
    Communicator& ranks = mpi_world();
    Placement dealt(const Distribution& d) { return {ranks, d}; }
    T value(Draw& draw) {
        if constexpr (is_complex<T>)
            return T(static_cast<RealOf<T>>(draw.unit() - 0.5), static_cast<RealOf<T>>(draw.unit() - 0.5));
        else
            return static_cast<T>(draw.unit() - 0.5);
    }
    /// The tensor's elements are exactly these.
    void expect_dense(const Tensor<T>& x, const std::vector<T>& dense, const char* what) {
        const auto is = x.to_dense();
        ASSERT_EQ(is.size(), dense.size()) << what;
        EXPECT_TRUE(std::memcmp(is.data(), dense.data(), is.size() * sizeof(T)) == 0) << what;
        const auto again = Tensor<T>::generate(
            x.shape(),
            [&](const TileInfo& info, std::span<T> tile) { std::ranges::copy(local(x, info), tile.begin()); }, 0,
            x.placement());
        EXPECT_EQ(again.shape(), x.shape()) << what << ": norms";
    }
    static std::span<const T> local(const Tensor<T>& x, const TileInfo& info) { return x.tile(info.coordinates); }
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Assemble, Scalars);

TYPED_TEST(Assemble, KeysMakeTheSameBitsWhoeverAdds) {
    using T = TypeParam;
    struct Block {
        IndexVector tile;
        std::int64_t key;
        std::vector<T> elements;
        int rank, thread;
    };
    for (unsigned seed = 1; seed <= 6; ++seed) {
        Draw draw(seed);
        const TileGrid grid = draw.grid();
        std::vector<Block> blocks;
        for (int n = 0; n < 60; ++n) {
            const TileOrdinal tile{draw.below(static_cast<int>(grid.tile_total()))};
            Block b{grid.coordinates(tile), draw.below(20) - 10, {}, draw.below(this->ranks.size()), draw.below(3)};
            for (auto e = grid.tile_elements(tile); e > 0; --e) b.elements.push_back(this->value(draw));
            blocks.push_back(std::move(b));
        }
        // The slow sum: by key, and by bits where keys are equal.
        std::map<std::int64_t, std::vector<const Block*>> by_tile;
        for (const auto& b : blocks) by_tile[grid.ordinal(b.tile).value].push_back(&b);
        std::vector<ShapeEntry> entries;
        for (auto& [tile, list] : by_tile) {
            std::sort(list.begin(), list.end(), [](const Block* x, const Block* y) {
                return x->key != y->key
                           ? x->key < y->key
                           : std::memcmp(x->elements.data(), y->elements.data(), x->elements.size() * sizeof(T)) < 0;
            });
            entries.push_back({TileOrdinal{tile}, 1});
        }
        const auto slow = Tensor<T>::generate(Shape(grid, entries), [&](const TileInfo& info, std::span<T> tile) {
            const auto& list = by_tile.at(info.tile.value);
            std::ranges::copy(list[0]->elements, tile.begin());
            for (std::size_t n = 1; n < list.size(); ++n)
                for (std::size_t i = 0; i < tile.size(); ++i) tile[i] += list[n]->elements[i];
        });

        TensorBuilder<T> builder(grid, this->dealt(draw.distribution(grid, this->ranks.size())));
        for (int again = 0; again < 2; ++again) {  // it is empty after the first time
            std::vector<std::thread> threads;
            for (int t = 0; t < 3; ++t)
                threads.emplace_back([&, t] {
                    for (std::size_t i = 0; i < blocks.size(); ++i) {
                        const auto& b = blocks[again ? blocks.size() - 1 - i : i];
                        if (b.thread == t && b.rank == this->ranks.rank()) builder.add(b.tile, b.elements, b.key);
                    }
                });
            for (auto& t : threads) t.join();
            const auto x = builder.finalize();
            EXPECT_EQ(x.shape(), slow.shape());
            EXPECT_EQ(checksum(x), checksum(slow)) << seed;
            EXPECT_EQ(builder.held_bytes(), 0);
        }
    }
}

TYPED_TEST(Assemble, AddPutAndReserve) {
    using T = TypeParam;
    const int n = this->ranks.size(), me = this->ranks.rank();
    const TileGrid grid{Tiling{2, 3}, Tiling{1, 2, 2}};
    TensorBuilder<T> builder(grid, this->dealt(Distribution::even(grid, n)));
    builder.add({0, 0}, std::vector<T>{T(1), T(2)});
    builder.add({0, 0}, std::vector<T>{T(10), T(10)});
    if (me == 0) builder.add({0, 0}, std::vector<T>{T(100), T(100)}, 7);
    builder.put({1, 2}, std::vector<T>(6, T(5)));  // the same on all ranks
    if (me == n - 1) builder.put({0, 1}, std::vector<T>{T(1), T(2), T(3), T(4)});
    if (me == 0) builder.reserve({0, 1});
    if (me == n / 2) builder.reserve({1, 0});
    const auto x = builder.finalize(2);
    EXPECT_EQ(x.tile_count(), 4);
    const auto t = [&](double v) { return T(static_cast<RealOf<T>>(v)); };
    this->expect_dense(x,
                       {t(11 * n + 100),
                        t(1),
                        t(2),
                        t(0),
                        t(0),  //
                        t(12 * n + 100),
                        t(3),
                        t(4),
                        t(0),
                        t(0),  //
                        t(0),
                        t(0),
                        t(0),
                        t(5),
                        t(5),  //
                        t(0),
                        t(0),
                        t(0),
                        t(5),
                        t(5),  //
                        t(0),
                        t(0),
                        t(0),
                        t(5),
                        t(5)},
                       "assembled");
}

TEST(AssembleErrors, EveryRankIsToldTheTile) {
    Communicator& ranks = mpi_world();
    const int n = ranks.size(), me = ranks.rank();
    const TileGrid grid{Tiling{2, 3}, Tiling{1, 2, 2}};
    const Placement where(ranks, Distribution::even(grid, n));
    using B = TensorBuilder<double>;
    B builder(grid, where);
    const std::vector<double> one(4, 1.0), two(4, 2.0);
    EXPECT_NE(message([&] {
                  builder.add({0, 1}, std::vector<double>(5));
              }).find("a block of 5 elements for tile (0, 1), which has 4: (2, 2)"),
              std::string::npos);
    EXPECT_NE(message([&] {
                  builder.put({2, 0}, one);
              }).find("coordinate 2 of index 0 is outside 0..1"),
              std::string::npos);
    EXPECT_NE(message([&] { builder.reserve({0}); }).find("1 coordinates"), std::string::npos);
    const std::vector<double> bad{0, std::numeric_limits<double>::quiet_NaN(), 0, 0};
    EXPECT_EQ(message([&] {
                  builder.add({0, 1}, bad, 1);
              }),
              "builder: element (0, 2) of tile (0, 1) is NaN; a norm needs finite numbers");
    EXPECT_EQ(builder.held_bytes(), 0);

    builder.put({0, 1}, one);
    EXPECT_NE(message([&] { builder.put({0, 1}, two); }).find("tile (0, 1) is put twice"), std::string::npos);
    EXPECT_NE(message([&] { builder.add({0, 1}, two); }).find("tile (0, 1) is put already"), std::string::npos);
    EXPECT_EQ(builder.finalize().tile_count(), 1);
    builder.add({0, 1}, one, 3);
    EXPECT_NE(message([&] { builder.put({0, 1}, two); }).find("something was added"), std::string::npos);
    EXPECT_EQ(builder.finalize().tile_count(), 1);

    if (n > 1) {
        if (me == 0) builder.put({0, 1}, one);
        if (me == n - 1) builder.put({0, 1}, two);
        const auto held = builder.held_bytes();
        const auto conflict =
            fmt::format("builder: tile (0, 1) is put by ranks 0 and {}, with different elements", n - 1);
        EXPECT_EQ(message([&] { builder.finalize(); }), conflict);
        EXPECT_EQ(builder.held_bytes(), held);
        EXPECT_EQ(message([&] { builder.finalize(); }), conflict);  // it is as it was

        B other(grid, where);
        if (me == 0) other.put({1, 1}, std::vector<double>(6, 1.0));
        if (me == n - 1) other.add({1, 1}, std::vector<double>(6, 1.0));
        EXPECT_EQ(message([&] { other.finalize(); }),
                  fmt::format("builder: tile (1, 1) is put by rank 0 and added to by rank {}", n - 1));
        B third(grid, {ranks, me == 0 ? Distribution(n, {}) : where.distribution});
        EXPECT_NE(message([&] { third.finalize(); }).find("the builder's distribution is"), std::string::npos);
        EXPECT_NE(message([&] { B(grid, {ranks, Distribution()}); }).find("dealt to 1 rank"), std::string::npos);
    }
    // Numbers that are finite, each, but not their sum.
    B huge(grid, where);
    huge.add({0, 0}, std::vector<double>{1e308, 1}, me);
    huge.add({0, 0}, std::vector<double>{1e308, 1}, me + 100);
    EXPECT_NE(message([&] { huge.finalize(); }).find("tile (0, 0)"), std::string::npos);
    ranks.barrier();
}

TEST(AssembleBudget, IsAPromise) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling::uniform(40, 10), Tiling::uniform(40, 10)};
    const Placement where(ranks, Distribution::even(grid, ranks.size()));
    const std::vector<double> block(100, 1.0);
    const auto fill = [&](TensorBuilder<double>& b) {
        for (std::int64_t i = 0; i < 4; ++i)
            for (std::int64_t j = 0; j < 4; ++j) b.add({i, j}, block, ranks.rank());
    };
    TensorBuilder<double> tiny(grid, where, 3000);
    EXPECT_THROW(fill(tiny), BudgetError);
    EXPECT_LE(tiny.held_bytes(), 3000);
    std::int64_t smallest = 0;
    TensorBuilder<double> small(grid, where, 22000);
    fill(small);
    const auto held = small.held_bytes();
    try {
        small.finalize();
        FAIL() << "blocks and tensor together are more than 22,000 bytes";
    } catch (const BudgetError& e) {
        smallest = e.smallest_bytes();
    }
    EXPECT_EQ(small.held_bytes(), held);
    EXPECT_THROW(
        {
            TensorBuilder<double> less(grid, where, smallest - 1);
            fill(less);
            less.finalize();
        },
        BudgetError);
    TensorBuilder<double> enough(grid, where, smallest);
    fill(enough);
    const auto x = enough.finalize();
    EXPECT_EQ(norm(x), 40.0 * ranks.size());
    EXPECT_EQ(enough.held_bytes(), 0);
}

/// Element `at` of a row-major array.
std::size_t place(const IndexVector& at, const IndexVector& extents) {
    std::int64_t p = 0;
    for (int d = 0; d < at.size(); ++d) p = p * extents[d] + at[d];
    return static_cast<std::size_t>(p);
}

/// Calls visit(position) for each element of an array.
template <class Visit>
void for_each_position(const IndexVector& extents, Visit&& visit) {
    IndexVector at = IndexVector::filled(extents.size(), 0);
    for (std::int64_t n = extents.product(); n > 0; --n) {
        visit(at);
        for (int d = at.size() - 1; d >= 0; --d) {
            if (++at[d] < extents[d]) break;
            at[d] = 0;
        }
    }
}

TYPED_TEST(Assemble, OtherTilesAndParts) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const TileGrid grid = draw.grid();
        const auto shape = draw.shape(grid, 0.5);
        const auto x = Tensor<T>::random(shape, seed, 0, this->dealt(draw.distribution(grid, this->ranks.size())));
        const auto dense = x.to_dense();
        const auto extents = grid.extents();

        // The same extents, cut otherwise.
        std::vector<Tiling> tilings;
        for (auto extent : extents) {
            std::vector<std::int64_t> sizes;
            for (std::int64_t left = extent; left > 0; left -= sizes.back())
                sizes.push_back(1 + draw.below(static_cast<int>(left)));
            tilings.push_back(Tiling::from_sizes(sizes));
        }
        const TileGrid cut(tilings);
        const auto where = draw.distribution(cut, this->ranks.size());
        this->expect_dense(retile(x, cut, where), dense, "retile");
        const auto y = retile(x, cut);
        this->expect_dense(y, dense, "retile, as x is dealt");
        EXPECT_EQ(filter(retile(y, grid), 1e-30).shape(), filter(x, 1e-30).shape());
        std::int64_t stored = 0;  // no more than meet a tile of x
        for (std::int64_t s = 0; s < y.tile_count(); ++s) stored += y.shape().norm_of(s) > 0;
        EXPECT_EQ(stored, y.tile_count());

        std::vector<ElementRange> ranges;
        IndexVector lo, part;
        for (auto extent : extents) {
            const std::int64_t from = draw.below(static_cast<int>(extent) + 1);
            ranges.push_back({from, from + draw.below(static_cast<int>(extent - from) + 1)});
            if (draw.below(3) == 0) ranges.back() = {0, extent};
            lo.push_back(ranges.back().lo);
            part.push_back(ranges.back().hi - ranges.back().lo);
        }
        const auto inside = [&](IndexVector at) {
            for (int d = 0; d < at.size(); ++d) at[d] += lo[d];
            return place(at, extents);
        };
        const auto piece = slice(x, ranges);
        std::vector<T> wanted;
        for_each_position(part, [&](const IndexVector& at) { wanted.push_back(dense[inside(at)]); });
        this->expect_dense(piece, wanted, "slice");
        for (std::int64_t s = 0; s < piece.tile_count(); ++s) {  // nothing has moved
            IndexVector at = piece.grid().tile_begin(piece.shape().tile(s));
            for (int d = 0; d < at.size(); ++d) at[d] = grid.tiling(d).tile_of(ElementIndex{at[d] + lo[d]}).value;
            EXPECT_EQ(piece.owner(s), x.owner(*x.shape().find(grid.ordinal(at))));
        }

        // Something else into that part, dealt and cut in its own way.
        std::vector<Tiling> other;
        for (auto extent : part) other.push_back(Tiling::uniform(extent, 2));
        const TileGrid small(other);
        const auto z = Tensor<T>::random(draw.shape(small, 0.5), seed + 50, 0,
                                         this->dealt(draw.distribution(small, this->ranks.size())));
        const auto z_dense = z.to_dense();
        auto all = dense;
        for_each_position(part, [&](const IndexVector& at) { all[inside(at)] = z_dense[place(at, part)]; });
        auto w = x;
        assign_slice(w, ranges, z);
        this->expect_dense(w, all, "assign_slice");
        EXPECT_EQ(w.placement(), x.placement());
        assign_slice(w, ranges, piece);
        this->expect_dense(w, dense, "and back");
    }
}

TYPED_TEST(Assemble, PermutedTilesStayOnTheirRanks) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 8; ++seed) {
        Draw draw(seed);
        const TileGrid grid = draw.grid();
        const auto shape = draw.shape(grid, 0.6);
        const auto one = Tensor<T>::random(shape, seed);
        const auto x = Tensor<T>::random(shape, seed, 0, this->dealt(draw.distribution(grid, this->ranks.size())));
        std::vector<int> map;
        for (int d = 0; d < grid.rank(); ++d) map.insert(map.begin() + draw.below(static_cast<int>(map.size()) + 1), d);
        const Permutation p(map);
        const auto y = permute(x, p);
        EXPECT_EQ(checksum(y), checksum(permute(one, p)));
        for (std::int64_t s = 0; s < y.tile_count(); ++s) {
            const auto from = p.inverse().apply(y.grid().coordinates(y.shape().tile(s)));
            EXPECT_EQ(y.owner(s), x.owner(*x.shape().find(grid.ordinal(from))));
        }
        const auto back = permute(y, p.inverse());
        EXPECT_TRUE(this->ranks.size() == 1 || back.placement() == x.placement());
        EXPECT_TRUE(back == x);
    }
}

TYPED_TEST(Assemble, TilesAndElementsOneByOne) {
    using T = TypeParam;
    Draw draw(3);
    const TileGrid grid{Tiling{2, 3, 1}, Tiling{4, 1, 2}};
    auto x = Tensor<T>::random(Shape::dense(grid), 5, 0, this->dealt(Distribution::even(grid, this->ranks.size())));
    auto dense = x.to_dense();
    x.update_tiles(
        [](const IndexVector& at, T value) { return value + T(static_cast<RealOf<T>>(100 * at[0] + at[1])); });
    for_each_position(grid.extents(), [&](const IndexVector& at) {
        dense[place(at, grid.extents())] += T(static_cast<RealOf<T>>(100 * at[0] + at[1]));
    });
    this->expect_dense(x, dense, "update_tiles by elements");
    std::vector<std::int64_t> seen(9), once(9, 1);
    x.for_each_tile(
        [&](const TileInfo& info, std::span<const T> tile) {
            seen[static_cast<std::size_t>(info.tile.value)] += tile.data() == this->local(x, info).data();
        },
        3);
    this->ranks.sum(std::span(seen));
    EXPECT_EQ(seen, once);
}

TEST(AssembleErrors, PartsThatAreNotThere) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling{2, 3}, Tiling{4}};
    const Placement where(ranks, Distribution::even(grid, ranks.size()));
    auto x = Tensor<double>::random(Shape::dense(grid), 1, 0, where);
    EXPECT_EQ(message([&] { slice(x, {{0, 6}, {0, 4}}); }), "slice: range 0..6 of index 0 is not within 0..5");
    EXPECT_EQ(message([&] { slice(x, {{3, 2}, {0, 4}}); }), "slice: range 3..2 of index 0 is not within 0..5");
    EXPECT_EQ(message([&] { slice(x, {{0, 2}}); }), "slice: 1 ranges for a tensor of rank 2");
    EXPECT_EQ(message([&] {
                  retile(x, TileGrid{Tiling{5}, Tiling{3}});
              }),
              "retile: index 1 has 4 elements, but the new tiles 3");
    EXPECT_EQ(message([&] { retile(x, TileGrid{Tiling{5}}); }), "retile: tilings of rank 1 for a tensor of rank 2");
    const auto before = checksum(x);
    EXPECT_EQ(message([&] {
                  assign_slice(x, {{1, 3}, {0, 4}}, x);
              }),
              "assign_slice: range 1..3 of index 0 is given 5 elements");
    if (ranks.size() > 1) {
        EXPECT_NE(message([&] {
                      slice(x, {{0, 1 + (ranks.rank() == 1)}, {0, 4}});
                  }).find("on rank 1 slice is"),
                  std::string::npos);
        const Tensor<double> alone(Shape::dense(TileGrid{Tiling{2}, Tiling{4}}));
        EXPECT_NE(message([&] {
                      assign_slice(x, {{1, 3}, {0, 4}}, alone);
                  }).find("different communicators"),
                  std::string::npos);
    }
    EXPECT_EQ(checksum(x), before);
}

}  // namespace
}  // namespace tessera
