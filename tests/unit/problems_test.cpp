#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "tessera/base/error.hpp"
#include "tessera/problems/problem.hpp"

namespace tessera {
namespace {

/// What docs/ALKANE.md tabulates, counted from the shapes alone.
struct Counts {
    double flops = 0, sum_m = 0, sum_k = 0, sum_n = 0;
    std::int64_t products = 0;
    std::vector<std::int64_t> m, k, n;  // of each product
};

Counts count(const Problem& problem) {
    const Shape &t = problem.a, &v = problem.b, &r = *problem.c;
    const std::int64_t ao = v.grid().tiling(0).tile_count(), square = ao * ao;
    std::vector<std::int64_t> begin(square + 1, 0), pair(square);
    for (const std::int64_t o : v.ordinals()) ++begin[o / square + 1];
    for (std::int64_t i = 0; i < square; ++i) begin[i + 1] += begin[i];
    for (std::int64_t i = 0; i < square; ++i)
        pair[i] = v.grid().tiling(0).size(TileIndex{i / ao}) * v.grid().tiling(0).size(TileIndex{i % ao});
    std::vector<std::int64_t> kept(square, -1);  // the row for which AB is kept
    std::int64_t row = -1, r_slot = 0;
    Counts c;
    for (std::int64_t slot = 0; slot < t.tile_count(); ++slot) {
        const std::int64_t p = t.tile(slot).value / square, cd = t.tile(slot).value % square;
        if (p != row) {
            row = p;
            while (r_slot < r.tile_count() && r.tile(r_slot).value / square < row) ++r_slot;
            for (; r_slot < r.tile_count() && r.tile(r_slot).value / square == row; ++r_slot)
                kept[r.tile(r_slot).value % square] = row;
        }
        const std::int64_t m = t.grid().tiling(0).size(TileIndex{p});
        for (std::int64_t s = begin[cd]; s < begin[cd + 1]; ++s) {
            const std::int64_t ab = v.tile(s).value % square;
            if (kept[ab] != row) continue;
            ++c.products;
            c.m.push_back(m);
            c.k.push_back(pair[cd]);
            c.n.push_back(pair[ab]);
            c.sum_m += static_cast<double>(m);
            c.sum_k += static_cast<double>(pair[cd]);
            c.sum_n += static_cast<double>(pair[ab]);
            c.flops += 2.0 * static_cast<double>(m) * static_cast<double>(pair[cd]) * static_cast<double>(pair[ab]);
        }
    }
    return c;
}

double gigabytes(const Shape& shape) { return 8e-9 * static_cast<double>(shape.elements()); }

TEST(Alkane, ReproducesTheTableAt65Carbons) {
    struct Row {
        const char* name;
        double tflop;
        std::int64_t products;
        double v, t, r, v_gb;
        std::int64_t v_tiles;
        double t_gb, r_gb;
    };
    const Row table[] = {{"alkane:65:v1", 829, 1770732, 2.41, 10.59, 15.90, 1170, 318804, 56, 83},
                         {"alkane:65:v2", 922, 449823, 2.68, 10.53, 16.66, 1300, 80216, 55, 87},
                         {"alkane:65:v3", 1310, 64703, 3.05, 12.86, 21.23, 1480, 16017, 67, 111}};
    for (const Row& row : table) {
        const Problem p = make_problem(row.name);
        const Counts c = count(p);
        EXPECT_NEAR(c.flops * 1e-12, row.tflop, 0.5) << row.name;
        EXPECT_EQ(c.products, row.products) << row.name;
        EXPECT_NEAR(100 * p.b.density(), row.v, 0.005) << row.name;
        EXPECT_NEAR(100 * p.a.density(), row.t, 0.005) << row.name;
        EXPECT_NEAR(100 * p.c->density(), row.r, 0.005) << row.name;
        EXPECT_NEAR(gigabytes(p.b), row.v_gb, 5) << row.name;
        EXPECT_EQ(p.b.tile_count(), row.v_tiles) << row.name;
        EXPECT_NEAR(gigabytes(p.a), row.t_gb, 0.5) << row.name;
        EXPECT_NEAR(gigabytes(*p.c), row.r_gb, 0.5) << row.name;
        EXPECT_EQ(p.b.grid().tiling(0).extent(), 1570);
        EXPECT_EQ(p.a.grid().tiling(0).extent(), 26572);
    }
}

TEST(Alkane, ProductDimensionsAt65CarbonsV1) {
    const Problem p = make_problem("alkane:65:v1");
    EXPECT_EQ(p.a.grid().tiling(0).tile_count(), 52);
    EXPECT_EQ(p.a.grid().tiling(1).tile_count(), 60);
    Counts c = count(p);
    const auto quantiles = [](std::vector<std::int64_t>& x) {
        std::sort(x.begin(), x.end());
        const auto at = [&](double f) { return x[static_cast<std::size_t>(f * static_cast<double>(x.size() - 1))]; };
        return std::vector<std::int64_t>{at(0), at(0.1), at(0.5), at(0.9), at(1)};
    };
    EXPECT_EQ(quantiles(c.m), (std::vector<std::int64_t>{87, 101, 576, 625, 625}));
    EXPECT_EQ(quantiles(c.k), (std::vector<std::int64_t>{576, 576, 576, 1152, 2809}));
    EXPECT_EQ(quantiles(c.n), (std::vector<std::int64_t>{576, 576, 576, 1152, 2809}));
}

TEST(Alkane, ReproducesTheTableOfOtherLengths) {
    struct Row {
        int n;
        double tflop, digit, t_gb, v_gb, r_gb, v, t;
        std::int64_t products;
        double m, k, nn;
    };
    const Row table[] = {{8, 1.64, 0.005, 0.20, 10.5, 0.20, 79, 100, 2085, 625, 791, 791},
                         {9, 2.80, 0.005, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                         {10, 4.48, 0.005, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                         {12, 9.96, 0.005, 0.97, 29.1, 0.97, 46, 100, 7677, 1369, 682, 682},
                         {16, 31.2, 0.05, 2.66, 56.9, 2.93, 30, 89, 62606, 600, 637, 643},
                         {30, 180, 0.5, 13.0, 230, 18.0, 10, 37, 397689, 519, 657, 656}};
    for (const Row& row : table) {
        const Problem p = make_problem("alkane:" + std::to_string(row.n) + ":v1");
        const Counts c = count(p);
        EXPECT_NEAR(c.flops * 1e-12, row.tflop, row.digit) << row.n;
        if (row.products == 0) continue;
        const double small = row.n < 16 ? 0.005 : row.n < 30 ? 0.005 : 0.05;
        EXPECT_NEAR(gigabytes(p.a), row.t_gb, small) << row.n;
        EXPECT_NEAR(gigabytes(p.b), row.v_gb, row.n < 30 ? 0.05 : 0.5) << row.n;
        EXPECT_NEAR(gigabytes(*p.c), row.r_gb, small) << row.n;
        EXPECT_NEAR(100 * p.b.density(), row.v, 0.5) << row.n;
        EXPECT_NEAR(100 * p.a.density(), row.t, 0.5) << row.n;
        EXPECT_EQ(c.products, row.products) << row.n;
        const double count_d = static_cast<double>(c.products);
        EXPECT_NEAR(c.sum_m / count_d, row.m, 0.5) << row.n;
        EXPECT_NEAR(c.sum_k / count_d, row.k, 0.5) << row.n;
        EXPECT_NEAR(c.sum_n / count_d, row.nn, 0.5) << row.n;
    }
}

TEST(Alkane, MinimalBasisAndTheSmallestOnes) {
    // C5 H1: the unit of an inner carbon has 7 functions instead of 24.
    const Problem small = make_problem("alkane:30:v3:min");
    EXPECT_EQ(small.name, "alkane:30:v3:min");
    EXPECT_EQ(small.b.grid().tiling(0).extent(), 30 * 5 + 62);
    EXPECT_EQ(make_problem("alkane:30:v3").b.grid().tiling(0).extent(), 30 * 14 + 62 * 5);
    for (const char* name : {"alkane:1:v1", "alkane:1:v3:min", "alkane:2:v2", "alkane:3:v3"}) {
        const Problem p = make_problem(name);
        EXPECT_EQ(p.spec, "pcd,cdab->pab");
        EXPECT_TRUE(p.b_on_demand);
        EXPECT_GT(p.a.tile_count(), 0) << name;
        EXPECT_GT(p.c->tile_count(), 0) << name;
    }
    const Problem methane = make_problem("alkane:1:v1");
    EXPECT_EQ(methane.a.grid().extents(), (IndexVector{16, 34, 34}));  // 4 bonds, 14 + 4 x 5 functions
    EXPECT_EQ(methane.b.density(), 1.0);
}

/// Every tile's true norm is within the shape's, and not far below it (uniform numbers give 0.577 of the bound).
void expect_norms_hold(const Shape& shape, const TileGenerator<double>& make, std::int64_t every) {
    std::vector<double> tile;
    for (std::int64_t slot = 0; slot < shape.tile_count(); slot += every) {
        const TileInfo info = tile_info(shape.grid(), shape.tile(slot));
        tile.assign(info.extents.product(), std::nan(""));
        make(info, tile);
        double sum = 0;
        for (const double x : tile) sum += x * x;
        const double bound = shape.norm_of(slot);
        ASSERT_LE(std::sqrt(sum), bound * (1 + 1e-12)) << slot;
        if (tile.size() >= 1000) {
            ASSERT_NEAR(std::sqrt(sum) / bound, std::sqrt(1.0 / 3), 0.05) << slot;
        }
        ASSERT_GT(sum, 0);
    }
}

TEST(Problems, TilesStayWithinTheirNorms) {
    const Problem alkane = make_problem("alkane:12:v1:min");
    expect_norms_hold(alkane.a, alkane.make_a, 1);
    expect_norms_hold(alkane.b, alkane.make_b, 7);
    const Problem blocks = make_problem("blocks:10,7,0.5");
    expect_norms_hold(blocks.a, blocks.make_a, 1);
    const Problem synthetic = make_problem("synthetic:300,200,100,0.4,10,40");
    expect_norms_hold(synthetic.b, synthetic.make_b, 1);
}

TEST(Problems, DenseHasEveryTileAndARaggedEdge) {
    const Problem p = make_problem("dense:100,50,30,16");
    EXPECT_EQ(p.spec, "mk,kn->mn");
    EXPECT_EQ(p.a.grid().extents(), (IndexVector{100, 30}));
    EXPECT_EQ(p.b.grid().extents(), (IndexVector{30, 50}));
    EXPECT_EQ(p.a.tile_count(), 7 * 2);
    EXPECT_EQ(p.a.density(), 1.0);
    EXPECT_DOUBLE_EQ(p.a.norm_of(13), std::sqrt(4.0 * 14));
    EXPECT_FALSE(p.c.has_value());
    EXPECT_FALSE(p.b_on_demand);
    expect_norms_hold(p.a, p.make_a, 1);
    // A tile is a function of its place alone, and A's differ from B's.
    std::vector<double> a(256), again(256), b(256);
    p.make_a(tile_info(p.a.grid(), TileOrdinal{0}), a);
    p.make_a(tile_info(p.a.grid(), TileOrdinal{0}), again);
    p.make_b(tile_info(p.b.grid(), TileOrdinal{0}), b);
    EXPECT_EQ(a, again);
    EXPECT_NE(a, b);
}

TEST(Problems, BlocksFollowOccupancyAndSeed) {
    const Problem p = make_problem("blocks:300,13,0.1");
    EXPECT_NEAR(p.a.density(), 0.1, 0.005);
    EXPECT_NEAR(p.b.density(), 0.1, 0.005);
    EXPECT_FALSE(p.a == p.b);
    EXPECT_TRUE(p.a == make_problem("blocks:300,13,0.1,1").a);
    EXPECT_FALSE(p.a == make_problem("blocks:300,13,0.1,2").a);
    EXPECT_EQ(make_problem("blocks:300,13,0.1,2").name, "blocks:300,13,0.1,2");
    EXPECT_EQ(p.name, "blocks:300,13,0.1");
    EXPECT_TRUE(make_problem("blocks:5,3,0").a.empty());
    EXPECT_EQ(make_problem("blocks:5,3,1").a.tile_count(), 25);
}

TEST(Problems, SyntheticStopsJustAboveTheDensity) {
    for (const double density : {0.1, 0.25, 0.5, 1.0}) {
        const Problem p = make_problem("synthetic:20000,30000,25000," + std::to_string(density));
        for (const Shape* s : {&p.a, &p.b}) {
            EXPECT_GE(s->density(), density);
            EXPECT_LT(s->density(), density + 2048.0 * 2048.0 / 5e8);
            for (const Tiling& tiling : s->grid().tilings()) {
                const auto sizes = tiling.sizes();
                for (std::size_t i = 0; i < sizes.size(); ++i) {
                    EXPECT_LE(sizes[i], 2048);
                    if (i + 1 < sizes.size()) {
                        EXPECT_GE(sizes[i], 512);
                    }
                }
            }
        }
        EXPECT_EQ(p.a.grid().extents(), (IndexVector{20000, 25000}));
        EXPECT_EQ(p.b.grid().extents(), (IndexVector{25000, 30000}));
        EXPECT_TRUE(p.a.grid().tiling(1) == p.b.grid().tiling(0));
    }
    EXPECT_TRUE(make_problem("synthetic:1000,1000,1000,0,10,20").a.empty());
}

TEST(Problems, CanonicalNamesMakeTheSameProblem) {
    for (const char* text : {"dense:10,20,30,7", "blocks:4,5,0.25,9", "synthetic:100,100,100,0.5,5,9,3",
                             "synthetic:1000,1000,1000,0.5", "alkane:4:v2:min", "blocks:4,5,1e-1"}) {
        const Problem p = make_problem(text), again = make_problem(p.name);
        EXPECT_EQ(p.name, again.name);
        EXPECT_TRUE(p.a == again.a && p.b == again.b) << text;
    }
}

TEST(Problems, BadTextIsAUserErrorThatNamesTheValue) {
    const std::pair<const char*, const char*> cases[] = {
        {"", "no family"},
        {"alkan:3:v1", "'alkan'"},
        {"dense", "4 numbers"},
        {"dense:", "4 numbers"},
        {"dense:1,2,3", "not 3"},
        {"dense:1,2,3,4,5", "not 5"},
        {"dense:1,2,,4", "K is missing"},
        {"dense:0,2,3,4", "M is 0"},
        {"dense:1,-2,3,4", "N is -2"},
        {"dense:1e3,2,3,4", "'1e3', which is not a whole number"},
        {"dense:10.0,2,3,4", "'10.0'"},
        {"dense:0x10,2,3,4", "'0x10'"},
        {"dense:10 ,2,3,4", "'10 '"},
        {"dense:+10,2,3,4", "'+10'"},
        {"dense:99999999999999999999,2,3,4", "does not fit in 64 bits"},
        {"dense:4000000000,4000000000,4,4000000000", "do not fit in 64 bits"},
        {"dense:1000000,1000000,1000000,1", "larger tiles"},
        {"blocks:3,4,1.5", "occ is 1.5"},
        {"blocks:3,4,-0.1", "occ is -0.1"},
        {"blocks:3,4,nan", "'nan', which is not a number"},
        {"blocks:3,4,inf", "'inf'"},
        {"blocks:3,4,0.5x", "'0.5x'"},
        {"blocks:3,4,", "occ is missing"},
        {"blocks:3,4,0.5,-1", "seed is -1"},
        {"blocks:100000,4,0.5", "larger tiles"},
        {"blocks:3,4611686018427387904,0.5", "does not fit"},
        {"synthetic:10,10,10,0.5,4", "not 5"},
        {"synthetic:10,10,10,0.5,8,4", "lo is 8 and hi is 4"},
        {"synthetic:10,10,10,0.5,0,4", "lo is 0"},
        {"synthetic:10,10,10,2,1,4", "density is 2"},
        {"alkane:65", "n:v1|v2|v3"},
        {"alkane:65:v4", "'v4'"},
        {"alkane:65:0,8", "clusters of occupied orbitals, is 0"},
        {"alkane:65:8,66", "clusters of atomic orbitals, is 66"},
        {"alkane:65:8,x", "'x'"},
        {"alkane:65:8,9,10", "'8,9,10'"},
        {"alkane:65:v1:max", "'max'"},
        {"alkane:65:v1:min:min", "n:v1|v2|v3"},
        {"alkane:0:v1", "n is 0"},
        {"alkane:-3:v1", "n is -3"},
        {"alkane:1e2:v1", "'1e2'"},
        {"alkane:100000:v1", "n is 100000"},
        {"alkane::v1", "n is missing"},
        {"dense:1,2,3,\n4", "'?4'"},
    };
    for (const auto& [text, part] : cases) {
        try {
            make_problem(text);
            FAIL() << text;
        } catch (const UserError& e) {
            const std::string message = e.what();
            EXPECT_NE(message.find(part), std::string::npos) << text << " gave: " << message;
            EXPECT_NE(message.find("alkane:n:v1|v2|v3|O,A[:min]"), std::string::npos) << message;
            EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        }
    }
    EXPECT_THROW(make_problem(std::string(100000, 'x')), UserError);
}

TEST(HashFill, IsTheDocumentedFunctionOnEveryInstructionSet) {
    // splitmix64 started at 0, as published with the generator.
    EXPECT_EQ(combine(0, 0), 0xe220a8397b1dcdafULL);
    EXPECT_EQ(combine(0, 1), 0x6e789e6aa1b965f4ULL);
    EXPECT_EQ(combine(0, 2), 0x06c45d188009454fULL);
    const double scale = 0.37;
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
        const std::uint64_t state = tile_state(seed, 1, 12345);
        for (const std::size_t count : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 100, 4099}) {
            std::vector<double> expected(count);
            for (std::size_t e = 0; e < count; ++e) expected[e] = to_signed_odd(combine(state, e)) * (scale * 0x1p-52);
            for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
                if (isa > detected_isa()) continue;
                std::vector<double> out(count + 1, 99.0);
                hash_fill_with(isa, state, scale, {out.data(), count});
                EXPECT_EQ(out.back(), 99.0);
                out.pop_back();
                EXPECT_EQ(out, expected) << name(isa) << " " << count;
            }
        }
    }
}

TEST(HashFill, ExtremeBitsMapInsideTheOpenInterval) {
    for (const std::uint64_t bits :
         {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0} >> 1}) {
        EXPECT_LT(std::abs(to_signed_unit(bits)), 1.0);
        EXPECT_NE(to_signed_unit(bits), 0.0);
    }
    EXPECT_EQ(to_signed_unit(~std::uint64_t{0} >> 1), 1.0 - 0x1p-52);
    EXPECT_EQ(to_signed_unit(std::uint64_t{1} << 63), -(1.0 - 0x1p-52));
    EXPECT_LT(to_unit(~std::uint64_t{0}), 1.0);
}

