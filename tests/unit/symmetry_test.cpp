// Tensors with symmetry: what is stored, what comes of contracting it, and who refuses it. Compiled a second time for a
// CUDA device (support/back_end.hpp).

#include "tessera/shape/symmetry.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "contract/verify.hpp"
#include "support/back_end.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/batch.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/contract/einsum.hpp"
#include "tessera/io/hdf5.hpp"
#include "tessera/tensor/matrix.hpp"
#include "tessera/tensor/slice.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {
namespace {

using testing::back_end_resources;
using testing::on_device;
using testing::Random;
using testing::random_shape;
using testing::random_tiling;
using testing::trials;

template <class Body>
std::string error_of(Body&& body) {
    try {
        body();
    } catch (const UserError& e) {
        return e.what();
    }
    return "no error";
}

TEST(Symmetry, RelationsMakeAGroup) {
    EXPECT_TRUE(Symmetry("").none());
    EXPECT_TRUE(Symmetry("ij=ij").none());
    EXPECT_EQ(Symmetry("ij = ji").elements().size(), 2u);
    EXPECT_EQ(Symmetry("ij = -ji *").text(), "ij=-ji*");
    EXPECT_EQ(Symmetry("ijkl=jikl, ijkl=ijlk, ijkl=klij").elements().size(), 8u);
    EXPECT_EQ(Symmetry("ijk=jki").elements().size(), 3u);
    EXPECT_EQ(Symmetry("ijk=-jik,ijk=-ikj"), Symmetry("abc=-cba,abc=bca"));
    EXPECT_FALSE(Symmetry("ij=ji") == Symmetry("ij=-ji"));
    EXPECT_FALSE(Symmetry("ij=ji") == Symmetry());
}

TEST(Symmetry, BadRelationsAreNamed) {
    const auto error = [](const char* text) { return error_of([&] { Symmetry s(text); }); };
    EXPECT_NE(error("ij").find("symmetry 'ij': has no '='"), std::string::npos);
    EXPECT_NE(error("ij=jk").find("does not have the indices of the left"), std::string::npos);
    EXPECT_NE(error("ii=ii").find("stands twice"), std::string::npos);
    EXPECT_NE(error("ij=ji,ijk=jik").find("2 and 3 indices"), std::string::npos);
    EXPECT_NE(error("ij=ji,ij=-ji").find("would be minus itself"), std::string::npos);
    EXPECT_NE(error("ij=ji,ij=ji*").find("would be the conjugate of itself"), std::string::npos);
    EXPECT_NE(error("1j=j1").find("an index is a letter"), std::string::npos);
    EXPECT_NE(error("=").find("names no index"), std::string::npos);
}

TEST(Symmetry, TilesThatChangePlacesMustBeAlike) {
    const TileGrid grid{Tiling{2, 3}, Tiling{3, 2}};
    EXPECT_NE(error_of([&] { (void)Shape::dense(grid).with_symmetry("ij=ji"); }).find("indices 0 and 1 change places"),
              std::string::npos);
    EXPECT_NE(error_of([&] { (void)Shape::dense(grid).with_symmetry("ijk=jik"); }).find("3 indices, the tensor 2"),
              std::string::npos);
    const TileGrid square{Tiling{2, 3}, Tiling{2, 3}};
    EXPECT_NE(error_of([&] {
                  (void)Shape::from_sorted(square, {2}, {1}, "ij=ji");
              }).find("tile (0, 1) is stored for tile (1, 0)"),
              std::string::npos);
}

TEST(Symmetry, OneTileOfEachKindIsStored) {
    const auto tiles = Tiling::uniform(100, 5);
    const auto dense = Shape::dense({tiles, tiles}), stored = dense.with_symmetry("ij=ji");
    EXPECT_EQ(stored.tile_count(), 210);
    EXPECT_LE(static_cast<double>(stored.elements()), 0.55 * static_cast<double>(dense.elements()));
    EXPECT_NEAR(stored.norm(), dense.norm(), 1e-12);
    EXPECT_FALSE(
        stored.same_tiles(Shape::from_sorted({tiles, tiles}, {stored.ordinals().begin(), stored.ordinals().end()},
                                             {stored.norms().begin(), stored.norms().end()})));
    // A tile whose counterpart alone is nonzero is stored too.
    const auto one = Shape::from_coordinates({tiles, tiles}, {{7, 3}}, 2.0).with_symmetry("ij=-ji");
    ASSERT_EQ(one.tile_count(), 1);
    EXPECT_EQ(one.grid().coordinates(one.tile(0)), (IndexVector{3, 7}));
    EXPECT_EQ(whole_shape(one).shape.tile_count(), 2);
}

template <Scalar T>
class SymmetricTensors : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(SymmetricTensors, AllScalars);

/// A tensor with this symmetry, its indices cut into the tiles of these labels.
template <Scalar T>
Tensor<T> random_symmetric(Random& r, const std::string& labels, std::map<char, Tiling>& tilings,
                           const Symmetry& symmetry, double occupancy = 0.7) {
    std::vector<Tiling> of;
    for (char l : labels) {
        tilings.try_emplace(l, random_tiling(r, 3, 4));
        of.push_back(tilings[l]);
    }
    return Tensor<T>::random(random_shape(r, TileGrid(of), occupancy).with_symmetry(symmetry), r());
}

TYPED_TEST(SymmetricTensors, AreWholeAgain) {
    using T = TypeParam;
    Random r(1);
    for (const char* symmetry : {"ij=ji", "ij=-ji", "ij=ji*", "ij=-ji*"}) {
        std::map<char, Tiling> tilings{{'i', Tiling{3, 1, 4, 2}}};
        const auto x = random_symmetric<T>(r, "ii", tilings, symmetry, 0.8);
        const auto whole = desymmetrise(x);
        EXPECT_TRUE(whole.shape().symmetry().none());
        const auto n = x.grid().tiling(0).extent();
        const auto dense = whole.to_dense();
        EXPECT_EQ(x.to_dense(), dense);
        const Symmetry s(symmetry);
        for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                const auto& e = s.elements()[1];
                ASSERT_EQ(dense[i * n + j],
                          static_cast<RealOf<T>>(e.sign) * conjugate_if(dense[j * n + i], e.conjugate));
            }
        EXPECT_TRUE(with_symmetry(whole, s) == x);
        EXPECT_NEAR(norm(x), norm(whole), 1e-5 * norm(whole));
        EXPECT_FALSE(whole == x);
    }
    // Three indices that go round, and tiles of different sides.
    std::map<char, Tiling> tilings{{'i', Tiling{3, 1, 2}}};
    const auto x = random_symmetric<T>(r, "iii", tilings, "ijk=jki", 0.8);
    const auto whole = desymmetrise(x);
    const auto dense = whole.to_dense();
    const auto tile = [](std::int64_t i) { return i < 3 ? 0 : i < 4 ? 1 : 2; };
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j)
            for (int k = 0; k < 6; ++k)
                if (!(tile(i) == tile(j) && tile(j) == tile(k))) {
                    ASSERT_EQ(dense[(i * 6 + j) * 6 + k], dense[(j * 6 + k) * 6 + i]);
                }
    EXPECT_TRUE(with_symmetry(whole, "ijk=jki") == x);
}

