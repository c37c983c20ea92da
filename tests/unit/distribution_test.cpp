#include "tessera/index/distribution.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using Axis = Distribution::Axis;
using Deal = Distribution::Deal;

std::vector<int> owners(const Distribution& d, const TileGrid& grid) {
    std::vector<int> all;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) all.push_back(d.owner(grid, TileOrdinal{o}));
    return all;
}

TEST(Distribution, OneRankOwnsEverything) {
    const TileGrid grid{Tiling{1, 2}, Tiling{3, 1, 1}};
    EXPECT_EQ(owners(Distribution(), grid), std::vector<int>(6, 0));
    EXPECT_EQ(owners(Distribution(4, {}), grid), std::vector<int>(6, 0));
    EXPECT_EQ(Distribution().owner(TileGrid(), TileOrdinal{0}), 0);
    EXPECT_EQ(to_string(Distribution()), "1 rank");
}

TEST(Distribution, CyclicAndBlocked) {
    const TileGrid grid{Tiling::uniform(5, 1), Tiling::uniform(3, 1)};
    const Distribution cyclic(6, {{2}, {3}});
    EXPECT_EQ(owners(cyclic, grid), (std::vector<int>{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2}));
    const Distribution blocked(2, {{2, Deal::blocked}, {1}});
    EXPECT_EQ(owners(blocked, grid), (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(to_string(Distribution(4, {{2}, {2, Deal::blocked}, {1}})), "4 ranks as 2 x 2 blocked x 1");
    // More ranks than tiles: the first ones have one each.
    EXPECT_EQ(owners(Distribution(9, {{9, Deal::blocked}}), TileGrid{Tiling{2, 2}}), (std::vector<int>{0, 1}));
}

TEST(Distribution, BlocksAreContiguousAndEven) {
    for (int tiles = 1; tiles <= 40; ++tiles)
        for (int ranks = 1; ranks <= 12; ++ranks) {
            const TileGrid grid{Tiling::uniform(tiles, 1)};
            const auto all = owners(Distribution(ranks, {{ranks, Deal::blocked}}), grid);
            ASSERT_TRUE(std::is_sorted(all.begin(), all.end()));
            std::map<int, int> count;
            for (int r : all) ++count[r];
            for (const auto& [rank, n] : count) {
                ASSERT_LT(rank, ranks);
                ASSERT_GE(n, tiles / ranks);
                ASSERT_LE(n, (tiles + ranks - 1) / ranks);
            }
            ASSERT_EQ(static_cast<int>(count.size()), std::min(tiles, ranks));
        }
}

TEST(Distribution, EvenIsAsSquareAsItGets) {
    const TileGrid grid{Tiling::uniform(3, 1), Tiling::uniform(40, 1), Tiling::uniform(20, 1)};
    EXPECT_EQ(Distribution::even(grid, 6), Distribution(6, {{1}, {3}, {2}}));
    EXPECT_EQ(Distribution::even(grid, 4), Distribution(4, {{1}, {2}, {2}}));
    EXPECT_EQ(Distribution::even(grid, 5), Distribution(5, {{1}, {5}, {1}}));
    EXPECT_EQ(Distribution::even(grid, 1), Distribution(1, {{1}, {1}, {1}}));
    // A square grid of ranks would leave half of them without a tile.
    EXPECT_EQ(Distribution::even(TileGrid{Tiling::uniform(9, 1), Tiling{1}}, 4), Distribution(4, {{4}, {1}}));
    EXPECT_EQ(Distribution::even(TileGrid{Tiling::uniform(9, 1)}, 4), Distribution(4, {{4}}));
    EXPECT_EQ(Distribution::even(TileGrid(), 4), Distribution(4, {}));
    EXPECT_EQ(Distribution::even(TileGrid{Tiling(), Tiling{1, 1}}, 4).ranks(), 4);
    for (int ranks : {2, 3, 4, 6, 12}) {
        const auto all = owners(Distribution::even(grid, ranks), grid);
        EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), static_cast<std::size_t>(ranks));
    }
}

