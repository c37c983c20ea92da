#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "index/matrix_view.hpp"
#include "tessera/base/error.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/shape/shape.hpp"

namespace tessera {
namespace {

TEST(Tiling, SizesOffsetsAndLookup) {
    const Tiling t{3, 1, 4};
    EXPECT_EQ(t.extent(), 8);
    EXPECT_EQ(t.tile_count(), 3);
    EXPECT_EQ(t.size(TileIndex{2}), 4);
    EXPECT_EQ(t.begin(TileIndex{2}).value, 4);
    const std::int64_t where[] = {0, 0, 0, 1, 2, 2, 2, 2};
    for (std::int64_t e = 0; e < 8; ++e) EXPECT_EQ(t.tile_of(ElementIndex{e}).value, where[e]);
    EXPECT_THROW(t.tile_of(ElementIndex{8}), UserError);
    EXPECT_EQ(Tiling::uniform(10, 4), (Tiling{4, 4, 2}));
    EXPECT_EQ(Tiling::uniform(0, 4).tile_count(), 0);
    EXPECT_EQ(to_string(t), "8 in 3 tiles of 1..4");
}

TEST(Tiling, RefusesWhatIsNoTiling) {
    EXPECT_THROW((Tiling{3, 0}), UserError);
    EXPECT_THROW((Tiling{3, -1}), UserError);
    EXPECT_THROW((Tiling{INT64_MAX, 1}), UserError);
    EXPECT_THROW(Tiling::uniform(-1, 4), UserError);
    EXPECT_THROW(Tiling::uniform(4, 0), UserError);
    EXPECT_THROW(Tiling::uniform(INT64_MAX, 1), UserError);
}

TEST(TileGrid, OrdinalsAreRowMajorAndReversible) {
    const TileGrid g{Tiling{2, 3}, Tiling{1, 1, 1}, Tiling{5}};
    EXPECT_EQ(g.tile_total(), 6);
    EXPECT_EQ(g.element_total(), 5 * 3 * 5);
    for (std::int64_t o = 0; o < 6; ++o) EXPECT_EQ(g.ordinal(g.coordinates(TileOrdinal{o})).value, o);
    EXPECT_EQ(g.ordinal({1, 2, 0}).value, 5);
    EXPECT_EQ(g.tile_extents(TileOrdinal{5}), (IndexVector{3, 1, 5}));
    EXPECT_EQ(g.tile_begin(TileOrdinal{5}), (IndexVector{2, 2, 0}));
    EXPECT_THROW(g.ordinal({1, 3, 0}), UserError);
    EXPECT_THROW(g.ordinal({1, 2}), UserError);
    EXPECT_EQ(TileGrid().tile_total(), 1);
    EXPECT_EQ((TileGrid{Tiling{2}, Tiling()}).tile_total(), 0);
    const Tiling huge = Tiling::uniform(1LL << 40, 1LL << 30);
    EXPECT_THROW((TileGrid{huge, huge}), UserError);
}

TEST(Permutation, ComposesAndInverts) {
    const Permutation p{2, 0, 1}, q{1, 0, 2};
    EXPECT_TRUE(p.after(p.inverse()).is_identity());
    EXPECT_EQ(p.apply({10, 20, 30}), (IndexVector{30, 10, 20}));
    EXPECT_EQ(q.after(p).apply({10, 20, 30}), q.apply(p.apply({10, 20, 30})));
    EXPECT_THROW((Permutation{0, 0}), UserError);
    EXPECT_THROW((Permutation{0, 2}), UserError);
    EXPECT_THROW((Permutation{-1}), UserError);
}

TEST(ContractionSpec, RolesAndOrder) {
    const ContractionSpec s(" p c d , c d a b -> p b a ");
    EXPECT_EQ(s.text(), "pcd,cdab->pba");
    EXPECT_EQ(s.labels_with(LabelRole::contracted), "cd");
    EXPECT_EQ(s.labels_with(LabelRole::free_b), "ba");
    EXPECT_EQ(s.labels_with(LabelRole::free_a), "p");
    EXPECT_FALSE(s.needs_reduction(0));
    const ContractionSpec r("iikz,kjw->ij");
    EXPECT_TRUE(r.needs_reduction(0));
    EXPECT_EQ(r.reduced_labels(0), "ik");
    EXPECT_EQ(r.reduced_labels(1), "kj");
    EXPECT_EQ(r.labels_with(LabelRole::summed_b), "w");
    EXPECT_EQ(ContractionSpec(",->").text(), ",->");
    EXPECT_EQ(ContractionSpec("->").operand_count(), 1);
}

TEST(ContractionSpec, RefusesNonsense) {
    for (const char* bad : {"", "ij->ik", "ij->ii", "ij->j->i", "i,j,k->ijk", "i.j->ij", "ij,jk=>ik",
                            "abcdefghijklmnopq->a", "i\n->i", "i->\xff", "...i->i", "i,j,k"})
        EXPECT_THROW(ContractionSpec{bad}, UserError) << bad;
}

TEST(ContractionSpec, AResultThatIsLeftAwayIsNumPys) {
    EXPECT_EQ(ContractionSpec("ij,jk").text(), "ij,jk->ik");
    EXPECT_EQ(ContractionSpec("ba").text(), "ba->ab");
    EXPECT_EQ(ContractionSpec("ii").text(), "ii->");
    EXPECT_EQ(ContractionSpec("bA,cB").text(), "bA,cB->ABbc");
}

std::string message_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const UserError& e) {
        return e.what();
    }
    return {};
}