TEST(SymmetricTensorsOnce, WhatIsNotSymmetricIsNamed) {
    const TileGrid grid{Tiling{2, 2}, Tiling{2, 2}};
    const auto x = Tensor<double>::random(Shape::dense(grid), 3);
    EXPECT_NE(error_of([&] { (void)with_symmetry(x, "ij=ji"); }).find("with_symmetry: tile (1, 0) differs"),
              std::string::npos);
    (void)with_symmetry(x, "ij=ji", 10);
    EXPECT_NE(error_of([&] { (void)from_stored(x, "ij=ji"); }).find("tile (0, 1) is stored for tile (1, 0)"),
              std::string::npos);
    EXPECT_NE(error_of([&] { (void)with_symmetry(x, "ij=ji", -1); }).find("tolerance -1"), std::string::npos);
}

TEST(SymmetricTensorsOnce, AlgebraIsThatOfTheWhole) {
    using T = std::complex<double>;
    Random r(2);
    for (const char* symmetry : {"ijab=jiba", "ijab=-jiab,ijab=-ijba", "ijab=jiba*"}) {
        std::map<char, Tiling> tilings{{'i', Tiling{2, 1, 3}}, {'a', Tiling{1, 2, 2}}};
        const auto x = random_symmetric<T>(r, "iiaa", tilings, symmetry),
                   y = random_symmetric<T>(r, "iiaa", tilings, symmetry);
        const auto whole_x = desymmetrise(x), whole_y = desymmetrise(y);
        const auto same = [](const Tensor<T>& one, const Tensor<T>& other) {  // zeros may differ in their sign
            return one.shape().same_tiles(other.shape()) && norm(add(T(1), one, T(-1), other)) == 0;
        };
        EXPECT_TRUE(same(desymmetrise(add(T(2), x, T(-3), y)), add(T(2), whole_x, T(-3), whole_y)));
        EXPECT_LE(std::abs(dot(x, y) - dot(whole_x, whole_y)), 1e-12 * norm(x) * norm(y)) << symmetry;
        EXPECT_NEAR(norm(x), norm(whole_x), 1e-12 * norm(x));
        EXPECT_EQ(max_abs(x), max_abs(whole_x));
        auto z = x;
        scale(z, T(0.5));
        axpy(T(-1), y, z);
        EXPECT_TRUE(same(desymmetrise(z), add(T(0.5), whole_x, T(-1), whole_y)));
        const auto some = filter(x, 0.5 * max_abs(x));
        EXPECT_TRUE(desymmetrise(some) == filter(whole_x, 0.5 * max_abs(x)));
        EXPECT_EQ(some.shape().symmetry(), Symmetry(symmetry));
    }
    const TileGrid grid{Tiling{2, 2}, Tiling{2, 2}};
    auto h = Tensor<T>::random(Shape::dense(grid).with_symmetry("ij=ji*"), 3);
    EXPECT_NE(error_of([&] { scale(h, T(0, 1)); }).find("scale: a factor of 0 + 1i is not real"), std::string::npos);
    const auto s = Tensor<T>::random(Shape::dense(grid).with_symmetry("ij=ji"), 3);
    EXPECT_NE(error_of([&] { (void)add(T(1), h, T(1), s); }).find("one tensor has the symmetry 'ij=ji*', the other"),
              std::string::npos);
    EXPECT_NE(error_of([&] { (void)dot(h, desymmetrise(h)); }).find("dot: one tensor has the symmetry"),
              std::string::npos);
}