TEST(Distribution, ErrorsNameTheValues) {
    const auto message = [](auto&& act) -> std::string {
        try {
            act();
        } catch (const UserError& e) {
            return e.what();
        }
        return "";
    };
    EXPECT_NE(message([] { Distribution(4, {{3}, {2}}); }).find("6 ranks, but there are 4"), std::string::npos);
    EXPECT_NE(message([] { Distribution(4, {{1}, {0}}); }).find("index 1 is dealt to 0"), std::string::npos);
    EXPECT_NE(message([] { Distribution(0, {}); }).find("0 ranks"), std::string::npos);
    EXPECT_NE(message([] { Distribution(2, std::vector<Axis>(17)); }).find("17 axes"), std::string::npos);
    EXPECT_NE(message([] { Distribution(4, {{2147483647}, {2147483647}, {2147483647}}); }), "");
    const TileGrid grid{Tiling{1, 1}};
    EXPECT_NE(message([&] {
                  Distribution(2, {{1}, {2}}).owner(grid, TileOrdinal{0});
              }).find("2 axes for a tensor of 1"),
              std::string::npos);
    EXPECT_NE(message([&] { Distribution().owner(grid, TileOrdinal{2}); }).find("tile number 2"), std::string::npos);
}

TEST(Distribution, ByLists) {
    const TileGrid grid{Tiling{1, 1, 1}, Tiling{1, 1}};
    // Element [i][j] of the grid of 2 x 3 ranks is rank 3 i + j.
    const auto d = Distribution::from_maps(6, {{1, 0, 1}, {2, 0}}, {2, 3});
    EXPECT_EQ(owners(d, grid), (std::vector<int>{5, 3, 2, 0, 5, 3}));
    EXPECT_EQ(d, Distribution::from_maps(6, {{1, 0, 1}, {2, 0}}));  // sides from the lists
    EXPECT_NE(to_string(d), to_string(Distribution::from_maps(6, {{1, 0, 1}, {0, 2}})));
    EXPECT_EQ(Distribution::from_maps(4, {{0, 0}, {1, 3}}), Distribution::from_maps(4, {{}, {1, 3}}, {1, 4}));
    const auto message = [](auto&& make) -> std::string {
        try {
            make();
        } catch (const UserError& e) {
            return e.what();
        }
        return "";
    };
    EXPECT_EQ(message([] {
                  Distribution::from_maps(6, {{0, 2}, {0}}, {2, 1});
              }),
              "distribution: tile 1 of index 0 is dealt to 2, which is outside 0..1");
    EXPECT_EQ(message([] {
                  Distribution::from_maps(6, {{0, -1}});
              }),
              "distribution: tile 1 of index 0 is dealt to -1, which is outside 0..0");
    EXPECT_EQ(message([] {
                  Distribution::from_maps(2, {{0, 2}});
              }),
              "distribution: a grid of 3 ranks, but there are 2");
    EXPECT_EQ(message([] {
                  Distribution::from_maps(2, {{0, 1}}, {2, 1});
              }),
              "distribution: a grid of 2 dimensions for 1 lists");
    EXPECT_EQ(message([&] {
                  Distribution::from_maps(2, {{0, 1}, {0, 0}}).require_fits(grid);
              }),
              "tensor: index 0 has 3 tiles, but is dealt by a list of 2");
}

TEST(Distribution, FollowsPermutationsAndSlices) {
    const TileGrid grid{Tiling{1, 1, 1, 1}, Tiling{1, 1, 1}, Tiling{1, 1, 1, 1, 1}};
    const Distribution d(12, {{2, Deal::cyclic}, {3, Deal::blocked}, {2, Deal::mapped, {1, 1, 0, 1, 0}}});
    const Permutation p{2, 0, 1};
    const TileGrid turned{grid.tiling(2), grid.tiling(0), grid.tiling(1)};
    const auto q = d.permuted(p);
    const IndexVector first{1, 0, 2}, count{2, 2, 3};
    const auto part = d.sliced(grid, first, count);
    const TileGrid small{Tiling{1, 1}, Tiling{1, 1}, Tiling{1, 1, 1}};
    for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
        const auto at = grid.coordinates(TileOrdinal{o});
        EXPECT_EQ(q.owner(turned, turned.ordinal(p.apply(at))), d.owner(grid, TileOrdinal{o}));
        IndexVector in = at;
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
            in[i] -= first[i];
            inside &= in[i] >= 0 && in[i] < count[i];
        }
        if (inside) {
            EXPECT_EQ(part.owner(small, small.ordinal(in)), d.owner(grid, TileOrdinal{o}));
        }
    }
    EXPECT_EQ(q.permuted(p.inverse()), d);
    EXPECT_NE(to_string(q), to_string(Distribution(12, {d.axes()[2], d.axes()[0], d.axes()[1]})));
    EXPECT_EQ(d.sliced(grid, {0, 0, 0}, {4, 3, 5}), d);
    EXPECT_EQ(Distribution(2, {{2}}).sliced(TileGrid{Tiling{1, 1, 1}}, {2}, {1}), Distribution(2, {{2}}));
}

using Patches = Distribution::Patches;