TEST(ContractionSpec, MessagesNameWhatDiffersAndTheSpec) {
    // Both print as "9 in 3 tiles of 2..4".
    const Tiling one{2, 3, 4}, other{2, 4, 3}, longer{2, 3, 2, 2};
    ASSERT_EQ(to_string(one), to_string(other));
    const std::string alike = message_of([&] {
        ContractionSpec("ik,kj->ij").result_grid(TileGrid{one, one}, TileGrid{other, one});
    });
    EXPECT_NE(alike.find("tile 1 has 3 elements in one, 4 in the other"), std::string::npos) << alike;
    EXPECT_EQ(first_difference(one, one), "");
    EXPECT_EQ(first_difference(longer, one), "tile 2 has 2 elements in one, 4 in the other");
    EXPECT_EQ(first_difference(Tiling{2, 3}, Tiling{2, 3, 1}), "one has 2 tiles, the other 3");

    const Tiling huge = Tiling::uniform(std::int64_t{1} << 40, std::int64_t{1} << 40);
    const std::string over =
        message_of([&] { ContractionSpec("i,j->ij").result_grid(TileGrid{huge}, TileGrid{huge}); });
    EXPECT_NE(over.find("spec 'i,j->ij'"), std::string::npos) << over;
    EXPECT_NE(over.find("64 bits"), std::string::npos) << over;
}

TEST(Shape, SortsChecksAndFinds) {
    const TileGrid g{Tiling{2, 3}, Tiling{4, 1}};
    const Shape s(g, {{TileOrdinal{3}, 2.0}, {TileOrdinal{0}, 1.0}});
    EXPECT_EQ(s.tile(0).value, 0);
    EXPECT_EQ(s.find(TileOrdinal{3}), 1);
    EXPECT_FALSE(s.find(TileOrdinal{2}));
    EXPECT_EQ(s.elements(), 8 + 3);
    EXPECT_DOUBLE_EQ(s.density(), 11.0 / 25);
    EXPECT_DOUBLE_EQ(s.norm(), std::sqrt(5.0));
    EXPECT_THROW(Shape(g, {{TileOrdinal{4}, 1.0}}), UserError);
    EXPECT_THROW(Shape(g, {{TileOrdinal{1}, 1.0}, {TileOrdinal{1}, 1.0}}), UserError);
    EXPECT_THROW(Shape(g, {{TileOrdinal{1}, -1.0}}), UserError);
    EXPECT_THROW(Shape(g, {{TileOrdinal{1}, std::nan("")}}), UserError);
    EXPECT_THROW(Shape::from_sorted(g, {2, 1}, {1, 1}), UserError);
    EXPECT_EQ(Shape(TileGrid{Tiling()}).density(), 0);
}

