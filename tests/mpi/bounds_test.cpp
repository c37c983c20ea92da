// Contractions of element ranges: those of operands whose elements outside are zero, on any number of ranks.
#include <gtest/gtest.h>

#include <map>

#include "support/draw.hpp"
#include "support/message.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

using testing::Draw;
using testing::message;

/// A copy with zeros where an element is outside, and without the tiles that are: the slow way.
template <class T>
Tensor<T> cleared(const Tensor<T>& x, const std::string& labels, const std::vector<IndexBounds>& bounds) {
    std::vector<ShapeEntry> kept;
    const auto overlaps = [&](const IndexVector& begin, const IndexVector& extents) {
        for (const auto& b : bounds)
            for (std::size_t d = 0; d < labels.size(); ++d) {
                const auto from = begin[static_cast<int>(d)], to = from + extents[static_cast<int>(d)];
                if (labels[d] == b.label && (b.lo >= b.hi || to <= b.lo || from >= b.hi)) return false;
            }
        return true;
    };
    for (std::int64_t s = 0; s < x.tile_count(); ++s) {
        const auto tile = x.shape().tile(s);
        if (overlaps(x.grid().tile_begin(tile), x.grid().tile_extents(tile)))
            kept.push_back({tile, x.shape().norm_of(s)});
    }
    auto y = Tensor<T>::generate(
        Shape(x.grid(), kept),
        [&](const TileInfo& info, std::span<T> tile) { std::ranges::copy(x.tile(info.coordinates), tile.begin()); }, 0,
        x.placement());
    y.update_tiles([&](const IndexVector& at, T value) {
        for (const auto& b : bounds)
            for (std::size_t d = 0; d < labels.size(); ++d)
                if (labels[d] == b.label && (at[static_cast<int>(d)] < b.lo || at[static_cast<int>(d)] >= b.hi))
                    return T{};
        return value;
    });
    return y;
}

template <class T>
struct Bounds : ::testing::Test {
    Communicator& ranks = mpi_world();
    Tensor<T> random(Draw& draw, const std::string& labels, const std::map<char, Tiling>& tilings) {
        std::vector<Tiling> t;
        for (char l : labels) t.push_back(tilings.at(l));
        const TileGrid grid(std::move(t));
        return Tensor<T>::random(draw.shape(grid, 0.7), static_cast<std::uint64_t>(draw.below(100)), 0,
                                 {ranks, draw.distribution(grid, ranks.size())});
    }
};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Bounds, Scalars);

TYPED_TEST(Bounds, AreOperandsWithZerosOutside) {
    const std::vector<std::string> specs = {"ik,kj->ij",  "ijP,Pk->jki", "bik,bkj->bij", "ij,ij->",
                                            "iik,kj->ij", "ikl,kj->ij",  "i,j->ij",      "ij,ij->ij"};
    for (unsigned seed = 1; seed <= 24; ++seed) {
        Draw draw(seed);
        const ContractionSpec spec(specs[seed % specs.size()]);
        SCOPED_TRACE(spec.text() + " " + std::to_string(seed));
        std::map<char, Tiling> tilings;
        for (char l : spec.a() + spec.b()) {
            std::vector<std::int64_t> sizes;
            for (int t = 1 + draw.below(4); t > 0; --t) sizes.push_back(1 + draw.below(5));
            tilings.emplace(l, Tiling::from_sizes(sizes));
        }
        const auto a = this->random(draw, spec.a(), tilings), b = this->random(draw, spec.b(), tilings);
        ContractOptions options;
        for (const auto& index : tilings) {
            if (draw.below(2)) continue;
            const Tiling& tiling = index.second;
            const bool aligned = draw.below(2);
            const auto end = [&](int most) {
                return aligned ? tiling.offsets()[static_cast<std::size_t>(draw.below(most + 1))]
                               : draw.below(static_cast<int>(tiling.extent()) + 1);
            };
            const auto x = end(static_cast<int>(tiling.tile_count())), y = end(static_cast<int>(tiling.tile_count()));
            options.bounds.push_back({index.first, std::min(x, y), std::max(x, y)});
        }
        const auto slow_a = cleared(a, spec.a(), options.bounds), slow_b = cleared(b, spec.b(), options.bounds);
        ContractOptions plain;
        const auto [fast, report] = contract(spec.text(), a, b, {}, options);
        const auto [slow, slow_report] = contract(spec.text(), slow_a, slow_b, {}, plain);
        EXPECT_EQ(fast.shape(), slow.shape());
        EXPECT_EQ(checksum(fast), checksum(slow));
        EXPECT_EQ(report.flops, slow_report.flops);

        // In two steps, into a C, and with a filter.
        const auto planned = plan(spec.text(), a, b, {}, options);
        if (planned.distribution_a() == a.distribution() && planned.distribution_b() == b.distribution()) {
            EXPECT_EQ(checksum(execute(planned, a, b).tensor), checksum(fast));
        }
        auto c = slow, c_slow = slow;
        options.beta = plain.beta = 0.5;
        contract_into(spec.text(), a, b, c, {}, options);
        contract_into(spec.text(), slow_a, slow_b, c_slow, {}, plain);
        EXPECT_EQ(checksum(c), checksum(c_slow));
        options.beta = plain.beta = 0;
        options.filter = 1e-30;  // with norms of whole tiles as bounds nothing more may go
        const auto filtered = contract(spec.text(), a, b, {}, options);
        EXPECT_EQ(filter(filtered.tensor, 1e-30).to_dense(), filter(slow, 1e-30).to_dense());
        EXPECT_LT(filtered.report.left_out, 1e-20);
    }
}