TEST(Distribution, PatchesOfSeveralIndices) {
    const TileGrid grid{Tiling::uniform(2, 1), Tiling::uniform(3, 1), Tiling::uniform(2, 1)};
    // Index 1 alone, indices 0 and 2 together.
    const auto d = Distribution::from_patches(6, 3, {{{1}, {3}, {0, 3, 0}}, {{0, 2}, {2, 2}, {0, 1, 2, 1}}});
    EXPECT_EQ(owners(d, grid), (std::vector<int>{0, 1, 3, 4, 0, 1, 2, 1, 5, 4, 2, 1}));
    EXPECT_EQ(to_string(d).find("6 ranks as 1 x 1 x 1, indices 1 by table "), 0u) << to_string(d);
    EXPECT_NE(d, Distribution::from_patches(6, 3, {{{1}, {3}, {0, 3, 3}}, {{0, 2}, {2, 2}, {0, 1, 2, 1}}}));
    d.require_fits(grid);
    EXPECT_THROW(d.require_fits(TileGrid{Tiling::uniform(2, 1), Tiling::uniform(3, 1), Tiling::uniform(3, 1)}),
                 UserError);
    // A table that adds nothing is none.
    EXPECT_EQ(Distribution::from_patches(2, 2, {{{0}, {2}, {0, 0}}}), Distribution(2, {{1}, {1}}));
}

TEST(Distribution, PatchesStayWithTheirTiles) {
    std::mt19937 r(5);
    for (int trial = 0; trial < 50; ++trial) {
        std::vector<Tiling> tilings;
        for (int d = 0; d < 4; ++d) tilings.push_back(Tiling::uniform(1 + static_cast<int>(r() % 4), 1));
        const TileGrid grid(tilings);
        const auto patches = [&](std::vector<std::int32_t> indices, int most) {
            Patches p{std::move(indices), {}, {}};
            std::size_t entries = 1;
            for (const auto d : p.indices)
                entries *= static_cast<std::size_t>(p.tiles.emplace_back(grid.tile_counts()[d]));
            for (std::size_t i = 0; i < entries; ++i)
                p.map.push_back(static_cast<int>(r() % static_cast<unsigned>(most + 1)));
            return p;
        };
        const auto x = Distribution::from_patches(6, 4, {patches({0, 3}, 2), patches({1, 2}, 3)});
        const Permutation p{2, 0, 3, 1};
        std::vector<Tiling> turned;
        for (int d = 0; d < 4; ++d) turned.push_back(tilings[static_cast<std::size_t>(p[d])]);
        const TileGrid other(turned);
        const auto y = x.permuted(p);
        IndexVector first, count;
        std::vector<Tiling> part;
        for (int d = 0; d < 4; ++d) {
            const auto n = grid.tile_counts()[d];
            first.push_back(static_cast<std::int64_t>(r() % static_cast<unsigned>(n)));
            count.push_back(1 + static_cast<std::int64_t>(r() % static_cast<unsigned>(n - first[d])));
            part.push_back(Tiling::uniform(count[d], 1));
        }
        const TileGrid window(part);
        const auto z = x.sliced(grid, first, count);
        for (std::int64_t o = 0; o < grid.tile_total(); ++o) {
            const auto at = grid.coordinates(TileOrdinal{o});
            IndexVector there, inside;
            bool in = true;
            for (int d = 0; d < 4; ++d) {
                there.push_back(at[p[d]]);
                inside.push_back(at[d] - first[d]);
                in = in && inside[d] >= 0 && inside[d] < count[d];
            }
            ASSERT_EQ(x.owner(grid, TileOrdinal{o}), y.owner(other, other.ordinal(there)));
            if (in) {
                ASSERT_EQ(x.owner(grid, TileOrdinal{o}), z.owner(window, window.ordinal(inside)));
            }
        }
    }
}

TEST(Distribution, PatchesThatAreNone) {
    const auto refused = [](int ranks, std::vector<Patches> patches, const char* part) {
        try {
            Distribution::from_patches(ranks, 2, std::move(patches));
            ADD_FAILURE() << part;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
        }
    };
    refused(4, {{{2}, {1}, {0}}}, "index 2");
    refused(4, {{{0}, {2}, {0, 1}}, {{0}, {2}, {0, 1}}}, "index 0 twice");
    refused(4, {{{1, 0}, {1, 1}, {0}}}, "out of order");
    refused(4, {{{0}, {3}, {0, 1}}}, "2 entries");
    refused(4, {{{0}, {2}, {0, -2}}}, "is -2");
    refused(3, {{{0}, {2}, {0, 1}}, {{1}, {2}, {0, 2}}}, "reach rank 3");
}

}  // namespace
}  // namespace tessera