TEST(Shape, FromCoordinates) {
    const TileGrid g{Tiling{2, 3}, Tiling{4, 1}, Tiling{1, 1, 1}};
    const auto s = Shape::from_coordinates(g, {{1, 0, 2}, {0, 0, 0}, {0, 1, 1}}, 0.5);
    EXPECT_EQ(s, Shape(g, {{g.ordinal({0, 0, 0}), 0.5}, {g.ordinal({0, 1, 1}), 0.5}, {g.ordinal({1, 0, 2}), 0.5}}));
    const std::vector<IndexVector> tiles{{1, 1, 1}, {0, 0, 1}};
    const std::vector<double> norms{3.0, 4.0};
    const auto t = Shape::from_coordinates(g, tiles, norms);
    EXPECT_EQ(t.norm_of(*t.find(g.ordinal({1, 1, 1}))), 3.0);
    EXPECT_EQ(t.norm_of(*t.find(g.ordinal({0, 0, 1}))), 4.0);
    EXPECT_EQ(Shape::from_coordinates(TileGrid{}, {IndexVector{}}).tile_count(), 1);
    EXPECT_TRUE(Shape::from_coordinates(g, {}).empty());

    const auto refused = [&](const IndexVector& first, const IndexVector& second) {
        return message_of([&] { Shape::from_coordinates(g, {first, second}); });
    };
    EXPECT_EQ(refused({0, 0, 0}, {0, 1, 3}), "tile (0, 1, 3): coordinate 3 of index 2 is outside 0..2");
    EXPECT_EQ(refused({0, 0, 0}, {0, -1, 0}), "tile (0, -1, 0): coordinate -1 of index 1 is outside 0..1");
    EXPECT_EQ(refused({0, 0}, {0, 1, 0}), "tile (0, 0): 2 coordinates for a tensor of rank 3");
    EXPECT_EQ(refused({0, 1, 2}, {0, 1, 2}), "shape: tile (0, 1, 2) stands twice");
    EXPECT_EQ(message_of([&] { Shape::from_coordinates(g, tiles, std::span(norms).first(1)); }),
              "shape: 2 tiles but 1 norms");
}

TEST(Shape, DenseOfMoreTilesThanPlansNumberIsRefused) {
    const auto many = Tiling::uniform(1 << 16, 1);
    EXPECT_EQ(message_of([&] {
                  Shape::dense({many, many});
              }),
              "shape: 4294967296 tiles, at most 2147483647 are possible; larger tiles make fewer");
}

/// Rows, columns and batch of every tensor of a spec whose indices stand in no good order.
TEST(MatrixView, KnowsEveryIndexOfEveryTensor) {
    using enum MatrixPart;
    const MatrixView v(ContractionSpec("sbkpl,lqsk->qbsp"));
    EXPECT_EQ(v.m, "bp");
    EXPECT_EQ(v.n, "q");
    EXPECT_EQ(v.k, "kl");
    EXPECT_EQ(v.batch, "s");
    EXPECT_EQ(v.parts.a, (std::vector{batch, row, column, row, column}));
    EXPECT_EQ(v.parts.b, (std::vector{row, column, batch, row}));
    EXPECT_EQ(v.parts.c, (std::vector{column, row, batch, row}));
    EXPECT_TRUE(v.contracted(Operand::a, 2) && v.contracted(Operand::b, 0));
    EXPECT_FALSE(v.contracted(Operand::a, 0) || v.contracted(Operand::b, 1));
    const auto a = v.sides(Operand::a, {2, 3, 5, 7, 11});
    EXPECT_EQ(a.rows, 2 * 3 * 7);
    EXPECT_EQ(a.cols, 5 * 11);
    const auto t = Tiling::uniform(10, 1);
    const TileGrid c{t, t, t, t};
    const auto at = v.place(c, c.ordinal({1, 2, 3, 4}));
    EXPECT_EQ(at.col, 1000);
    EXPECT_EQ(at.row, 234);
}

TEST(Shape, ManyTilesOfMoreAreCheap) {
    const Tiling t = Tiling::uniform(60 * 30, 30);
    const TileGrid g{t, t, t, t};  // 12,960,000 tiles
    std::vector<ShapeEntry> entries;
    std::mt19937_64 r(1);
    for (std::int64_t o = 0; o < g.tile_total(); o += 1 + static_cast<std::int64_t>(r() % 84))
        entries.push_back({TileOrdinal{o}, 1.0});
    const Shape s(g, std::move(entries));
    EXPECT_GT(s.tile_count(), 280'000);
    EXPECT_LT(s.metadata_bytes(), 20 * s.tile_count());
}

}  // namespace
}  // namespace tessera