/// A contraction, and which symmetries its tensors have.
struct Product {
    const char *spec, *a, *b, *c;
    std::map<char, char> alike;  // labels with the tiles of another one
};
const std::vector<Product>& products() {
    static const std::vector<Product> all = {
        {"ij,jk->ik", "ij=ji", "", "", {{'j', 'i'}}},
        {"ij,jk->ik", "", "ij=-ji", "", {{'k', 'j'}}},
        {"ij,jk->ik", "ij=ji*", "ij=-ji*", "", {{'j', 'i'}, {'k', 'i'}}},
        {"ij,jk->ki", "ij=-ji", "ij=ji", "", {{'j', 'i'}, {'k', 'i'}}},
        {"ij,ij->ij", "ij=ji*", "ij=-ji", "", {{'j', 'i'}}},
        {"ijcd,cdab->ijab", "ijcd=jidc", "cdab=dcba", "ijab=jiba", {{'j', 'i'}, {'d', 'c'}, {'b', 'a'}}},
        {"ijcd,cdab->ijab",
         "ijcd=-jicd,ijcd=-ijdc",
         "cdab=-dcab,cdab=-cdba",
         "ijab=-jiab,ijab=-ijba",
         {{'j', 'i'}, {'d', 'c'}, {'b', 'a'}}},
        {"icjd,abdc->jbia", "icjd=jdic", "abdc=bacd", "jbia=iajb", {{'j', 'i'}, {'d', 'c'}, {'b', 'a'}}},
        {"hik,hkj->hij", "hik=hki", "", "", {{'k', 'i'}}},
        {"ijk,k->ij", "ijk=jik", "", "ij=ji", {{'j', 'i'}}},
        {"k,ijk->ji", "", "ijk=jik", "ij=ji", {{'j', 'i'}}},
        {"ikl,klj->ij", "ikl=ilk", "klj=lkj", "", {{'l', 'k'}}},
        {"ijk,jkl->il", "ijk=jki", "", "", {{'j', 'i'}, {'k', 'i'}}},
    };
    return all;
}