TYPED_TEST(Bounds, OfMadeAndSingleOperands) {
    using T = TypeParam;
    for (unsigned seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(seed);
        Draw draw(seed);
        const std::map<char, Tiling> tilings{{'i', Tiling{3, 4}}, {'k', Tiling{2, 5, 1}}, {'j', Tiling{4, 2}}};
        const auto a = this->random(draw, "ik", tilings), b = this->random(draw, "kj", tilings);
        const auto whole = Tensor<T>::random(b.shape(), 3);
        const GeneratedTensor<T> made{whole.shape(), [&](const TileInfo& info, std::span<T> tile) {
                                          std::ranges::copy(whole.tile(info.coordinates), tile.begin());
                                      }};
        const std::vector<IndexBounds> bounds{{'k', 1, seed % 2 ? 7 : 6}, {'j', 0, 4}};
        const auto slow_b = cleared(whole, "kj", bounds);
        const auto wanted = contract("ik,kj->ij", gather(cleared(a, "ik", bounds)), slow_b).tensor.to_dense();
        const auto is = contract("ik,kj->ij", a, made, {}, {.bounds = bounds}).tensor.to_dense();
        if (this->ranks.rank() == 0) {
            EXPECT_EQ(is, wanted);
        }
        for (const char* spec : {"kj->jk", "kj->k", "kj->"}) {
            const auto one = contract(spec, b, {}, {.bounds = bounds}).tensor;
            EXPECT_EQ(one.to_dense(), contract(spec, cleared(b, "kj", bounds)).tensor.to_dense()) << spec;
        }
    }
}

TEST(BoundsCost, TilesOutsideCostNothingAndNoneInsideIsCopied) {
    Communicator& ranks = mpi_world();
    const Tiling t = Tiling::uniform(40, 10);
    const TileGrid grid{t, t};
    const auto a = Tensor<double>::random(Shape::dense(grid), 1, 0, {ranks, Distribution::even(grid, ranks.size())});
    const auto all = contract("ik,kj->ij", a, a).report;
    const auto half = contract("ik,kj->ij", a, a, {}, {.bounds = {{'k', 10, 30}}}).report;
    EXPECT_EQ(half.flops * 2, all.flops);
    EXPECT_EQ(half.products * 2, all.products);
    const auto row = contract("ik,kj->ij", a, a, {}, {.bounds = {{'i', 0, 10}}}).report;
    EXPECT_EQ(row.flops * 4, all.flops);
    if (ranks.size() == 1) {  // the operands and the result, as without bounds
        EXPECT_LE(half.peak_host_bytes, all.peak_host_bytes);
        const auto cut = contract("ik,kj->ij", a, a, {}, {.bounds = {{'k', 10, 29}}}).report;
        EXPECT_GT(cut.peak_host_bytes, half.peak_host_bytes);  // copies count
    }
}

TEST(BoundsErrors, NameTheLabel) {
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling{2, 3}, Tiling{5}};
    const auto a = Tensor<double>::random(Shape::dense(grid), 1, 0, {ranks, Distribution::even(grid, ranks.size())});
    const auto with = [&](std::vector<IndexBounds> bounds, const char* spec = "ik,jk->ij") {
        return message([&] { contract(spec, a, a, {}, {.bounds = std::move(bounds)}); });
    };
    EXPECT_EQ(with({{'k', 0, 6}}), "spec 'ik,jk->ij': bounds 0..6 of label 'k' are not within 0..5");
    EXPECT_EQ(with({{'k', 3, 2}}), "spec 'ik,jk->ij': bounds 3..2 of label 'k' are not within 0..5");
    EXPECT_EQ(with({{'x', 0, 1}}), "spec 'ik,jk->ij': bounds are given of label 'x', which no operand has");
    EXPECT_EQ(with({{'k', 0, 1}, {'k', 1, 2}}), "spec 'ik,jk->ij': bounds of label 'k' are given twice");
    EXPECT_EQ(message([&] {
                  contract("ik->ki", a, {}, {.bounds = {{'j', 0, 1}}});
              }),
              "spec 'ik->ki': bounds are given of label 'j', which no operand has");
    const auto planned = plan("ik,jk->ij", a, a, {}, {.bounds = {{'k', 0, 2}}});
    const auto other = Tensor<double>::random(Shape::dense(TileGrid{Tiling{5}, Tiling{5}}), 1, 0, a.placement());
    EXPECT_NE(message([&] { execute(planned, a, other); }).find("B: index 0 is 5 in 1 tile"), std::string::npos);
    if (ranks.size() > 1) {
        EXPECT_NE(with({{'k', 0, 1 + (ranks.rank() == 1)}}).find("on rank 1 bounds is 'k 0..2'"), std::string::npos);
    }
}

}  // namespace
}  // namespace tessera
