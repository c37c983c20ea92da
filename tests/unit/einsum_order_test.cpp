// The order of an einsum, held against all orders there are, counted one tile at a time; and against the order that
// dense counts take.

#include "contract/einsum_order.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/random_einsum.hpp"
#include "tessera/contract/einsum.hpp"

namespace tessera {
namespace {

using testing::pick;
using testing::Random;
using testing::random_einsum;
using testing::RandomEinsum;

/// Nonzero tiles by their coordinates: slow and obvious.
struct Part {
    std::set<int> operands;
    std::string labels;
    std::set<std::vector<std::int64_t>> tiles;
};

class Slow {
  public:
    explicit Slow(const RandomEinsum& e) : e_(e) {
        for (std::size_t o = 0; o < e.operands.size(); ++o)
            for (std::size_t d = 0; d < e.operands[o].size(); ++d)
                tilings_.emplace(e.operands[o][d], e.shapes[o].grid().tiling(static_cast<int>(d)));
    }
    /// Without diagonals and sums of its own.
    Part operand(int o) const {
        const auto& given = e_.operands[static_cast<std::size_t>(o)];
        const auto& shape = e_.shapes[static_cast<std::size_t>(o)];
        Part out{{o}, {}, {}};
        out.labels = kept({o}, given);
        for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
            const auto at = shape.grid().coordinates(shape.tile(s));
            bool diagonal = true;
            for (std::size_t d = 0; d < given.size(); ++d)
                diagonal &= at[static_cast<int>(d)] == at[static_cast<int>(given.find(given[d]))];
            if (!diagonal) continue;
            std::vector<std::int64_t> tile;
            for (const char l : out.labels) tile.push_back(at[static_cast<int>(given.find(l))]);
            out.tiles.insert(tile);
        }
        return out;
    }
    Part product(const Part& p, const Part& q, OrderCost& cost) const {
        Part out;
        out.operands = p.operands;
        out.operands.insert(q.operands.begin(), q.operands.end());
        out.labels = kept(out.operands, p.labels + q.labels);
        for (const auto& x : p.tiles)
            for (const auto& y : q.tiles) {
                std::map<char, std::int64_t> at;
                bool meet = true;
                for (std::size_t d = 0; d < p.labels.size(); ++d) at[p.labels[d]] = x[d];
                for (std::size_t d = 0; d < q.labels.size(); ++d)
                    meet &= at.try_emplace(q.labels[d], y[d]).first->second == y[d];
                if (!meet) continue;
                double work = 2;
                for (const auto& [l, i] : at) work *= static_cast<double>(tilings_.at(l).size(TileIndex{i}));
                cost.flops += work;
                std::vector<std::int64_t> tile;
                for (const char l : out.labels) tile.push_back(at.at(l));
                out.tiles.insert(tile);
            }
        cost.elements += elements(p) + elements(q);
        if (out.operands.size() < e_.operands.size()) cost.elements += elements(out);
        return out;
    }
    /// Of all orders.
    double least_nanoseconds() const {
        std::vector<Part> parts;
        for (int o = 0; o < static_cast<int>(e_.operands.size()); ++o) parts.push_back(operand(o));
        double best = HUGE_VAL;
        look(parts, {}, best);
        return best;
    }
    OrderCost cost(const std::vector<EinsumStep>& steps) const {
        std::vector<Part> parts;
        for (int o = 0; o < static_cast<int>(e_.operands.size()); ++o) parts.push_back(operand(o));
        OrderCost out;
        for (const auto& s : steps) {
            auto next = product(parts[static_cast<std::size_t>(s.left)], parts[static_cast<std::size_t>(s.right)], out);
            parts.push_back(std::move(next));
        }
        return out;
    }

