// Ranks whose memory has no room for all the tiles they need of others: these pass through a ring. The same bits as one
// rank, and no byte above the budget.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/back_end.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

using Random = std::mt19937_64;

Shape some_tiles(Random& r, const TileGrid& grid, unsigned tenths) {
    std::vector<ShapeEntry> e;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (r() % 10 < tenths) e.push_back({TileOrdinal{o}, 1.0});
    return Shape(grid, std::move(e));
}

Tiling odd_tiles(Random& r, int tiles, int most) {
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < tiles; ++i) sizes.push_back(1 + static_cast<std::int64_t>(r() % static_cast<unsigned>(most)));
    return Tiling::from_sizes(sizes);
}

std::int64_t own_bytes(const Plan& plan) {
    std::int64_t most = 0;
    for (const auto& n : plan.rank_counts) most = std::max(most, n.stored_a + n.stored_b + n.stored_c);
    return most;
}

/// The bytes that would do, of a refusal of one byte of a host's or a device's memory.
template <Scalar T>
std::int64_t smallest(std::int64_t Resources::*memory, const Tensor<T>& a, const ContractOperand<T>& b, Resources here,
                      const PlanOptions& how) {
    here.*memory = 1;
    try {
        plan<T>("ik,kj->ij", a, b, here, {}, how);
    } catch (const BudgetError& e) {
        return e.smallest_bytes();
    }
    return 0;
}

/// Of a device: what comes for one turn is in the ring at once.
template <Scalar T>
std::int64_t for_many_turns(const Tensor<T>& a, const ContractOperand<T>& b, const Resources& here,
                            const PlanOptions& how) {
    return 2 * smallest<T>(&Resources::device_memory, a, b, here, how);
}

template <Scalar T>
void through_a_ring(std::uint64_t seed, int trials) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(seed);
    Communicator& ranks = mpi_world();
    int streamed = 0, again = 0;
    const int side = testing::on_device ? 30 : 9;  // what a device needs besides is not to be most of its memory
    for (int trial = 0; trial < testing::trials(trials); ++trial) {
        const bool is_long = trial % 5 == 3;  // k in several segments
        const auto m = odd_tiles(r, is_long ? 3 : 14, side), n = odd_tiles(r, is_long ? 2 : 12, side),
                   k = odd_tiles(r, is_long ? 60 : 15, side);
        const unsigned tenths = trial % 2 ? 4 : 10;
        const auto sa = some_tiles(r, {m, k}, tenths), sb = some_tiles(r, {k, n}, tenths);
        const auto a1 = Tensor<T>::random(sa, seed), b1 = Tensor<T>::random(sb, seed + 1);
        const auto a = Tensor<T>::random(sa, seed, 0, {ranks, Distribution::even(sa.grid(), ranks.size())});
        const auto b = Tensor<T>::random(sb, seed + 1, 0, {ranks, Distribution::even(sb.grid(), ranks.size())});
        const GeneratedTensor<T> made_b{b1.shape(), [&](const TileInfo& info, std::span<T> tile) {
                                            std::ranges::copy(b1.tile(info.coordinates), tile.begin());
                                        }};
        const bool made = trial % 4 == 2;
        const ContractOperand<T> second = made ? ContractOperand<T>(made_b) : ContractOperand<T>(b);
        constexpr Algorithm all[] = {Algorithm::outer_product, Algorithm::automatic, Algorithm::stationary_b};
        PlanOptions how;
        how.algorithm = all[trial % 3];
        auto here = testing::back_end_resources();
        here.threads = 1 + trial % 2;
        const auto want = contract<T>("ik,kj->ij", a1, b1, here);
        if (testing::on_device) here.device_memory = for_many_turns<T>(a, second, here, how);
        const auto whole = plan<T>("ik,kj->ij", a, second, here, {}, how);
        how.algorithm = whole.plan().algorithm;
        const auto least = smallest<T>(&Resources::memory, a, second, here, how);
        const auto most = whole.plan().counts.peak_host_bytes;
        ASSERT_GT(least, 0);
        ASSERT_LE(least, most);
        for (const auto memory : {least, (least + most) / 2, most}) {
            here.memory = memory;
            const auto planned = plan<T>("ik,kj->ij", a, second, here, {}, how);
            validate(planned.plan(), {memory, 0});
            const auto got = execute<T>(planned, a, second);
            ASSERT_EQ(checksum(got.tensor), checksum(want.tensor)) << "trial " << trial << ", " << memory << " bytes";
            EXPECT_LE(got.report.peak_host_bytes, memory);
            const auto& mine = planned.plan().rank_counts[static_cast<std::size_t>(ranks.rank())];
            EXPECT_EQ(got.report.rank_sent_bytes, mine.sent_bytes);
            EXPECT_EQ(got.report.rank_received_bytes, mine.received_bytes);
            streamed += planned.plan().streams.ranks > 0;
            again += planned.plan().counts.sent_bytes > whole.plan().counts.sent_bytes;
        }
        here.memory = least - 1;
        // Devices could hand the result over, which a plan alone cannot know.
        EXPECT_THROW((contract<T>("ik,kj->ij", a, second, here, {}, how)), BudgetError);
    }
    if (ranks.size() > 1 && trials >= 20) {
        EXPECT_GT(streamed, testing::trials(trials) / 4);
        EXPECT_GE(again, testing::trials(trials) / 8);
    }
}