template <Scalar T>
Tensor<T> operand(Random& r, const std::string& labels, const Product& p, std::map<char, Tiling>& tilings,
                  const char* symmetry) {
    std::string own;
    for (char l : labels) own += p.alike.contains(l) ? p.alike.at(l) : l;
    return random_symmetric<T>(r, own, tilings, symmetry);
}

template <Scalar T>
void expect_stored_tiles(const Tensor<T>& part, const Tensor<T>& whole, const std::string& what) {
    ASSERT_GT(part.tile_count(), 0) << what;
    const auto all = whole_shape(part.shape());
    ASSERT_TRUE(all.shape.same_tiles(whole.shape())) << what;
    for (std::int64_t s = 0; s < part.tile_count(); ++s) {
        const auto mine = part.tile(s), other = whole.tile(part.grid().coordinates(part.shape().tile(s)));
        ASSERT_EQ(mine.size(), other.size());
        ASSERT_EQ(std::memcmp(mine.data(), other.data(), mine.size_bytes()), 0) << what << " tile " << s;
        ASSERT_EQ(part.shape().norm_of(s),
                  *std::optional(whole.shape().norm_of(*whole.shape().find(part.shape().tile(s)))));
    }
}

TYPED_TEST(SymmetricTensors, ContractionsGiveTheBitsOfTheWhole) {
    using T = TypeParam;
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(5);
    for (int trial = 0; trial < trials(25); ++trial)
        for (const auto& p : products()) {
            const ContractionSpec spec(p.spec);
            std::map<char, Tiling> tilings;
            const auto a = operand<T>(r, spec.a(), p, tilings, p.a), b = operand<T>(r, spec.b(), p, tilings, p.b);
            const auto whole_a = desymmetrise(a), whole_b = desymmetrise(b);
            if (whole_a.tile_count() == 0 || whole_b.tile_count() == 0) continue;
            const auto here = back_end_resources();
            ContractOptions options;
            options.alpha = trial % 3 == 0 ? 1.0 : -0.75;
            options.conjugate_a = trial % 4 == 1;
            options.conjugate_b = trial % 5 == 2;
            const auto expected = contract(spec.text(), whole_a, whole_b, here, options);
            const auto planned = plan(spec.text(), a, b, here, options);
            validate(planned.plan());
            EXPECT_LE(planned.counts().bytes_a, expected.report.bytes_a);
            const auto got = execute(planned, a, b);
            EXPECT_TRUE(got.tensor == expected.tensor) << p.spec << " " << p.a << " " << p.b;
            EXPECT_TRUE(contract(spec.text(), a, whole_b, here, options).tensor == expected.tensor);

            if (*p.c == 0 || expected.tensor.tile_count() == 0) continue;
            options.result_symmetry = p.c;
            const auto half = contract(spec.text(), a, b, here, options);
            expect_stored_tiles(half.tensor, expected.tensor, p.spec);
            VerifyOptions slow;
            slow.alpha = options.alpha;
            slow.conjugate_a = options.conjugate_a;
            slow.conjugate_b = options.conjugate_b;
            EXPECT_LT(verify_sample<T>(spec.text(), a, b, half.tensor, slow).max_relative_error, 1e-4);
            EXPECT_LE(half.report.flops, expected.report.flops);
            // Added to what is there.
            auto sum = half.tensor, whole_sum = expected.tensor;
            options.beta = 0.5;
            contract_into(spec.text(), a, b, sum, here, options);
            options.result_symmetry = {};
            contract_into(spec.text(), whole_a, whole_b, whole_sum, here, options);
            expect_stored_tiles(sum, whole_sum, p.spec);
        }
}

/// So large that threads share tiles, and that tiles do not fit a cache.
TYPED_TEST(SymmetricTensors, LargeTilesAndAnyThreads) {
    using T = TypeParam;
    TESSERA_SKIP_WITHOUT_BACK_END();
    const Tiling tiles{70, 33, 128};
    for (const char* symmetry : {"ij=ji", "ij=-ji*"}) {
        const auto a = Tensor<T>::random(Shape::dense({tiles, tiles}).with_symmetry(symmetry), 1);
        const auto whole = desymmetrise(a);
        auto here = back_end_resources();
        const auto expected = contract("ik,jk->ij", whole, a, here).tensor;
        for (int threads : {1, 2, 5}) {
            here.threads = threads;
            EXPECT_TRUE(contract("ik,jk->ij", a, whole, here).tensor == expected);
            expect_stored_tiles(contract("ik,jk->ij", a, a, here, {.result_symmetry = "ij=ji"}).tensor, expected,
                                symmetry);
        }
    }
}