  private:
    void look(const std::vector<Part>& parts, const OrderCost& so_far, double& best) const {
        if (parts.size() == 1) {
            best = std::min(best, so_far.nanoseconds());
            return;
        }
        for (std::size_t i = 0; i < parts.size(); ++i)
            for (std::size_t j = i + 1; j < parts.size(); ++j) {
                auto cost = so_far;
                std::vector<Part> next{product(parts[i], parts[j], cost)};
                for (std::size_t k = 0; k < parts.size(); ++k)
                    if (k != i && k != j) next.push_back(parts[k]);
                look(next, cost, best);
            }
    }
    std::string kept(const std::set<int>& inside, const std::string& from) const {
        std::string out;
        for (const char l : from) {
            bool stays = e_.result.find(l) != std::string::npos;
            for (int o = 0; o < static_cast<int>(e_.operands.size()); ++o)
                stays |= !inside.contains(o) && e_.operands[static_cast<std::size_t>(o)].find(l) != std::string::npos;
            if (stays && out.find(l) == std::string::npos) out += l;
        }
        return out;
    }
    double elements(const Part& p) const {
        double sum = 0;
        for (const auto& tile : p.tiles) {
            double n = 1;
            for (std::size_t d = 0; d < tile.size(); ++d)
                n *= static_cast<double>(tilings_.at(p.labels[d]).size(TileIndex{tile[d]}));
            sum += n;
        }
        return sum;
    }
    const RandomEinsum& e_;
    std::map<char, Tiling> tilings_;
};

EinsumOrder order_of(const RandomEinsum& e) {
    std::vector<const Shape*> shapes;
    for (const auto& s : e.shapes) shapes.push_back(&s);
    return order_of(EinsumSpec(e.text()), shapes);
}

TEST(EinsumOrder, IsTheCheapestOfAllOrders) {
    Random r(80);
    int exact = 0, better = 0, whole = 0;
    for (int trial = 0; trial < 300; ++trial) {
        const auto e = random_einsum(r, 2 + trial % 4, 6, 3, 40, 0.3);
        const auto order = order_of(e);
        const Slow slow(e);
        const auto cost = slow.cost(order.steps);
        ASSERT_EQ(cost.flops, order.cost.flops) << e.text();
        ASSERT_EQ(cost.elements, order.cost.elements) << e.text();
        const double least = slow.least_nanoseconds();
        ASSERT_GE(cost.nanoseconds(), least * (1 - 1e-12)) << e.text();
        if (order.exact) {
            ++exact;
            ASSERT_LE(cost.nanoseconds(), least * (1 + 1e-12)) << e.text() << " " << order.tree();
        }
        const auto dense = slow.cost(order.dense_steps);
        ASSERT_LE(order.cost.flops, dense.flops) << e.text();
        ASSERT_LE(order.dense.flops, dense.flops) << e.text();
        if (order.dense_whole) {
            ++whole;
            ASSERT_EQ(order.dense.flops, dense.flops) << e.text();
        }
        better += order.cost.flops < dense.flops;
    }
    EXPECT_GT(exact, 200);
    EXPECT_GT(whole, 200);
    EXPECT_GT(better, 30);
}

/// Of dense operands: all tiles nonzero, one for each index.
TEST(EinsumOrder, OfDenseArraysIsTheCheapestToo) {
    Random r(81);
    int exact = 0;
    for (int trial = 0; trial < 200; ++trial) {
        const auto e = random_einsum(r, 2 + trial % 4, 6, 1, 60, 1.0);
        std::vector<IndexVector> extents;
        RandomEinsum own = e;  // arrays have no sums of their own: they are products with ones before
        for (std::size_t o = 0; o < e.operands.size(); ++o) {
            const auto labels = own_labels(EinsumSpec(e.text()), static_cast<int>(o));
            std::vector<Tiling> tilings;
            for (const char l : labels)
                tilings.push_back(e.shapes[o].grid().tiling(static_cast<int>(e.operands[o].find(l))));
            own.operands[o] = labels;
            own.shapes[o] = Shape::dense(TileGrid(tilings));
            extents.push_back(own.shapes[o].grid().extents());
        }
        const auto order = dense_order_of(EinsumSpec(own.text()), extents);
        const double least = Slow(own).least_nanoseconds();
        // Looked at as tensors of one tile, where the search takes more of the work.
        const auto tensors = order_of(own);
        if (order.exact) {
            ASSERT_NEAR(order.cost.nanoseconds(), least, 1e-9 * least) << own.text();
        }
        if (tensors.exact) {
            ASSERT_NEAR(tensors.cost.nanoseconds(), least, 1e-9 * least) << own.text();
        }
        exact += order.exact && tensors.exact;
    }
    EXPECT_GT(exact, 120);
}

/// More operands than are looked at whole: never more flops than the order of dense counts.
TEST(EinsumOrder, OfManyOperandsIsNeverWorseThanTheDenseOne) {
    Random r(82);
    int better = 0;
    for (int trial = 0; trial < 60; ++trial) {
        const auto e = random_einsum(r, 9 + trial % 8, 10, 4, 30, 0.4);
        const auto order = order_of(e);
        EXPECT_FALSE(order.exact);
        EXPECT_LE(order.cost.flops, order.dense.flops) << e.text();
        better += order.cost.flops < order.dense.flops;
    }
    EXPECT_GT(better, 20);
}

TEST(EinsumOrder, DependsOnShapesAlone) {
    Random r(83);
    for (int trial = 0; trial < 30; ++trial) {
        const auto e = random_einsum(r, 3 + trial % 7, 6, 3, 6, 0.6);
        const std::vector<OperandShape> shapes(e.shapes.begin(), e.shapes.end());
        const auto tree = plan<double>(e.text(), shapes, {.threads = 1}).tree();
        EXPECT_EQ(plan<double>(e.text(), shapes, {.threads = 7, .memory = std::int64_t{1} << 40}).tree(), tree);
        EXPECT_EQ(plan<std::complex<float>>(e.text(), shapes, {.threads = 2}).tree(), tree);
        EXPECT_EQ(order_of(e).tree(), tree);
    }
}

Shape some(const TileGrid& grid, const std::function<bool(const IndexVector&)>& nonzero) {
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (nonzero(grid.coordinates(TileOrdinal{o}))) entries.push_back({TileOrdinal{o}, 1});
    return Shape(grid, std::move(entries));
}

/// Chains whose dense order takes at least twice the flops: docs/PERFORMANCE.md has the figures.
TEST(EinsumOrder, ThreeChainsWhereDenseCountsMislead) {
    const auto n = Tiling::uniform(40 * 128, 128), narrow = Tiling::uniform(20 * 128, 128);
    const auto all = [](const IndexVector&) { return true; };
    const auto diagonal = [](const IndexVector& at) { return at[0] == at[1]; };
    const auto o = Tiling::uniform(12 * 2, 2), v = Tiling::uniform(20 * 16, 16), p = Tiling::uniform(10 * 16, 16);
    struct Chain {
        const char* what;
        RandomEinsum einsum;
        double flops, dense_flops;
    };
    const Shape block = some({n, n}, diagonal), dense = some({n, n}, all), orbitals = some({n, narrow}, all);
    const Shape fragment = some({n, n}, [](const IndexVector& at) { return at[0] < 2; });
    const Shape pairs = some({o, o, v, v}, [](const IndexVector& at) { return at[0] == at[1] && at[0] % 2 == 0; });
    const Shape integrals = some({v, v, v, v}, all), projector = some({p, v}, all);
    const double tile = 2.0 * 128 * 128 * 128, v3 = 2.0 * 320 * 320 * 320;
    const Chain chains[] = {
        {"symmetry blocks",
         {{"ij", "jk", "kl", "lm"}, "im", {block, block, block, orbitals}},
         tile * (40 + 40 + 40 * 20),
         tile * 3 * 40 * 20},
        {"rows of a fragment",
         {{"ij", "jk", "kl"}, "il", {fragment, dense, orbitals}},
         tile * (2 * 40 * 40 + 2 * 40 * 20),
         tile * (40 * 40 * 20 + 2 * 40 * 20)},
        {"strong pairs",
         {{"ijcd", "cdab", "pa"}, "ijpb", {pairs, integrals, projector}},
         v3 * 6 * 4 * (320 + 0.5),
         v3 * 160 * (320 + 6 * 4)},
    };
    for (const auto& c : chains) {
        const auto order = order_of(c.einsum);
        EXPECT_TRUE(order.exact) << c.what;
        EXPECT_EQ(order.cost.flops, c.flops) << c.what << " " << order.tree();
        EXPECT_EQ(order.dense.flops, c.dense_flops) << c.what << " " << order.dense_tree();
        EXPECT_GE(order.dense.flops, 2 * order.cost.flops) << c.what;
        std::cout << c.what << ": " << order.tree() << " " << order.cost.flops << ", dense " << order.dense_tree()
                  << " " << order.dense.flops << ", " << order.dense.flops / order.cost.flops << " times\n";
    }
}

}  // namespace
}  // namespace tessera
