// contract_into works in C's own tiles: with the bits of a second C, in less memory, and what becomes of C on an error.

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tensor/checksum.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/contract/einsum.hpp"

namespace tessera {
namespace {

template <Scalar T>
Tensor<T> sparse(const TileGrid& grid, double occupancy, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<ShapeEntry> entries;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (std::uniform_real_distribution<>(0, 1)(random) < occupancy) entries.push_back({TileOrdinal{o}, 1.0});
    return Tensor<T>::random(Shape(grid, std::move(entries)), seed);
}

template <Scalar T>
std::vector<const T*> places(const Tensor<T>& x) {
    std::vector<const T*> out;
    for (std::int64_t s = 0; s < x.tile_count(); ++s) out.push_back(x.tile(s).data());
    return out;
}

template <Scalar T>
void expect_same(const Tensor<T>& x, const Tensor<T>& y) {
    EXPECT_EQ(checksum(x), checksum(y));
    ASSERT_TRUE(x.shape().same_tiles(y.shape()));
    for (std::int64_t s = 0; s < x.tile_count(); ++s) EXPECT_EQ(x.shape().norm_of(s), y.shape().norm_of(s));
}

template <class T>
class InPlace : public ::testing::Test {};
using AllScalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(InPlace, AllScalars);

TYPED_TEST(InPlace, HasTheBitsOfASecondC) {
    using T = TypeParam;
    const Tiling i{40, 7, 64, 31, 58}, k{16, 5, 33}, j{50, 9, 41, 60};
    int in_place = 0;
    for (const char* spec : {"ik,kj->ij", "ki,kj->ji", "ik,jk->ij"})
        for (const double occupancy : {1.0, 0.4})
            for (const double beta : {0.0, -0.75})
                for (const int threads : {1, 2, 3}) {
                    const bool a_first = spec[0] == 'i', b_first = spec[3] == 'k', ij = spec[7] == 'i';
                    const auto a = sparse<T>(a_first ? TileGrid{i, k} : TileGrid{k, i}, occupancy, 1);
                    const auto b = sparse<T>(b_first ? TileGrid{k, j} : TileGrid{j, k}, occupancy, 2);
                    // Large enough that a second C is worth saving.
                    const Tiling wide = ij ? j : i;
                    ASSERT_GT(wide.extent(), 100);
                    const auto c = sparse<T>(ij ? TileGrid{i, j} : TileGrid{j, i}, 1, 3);
                    ContractOptions options{.alpha = 1.25, .beta = beta};
                    auto mine = c, other = c;
                    const auto before = places(mine);
                    contract_into<T>(spec, a, b, mine, {.threads = threads}, options);
                    options.strict = true;
                    contract_into<T>(spec, a, b, other, {.threads = threads}, options);
                    expect_same(mine, other);
                    in_place += places(mine) == before;
                }
    EXPECT_GE(in_place, 9);  // beta = 0, all tiles there
}

struct Large {
    Tiling side = Tiling::uniform(600, 100), sum = Tiling::uniform(40, 20);
    Tensor<double> a = sparse<double>({side, sum}, 1, 1), b = sparse<double>({sum, side}, 1, 2),
                   c = sparse<double>({side, side}, 1, 3);
    std::int64_t bytes(const Tensor<double>& x) const { return x.tile_bytes(); }
};

TEST(InPlaceLarge, ACThatIsAddedToIsTheOnlyOne) {
    Large x;
    for (const int threads : {1, 2, 4}) {
        auto mine = x.c, other = x.c;
        const auto before = places(mine);
        const auto report = contract_into<double>("ik,kj->ij", x.a, x.b, mine, {.threads = threads}, {.beta = 0.5});
        EXPECT_EQ(places(mine), before);
        const auto strict =
            contract_into<double>("ik,kj->ij", x.a, x.b, other, {.threads = threads}, {.beta = 0.5, .strict = true});
        expect_same(mine, other);
        EXPECT_GE(strict.peak_host_bytes, x.bytes(x.a) + x.bytes(x.b) + 2 * x.bytes(x.c));
        EXPECT_LT(report.peak_host_bytes, strict.peak_host_bytes);
    }
}

TEST(InPlaceLarge, ItFitsInABudgetForOneC) {
    Large x;
    const auto one = x.bytes(x.a) + x.bytes(x.b) + x.bytes(x.c);
    auto c = x.c;
    const auto report = contract_into<double>("ik,kj->ij", x.a, x.b, c, {.memory = one + (1 << 16)});
    EXPECT_LE(report.peak_host_bytes, one + (1 << 16));
    expect_same(c, contract<double>("ik,kj->ij", x.a, x.b).tensor);
    EXPECT_THROW(contract_into<double>("ik,kj->ij", x.a, x.b, c, {.memory = one + (1 << 16)}, {.strict = true}),
                 BudgetError);
}

TEST(InPlaceLarge, WithBetaItFitsInABudgetForOneCAndTheTilesAtHand) {
    Large x;
    const auto budget = x.bytes(x.a) + x.bytes(x.b) + x.bytes(x.c) * 3 / 2;
    auto mine = x.c, other = x.c;
    const auto before = places(mine);
    const auto report =
        contract_into<double>("ik,kj->ij", x.a, x.b, mine, {.threads = 2, .memory = budget}, {.beta = 0.5});
    EXPECT_EQ(places(mine), before);
    EXPECT_LE(report.peak_host_bytes, budget);
    contract_into<double>("ik,kj->ij", x.a, x.b, other, {.threads = 2}, {.beta = 0.5, .strict = true});
    expect_same(mine, other);
    // There is no room for another one, or for the tiles at hand: said before anything is written.
    const auto was = checksum(mine);
    EXPECT_THROW(contract_into<double>("ik,kj->ij", x.a, x.b, mine, {.threads = 2, .memory = budget},
                                       {.beta = 0.5, .strict = true}),
                 BudgetError);
    const auto too_small = x.bytes(x.a) + x.bytes(x.b) + x.bytes(x.c);
    EXPECT_THROW(contract_into<double>("ik,kj->ij", x.a, x.b, mine, {.threads = 2, .memory = too_small}, {.beta = 0.5}),
                 BudgetError);
    EXPECT_EQ(checksum(mine), was);
}

TEST(InPlaceLarge, AnOperandMayBeC) {
    const Tiling side = Tiling::uniform(500, 90);
    const auto b = sparse<double>({side, side}, 1, 2), start = sparse<double>({side, side}, 1, 3);
    for (const double beta : {0.0, 2.0}) {
        auto c = start, d = start;
        contract_into<double>("ik,kj->ij", c, b, c, {}, {.beta = beta});
        contract_into<double>("ik,kj->ij", start, b, d, {}, {.beta = beta, .strict = true});
        expect_same(c, d);
        auto e = start, f = start;
        contract_into<double>("ik,kl,lj->ij", operands(b, b, e), e, {}, {.beta = beta});
        contract_into<double>("ik,kl,lj->ij", operands(b, b, start), f, {}, {.beta = beta, .strict = true});
        expect_same(e, f);
    }
}

TEST(InPlaceLarge, KeptPlansWorkInPlaceToo) {
    Large x;
    auto c = x.c, fresh = x.c;
    const auto planned = plan_into<double>("ik,kj->ij", x.a, x.b, c);
    for (int round = 0; round < 2; ++round) {
        const auto before = places(c);
        execute_into<double>(planned, x.a, x.b, c);
        EXPECT_EQ(places(c), before);
    }
    contract_into<double>("ik,kj->ij", x.a, x.b, fresh, {}, {.strict = true});
    expect_same(c, fresh);
}

TEST(InPlaceLarge, AKeptPlanTakesACOfOtherTiles) {
    Large x;
    for (const double beta : {0.0, 3.0}) {
        auto full = x.c;
        const auto planned = plan_into<double>("ik,kj->ij", x.a, x.b, full, {}, {.beta = beta});
        const auto few = sparse<double>(x.c.grid(), 0.3, 4);
        auto c = few, d = few;
        execute_into<double>(planned, x.a, x.b, c);
        contract_into<double>("ik,kj->ij", x.a, x.b, d, {}, {.beta = beta, .strict = true});
        expect_same(c, d);
    }
}

TEST(InPlaceErrors, ACallThatIsWrongLeavesC) {
    Large x;
    auto c = x.c;
    const auto was = checksum(c);
    const auto other = sparse<double>({Tiling{599}, x.side}, 1, 1);
    EXPECT_THROW(contract_into<double>("ki,kj->ij", other, x.b, c), UserError);
    EXPECT_THROW(contract_into<double>("ik,kj->ij", x.a, x.b, c, {.memory = 1000}), BudgetError);
    EXPECT_THROW(
        contract_into<double>("ik,kj->ij", x.a, x.b, c, {}, {.alpha = std::numeric_limits<double>::infinity()}),
        UserError);
    EXPECT_EQ(checksum(c), was);
}

TEST(InPlaceErrors, WorkThatFailsMakesCZeroUnlessStrict) {
    Large x;
    x.a.update_tiles([](const IndexVector&, double v) { return 1e300 * v; });
    for (const double beta : {0.0, 1.0})
        for (const bool strict : {false, true}) {
            auto c = x.c;
            const auto was = checksum(c);
            const ContractOptions options{.alpha = 1e300, .beta = beta, .strict = strict};
            try {
                contract_into<double>("ik,kj->ij", x.a, x.b, c, {.threads = 2}, options);
                FAIL() << "nothing was thrown";
            } catch (const UserError& e) {
                const std::string text = e.what();
                EXPECT_NE(text.find("NaN or infinity"), text.npos) << text;
                EXPECT_EQ(text.find("is zero now") != text.npos, !strict) << text;
                EXPECT_EQ(text.find('\n'), text.npos);
            }
            if (strict) {
                EXPECT_EQ(checksum(c), was);
            } else {
                EXPECT_EQ(norm(c), 0);
                for (std::int64_t s = 0; s < c.tile_count(); ++s)
                    for (const double v : c.tile(s)) ASSERT_EQ(v, 0);
            }
        }
}

TEST(InPlaceErrors, AProgressFunctionThatThrows) {
    Large x;
    struct Stop {};
    for (const bool strict : {false, true}) {
        auto c = x.c;
        const auto was = checksum(c);
        const Watch watch{[](double, double) { throw Stop(); }};
        EXPECT_THROW(contract_into<double>("ik,kj->ij", x.a, x.b, c, {.threads = 2}, {.strict = strict}, {}, watch),
                     Stop);
        if (strict)
            EXPECT_EQ(checksum(c), was);
        else
            EXPECT_EQ(norm(c), 0);
    }
}

}  // namespace
}  // namespace tessera