TEST(RingAcrossRanks, SameBitsFloat64) { through_a_ring<double>(5, 20); }
TEST(RingAcrossRanks, SameBitsComplex64) { through_a_ring<std::complex<float>>(6, 8); }

/// With 1.3 times the largest rank's own tiles of A, B and C it runs; with 1.0 times it is refused with what would do.
TEST(RingAcrossRanks, NotMuchMoreThanItsOwnTiles) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Communicator& ranks = mpi_world();
    Random r(9);
    for (const bool dense : {true, false}) {
        const auto t = dense ? Tiling::uniform(480, 24) : odd_tiles(r, 24, 40);
        const auto sa = some_tiles(r, {t, t}, dense ? 10 : 4), sb = some_tiles(r, {t, t}, dense ? 10 : 4);
        const auto a1 = Tensor<double>::random(sa, 1), b1 = Tensor<double>::random(sb, 2);
        const Placement where(ranks, Distribution::even(sa.grid(), ranks.size()));
        const auto a = Tensor<double>::random(sa, 1, 0, where), b = Tensor<double>::random(sb, 2, 0, where);
        auto here = testing::back_end_resources();
        here.threads = 1;
        const auto want = contract<double>("ik,kj->ij", a1, b1, here);
        PlanOptions how;  // where the result lies decides who has how much of his own
        how.algorithm = Algorithm::outer_product;
        if (testing::on_device) here.device_memory = for_many_turns<double>(a, b, here, how);
        const auto own = own_bytes(plan<double>("ik,kj->ij", a, b, here, {}, how).plan());
        here.memory = own * 13 / 10;
        const auto planned = plan<double>("ik,kj->ij", a, b, here, {}, how);
        const auto got = execute<double>(planned, a, b);
        EXPECT_EQ(checksum(got.tensor), checksum(want.tensor));
        EXPECT_LE(got.report.peak_host_bytes, here.memory);
        if (ranks.size() == 1) continue;
        here.memory = own;
        try {
            contract<double>("ik,kj->ij", a, b, here, {}, how);
            ADD_FAILURE() << "not refused";
        } catch (const BudgetError& e) {
            EXPECT_GT(e.smallest_bytes(), own);
            here.memory = e.smallest_bytes();
        }
        EXPECT_EQ(checksum(contract<double>("ik,kj->ij", a, b, here, {}, how).tensor), checksum(want.tensor));
    }
}

}  // namespace
}  // namespace tessera