TEST(HashFill, OtherScalarsTakeTheSameStream) {
    const std::uint64_t state = tile_state(5, 0, 3);
    std::vector<double> d(20);
    std::vector<float> f(20);
    std::vector<std::complex<double>> z(10);
    std::vector<std::complex<float>> c(10);
    hash_fill<double>(state, 2.0, d);
    hash_fill<float>(state, 2.0, f);
    hash_fill<std::complex<double>>(state, 2.0, z);
    hash_fill<std::complex<float>>(state, 2.0, c);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(f[i], static_cast<float>(d[i]));
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(z[i], (std::complex<double>(d[2 * i], d[2 * i + 1])));
        EXPECT_EQ(c[i], (std::complex<float>(f[2 * i], f[2 * i + 1])));
    }
    EXPECT_DOUBLE_EQ(hash_scale<double>(6.0, 9), 2.0);
    EXPECT_DOUBLE_EQ(hash_scale<std::complex<double>>(6.0, 18), 1.0);
}

TEST(HashFill, MeanAndVarianceAreThoseOfUniformNumbers) {
    std::vector<double> x(1000000);
    hash_fill<double>(tile_state(1, 0, 0), 1.0, x);
    double mean = 0, square = 0, lag = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        mean += x[i];
        square += x[i] * x[i];
        if (i > 0) lag += x[i] * x[i - 1];
    }
    const double n = static_cast<double>(x.size());
    EXPECT_NEAR(mean / n, 0.0, 0.003);
    EXPECT_NEAR(square / n, 1.0 / 3, 0.002);
    EXPECT_NEAR(lag / n, 0.0, 0.002);
}

}  // namespace
}  // namespace tessera