/// A long sum into a small result is cut into segments, the same ones with and without symmetry of the result.
TEST(SymmetricTensorsOnce, SegmentsAreThoseOfTheWhole) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    const auto few = Tiling::uniform(12, 3), many = Tiling::uniform(400, 8);
    const auto a = Tensor<double>::random(Shape::dense({few, many}), 1);
    const auto here = back_end_resources();
    const auto whole = plan("ik,jk->ij", a, a, here);
    const auto half = plan("ik,jk->ij", a, a, here, {.result_symmetry = "ij=ji"});
    ASSERT_GT(whole.plan().segments, 1);
    EXPECT_EQ(whole.plan().segments, half.plan().segments);
    expect_stored_tiles(execute(half, a, a).tensor, execute(whole, a, a).tensor, "segments");
}

/// Sums over c <= d alone: fewer products, the same result but for rounding.
TYPED_TEST(SymmetricTensors, SumsAreFoldedOnRequest) {
    using T = TypeParam;
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(21);
    struct Sum {
        const char *spec, *a, *b;
        bool folds;
    };
    const Sum sums[] = {{"icd,cdj->ij", "icd=idc", "cdj=dcj", true},
                        {"icd,dcj->ij", "icd=-idc", "dcj=-cdj", true},
                        {"icd,cdj->ij", "icd=-idc", "cdj=dcj", false},  // zero, which nobody asked about
                        {"icd,cdj->ij", "icd=idc*", "cdj=dcj*", false},
                        {"icd,jcd->ij", "icd=idc", "", false},
                        {"cde,cde->", "cde=dce,cde=ced", "cde=dce,cde=ced", true},
                        {"cide,jdce->ij", "cide=dice", "jdce=jcde", true}};
    for (int trial = 0; trial < trials(10); ++trial)
        for (const auto& sum : sums) {
            const ContractionSpec spec(sum.spec);
            const Product p{sum.spec, sum.a, sum.b, "", {{'d', 'c'}, {'e', 'c'}}};
            std::map<char, Tiling> tilings{{'c', Tiling{3, 2, 1, 4}}};
            const auto a = operand<T>(r, spec.a(), p, tilings, sum.a), b = operand<T>(r, spec.b(), p, tilings, sum.b);
            const auto here = back_end_resources();
            const auto all = contract(spec.text(), a, b, here);
            const auto planned = plan(spec.text(), a, b, here, {.fold = true});
            validate(planned.plan());
            EXPECT_EQ(planned.plan().views_a.folded, sum.folds) << sum.spec << " " << sum.a;
            EXPECT_NEAR(planned.counts().whole_flops, all.report.flops, 1e-9 * all.report.flops);
            const auto some = execute(planned, a, b);
            EXPECT_LE(norm(add(T(1), all.tensor, T(-1), some.tensor)),
                      (std::is_same_v<RealOf<T>, float> ? 1e-4 : 1e-12) * norm(a) * norm(b));
            if (!sum.folds) {
                EXPECT_TRUE(some.tensor == all.tensor);
            }
        }
}

TEST(SymmetricTensorsOnce, FoldedFigures) {
    const auto o = Tiling::uniform(20, 10), v = Tiling::uniform(200, 10);
    const auto a = Shape::dense({o, v, v}).with_symmetry("icd=-idc"),
               b = Shape::dense({v, v, o}).with_symmetry("cdj=-dcj");
    const auto planned = plan<double>("icd,cdj->ij", a, b, {}, {.fold = true});
    validate(planned.plan());
    EXPECT_LE(planned.counts().flops, 0.55 * planned.counts().whole_flops);
    EXPECT_NE(explain(planned).find("A icd=-idc; B cdj=-dcj; sums folded"), std::string::npos);
}

