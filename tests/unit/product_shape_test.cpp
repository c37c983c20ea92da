// What is found of a contraction's products does not depend on how many threads look for them.

#include "shape/product_shape.hpp"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/random_shapes.hpp"

namespace tessera {
namespace {

using testing::pick;
using testing::Random;

Shape random_tiles(Random& r, const TileGrid& grid, int of_ten) {
    std::vector<ShapeEntry> entries;
    for (std::int64_t t = 0; t < grid.tile_total(); ++t)
        if (pick(r, 0, 9) < of_ten) entries.push_back({TileOrdinal{t}, 0.001 * static_cast<double>(pick(r, 1, 1000))});
    return Shape(grid, std::move(entries));
}

void expect_same(const ProductShape& x, const ProductShape& y) {
    EXPECT_TRUE(x.c == y.c);
    EXPECT_EQ(x.first, y.first);
    EXPECT_EQ(x.products, y.products);
    EXPECT_EQ(x.k_of_b, y.k_of_b);
    EXPECT_EQ(x.segment, y.segment);
    EXPECT_EQ(x.segments, y.segments);
    EXPECT_EQ(x.row, y.row);
    EXPECT_EQ(x.col, y.col);
    EXPECT_EQ(x.skipped, y.skipped);
    EXPECT_EQ(x.left_out_bound, y.left_out_bound);
    EXPECT_EQ(x.tile_flops, y.tile_flops);
    EXPECT_EQ(x.flops, y.flops);
    EXPECT_EQ(x.whole_flops, y.whole_flops);
}

/// Each product of each pair of tiles, the plain way.
std::int64_t count_products(const ContractionSpec& spec, const Shape& a, const Shape& b) {
    const auto k_of = [&](const Shape& x, const std::string& labels, std::int64_t s) {
        const auto at = x.grid().coordinates(x.tile(s));
        std::vector<std::int64_t> k;
        for (const char l : std::string("hkl"))
            if (const auto d = labels.find(l); d != std::string::npos) k.push_back(at[static_cast<int>(d)]);
        return k;
    };
    std::map<std::vector<std::int64_t>, std::int64_t> in_b;
    for (std::int64_t s = 0; s < b.tile_count(); ++s) ++in_b[k_of(b, spec.b(), s)];
    std::int64_t all = 0;
    for (std::int64_t s = 0; s < a.tile_count(); ++s) all += in_b[k_of(a, spec.a(), s)];
    return all;
}

TEST(ProductShapes, AreThoseOfOneThread) {
    Random r(5);
    const Tiling side = Tiling::uniform(300, 3), few = Tiling::uniform(12, 2), irregular({5, 1, 7, 2, 2, 9, 4});
    struct Case {
        const char* spec;
        TileGrid a, b;
    };
    // Rows in order; rows of C that lie apart; a batch.
    const Case cases[] = {{"ik,kj->ij", {side, side}, {side, side}},
                          {"ik,kj->ji", {side, side}, {side, side}},
                          {"iakl,kbl->bia", {side, few, irregular, few}, {irregular, side, few}},
                          {"hik,hkj->ihj", {few, side, side}, {few, side, irregular}}};
    for (const auto& c : cases) {
        SCOPED_TRACE(c.spec);
        const ContractionSpec spec(c.spec);
        const auto a = random_tiles(r, c.a, 7), b = random_tiles(r, c.b, 8);
        const auto one = product_shape(spec, a, b, {});
        EXPECT_EQ(static_cast<std::int64_t>(one.products.size()), count_products(spec, a, b));
        EXPECT_GT(one.products.size(), std::size_t{1} << 17);  // several stretches
        const auto given = random_tiles(r, one.c.grid(), 3);
        ScreeningOptions filtered, asked;
        filtered.filter = 8;
        asked.given = &given;
        for (const auto& options : {ScreeningOptions{}, filtered, asked}) {
            const auto alone = product_shape(spec, a, b, options, 0, 1);
            for (const int threads : {2, 5}) expect_same(product_shape(spec, a, b, options, 0, threads), alone);
        }
    }
}

}  // namespace
}  // namespace tessera