TEST(SymmetricTensorsOnce, DenseFigures) {
    const auto tiles = Tiling::uniform(200, 10);
    const auto dense = Shape::dense({tiles, tiles}), stored = dense.with_symmetry("ij=ji");
    const auto product = plan<double>("ik,kj->ij", stored, dense, {}, {.result_symmetry = "ij=ji"});
    validate(product.plan());
    const auto& n = product.counts();
    EXPECT_LE(n.flops, 0.55 * n.whole_flops);
    EXPECT_EQ(n.whole_flops, 2.0 * 200 * 200 * 200);
    EXPECT_LE(static_cast<double>(n.bytes_a), 0.55 * static_cast<double>(n.bytes_b));
    EXPECT_LE(static_cast<double>(n.bytes_c), 0.55 * static_cast<double>(n.bytes_b));
    EXPECT_EQ(n.whole_bytes, 3 * n.bytes_b);
    const auto text = explain(product);
    EXPECT_NE(text.find("symmetry   A ij=ji; C ij=ji: "), std::string::npos) << text;
    EXPECT_NE(explain_json(product).find("\"without_symmetry\""), std::string::npos);

    // Pairs as in the ABCD term, 25 tiles of pairs a side.
    const auto o = Tiling::uniform(20, 4), v = Tiling::uniform(40, 8);
    const auto t = Shape::dense({o, o, v, v}).with_symmetry("ijcd=jidc"),
               g = Shape::dense({v, v, v, v}).with_symmetry("cdab=dcba");
    const auto abcd = plan<double>("ijcd,cdab->ijab", t, g, {}, {.result_symmetry = "ijab=jiba"});
    validate(abcd.plan());
    EXPECT_GE(abcd.counts().whole_flops, 1.8 * abcd.counts().flops);
    EXPECT_GE(static_cast<double>(abcd.counts().whole_bytes),
              1.8 * static_cast<double>(abcd.counts().bytes_a + abcd.counts().bytes_b + abcd.counts().bytes_c));
}

/// Plans for many ranks and devices: every tile that is stored comes to a rank once at most.
TEST(SymmetricTensorsOnce, PlansForRanksAndDevicesAreValid) {
    Random r(7);
    for (int trial = 0; trial < 150; ++trial)
        for (const auto& p : products()) {
            testing::Case c;
            c.spec = ContractionSpec(p.spec);
            std::map<char, Tiling> tilings;
            const auto shape = [&](const std::string& labels, const char* symmetry) {
                std::vector<Tiling> of;
                for (char l : labels) {
                    const char own = p.alike.contains(l) ? p.alike.at(l) : l;
                    tilings.try_emplace(own, random_tiling(r, 4, 40));
                    of.push_back(tilings[own]);
                }
                return random_shape(r, TileGrid(of), 0.6).with_symmetry(symmetry);
            };
            const auto a = whole_shape(shape(c.spec.a(), p.a)), b = whole_shape(shape(c.spec.b(), p.b));
            c.a = a.shape;
            c.b = b.shape;
            c.request.views_a = a.views.empty() ? nullptr : &a.views;
            c.request.views_b = b.views.empty() ? nullptr : &b.views;
            c.request.screening.symmetry = p.c;
            testing::many_ranks(r, c, 6, 3);
            try {
                const auto plan = testing::plan_of(c);
                validate(plan);
                std::set<std::tuple<int, Operand, std::int32_t>> received;
                for (const auto& s : plan.steps)
                    for (auto i = s.begin; s.kind == StepKind::receive && i < s.end; ++i)
                        EXPECT_TRUE(received.emplace(s.rank, plan.arrivals[i].operand, plan.arrivals[i].slot).second);
            } catch (const UserError& e) {
                EXPECT_NE(std::string(e.what()).find(" do '"), std::string::npos) << e.what();  // split_k, most often
            }
        }
}

TEST(SymmetricTensorsOnce, AFilterBoundsTheWhole) {
    Random r(9);
    std::map<char, Tiling> tilings{{'i', Tiling::uniform(24, 3)}};
    auto a = random_symmetric<double>(r, "ii", tilings, "ij=ji", 1.0);
    a.update_tiles([](const TileInfo& info, std::span<double> tile) {
        for (auto& e : tile)
            e *= std::pow(10.0, -std::abs(static_cast<double>(info.coordinates[0] - info.coordinates[1])));
    });
    const auto exact = contract("ik,kj->ij", a, a).tensor;
    const auto got = contract("ik,kj->ij", a, a, {}, {.filter = 1e-3, .result_symmetry = "ij=ji"});
    EXPECT_LT(got.tensor.tile_count(), Shape::dense(a.grid()).with_symmetry("ij=ji").tile_count());
    const auto error = norm(add(1.0, exact, -1.0, desymmetrise(got.tensor)));
    EXPECT_GT(error, 0);
    EXPECT_LE(error, got.report.left_out);
}

TEST(SymmetricTensorsOnce, EinsumsOfSeveralTakeThem) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(11);
    std::map<char, Tiling> tilings{{'i', Tiling{3, 2, 4}}};
    const auto f = random_symmetric<double>(r, "ii", tilings, "ij=ji", 1.0),
               c = random_symmetric<double>(r, "ii", tilings, "", 1.0);
    const auto here = back_end_resources();
    const auto expected =
        contract("ki,kl,lj->ij", std::vector<ContractOperand<double>>{c, desymmetrise(f), c}, here).tensor;
    EXPECT_TRUE(contract("ki,kl,lj->ij", std::vector<ContractOperand<double>>{c, f, c}, here).tensor == expected);
    expect_stored_tiles(
        contract("ki,kl,lj->ij", std::vector<ContractOperand<double>>{c, f, c}, here, {.result_symmetry = "ij=ji"})
            .tensor,
        expected, "einsum");
}

TEST(SymmetricTensorsOnce, FilesCarryIt) {
    const auto path = (std::filesystem::temp_directory_path() / "tessera_symmetry.h5").string();
    Random r(12);
    std::map<char, Tiling> tilings{{'i', Tiling{3, 2, 4}}};
    const auto x = random_symmetric<double>(r, "iii", tilings, "ijk=-jik");
    write_tensor(path, x);
    EXPECT_EQ(describe(path).version, 2);
    const auto back = read_tensor<double>(path);
    EXPECT_TRUE(back == x);
    EXPECT_EQ(back.shape().symmetry().text(), "ijk=-jik");
    write_tensor(path, desymmetrise(x));
    EXPECT_EQ(describe(path).version, 1);
    std::filesystem::remove(path);
}

TEST(SymmetricTensorsOnce, WhatKnowsNoSymmetrySaysSo) {
    const TileGrid grid{Tiling{2, 2}, Tiling{2, 2}};
    auto x = Tensor<double>::random(Shape::dense(grid).with_symmetry("ij=ji"), 3);
    const auto whole = desymmetrise(x);
    const auto expect_refused = [](const std::string& what, const std::function<void()>& body) {
        EXPECT_NE(error_of(body).find(what), std::string::npos) << error_of(body);
    };
    expect_refused("slice: the tensor has the symmetry 'ij=ji', desymmetrise it first", [&] {
        (void)slice(x, {{0, 1}, {0, 1}});
    });
    expect_refused("retile: the tensor has", [&] { (void)retile(x, grid); });
    EXPECT_EQ(trace(x), trace(whole));  // tiles of the diagonal are stored
    expect_refused("diagonal: the tensor has", [&] { (void)diagonal(x); });
    expect_refused("trace: the tensor has", [&] { (void)trace(x, whole); });
    expect_refused("hadamard: the tensor has", [&] { (void)hadamard(whole, x); });
    expect_refused("one operand: the tensor has", [&] { (void)contract("ij->ji", x); });
    expect_refused("there are bounds", [&] { (void)contract("ij,jk->ik", x, whole, {}, {.bounds = {{'i', 0, 2}}}); });
    expect_refused("a diagonal or a sum of its own", [&] { (void)contract("ii,jk->ik", x, whole); });
    expect_refused("C has ''", [&] {
        auto c = whole;
        contract_into("ij,jk->ik", whole, whole, c, {}, {.result_symmetry = "ij=ji"});
    });
    expect_refused("3 indices", [&] { (void)contract("ij,jk->ik", whole, whole, {}, {.result_symmetry = "ijk=jik"}); });
    expect_refused("is made on demand", [&] {
        const GeneratedTensor<double> made{x.shape(), [](const TileInfo&, std::span<double>) {}};
        (void)contract("ij,jk->ik", whole, made);
    });
    expect_refused("batch: the tensor has", [&] {
        auto c = whole;
        auto b = batch("ij,jk->ik", c);
        b.add(x, whole);
    });
}

}  // namespace
}  // namespace tessera
