// The published rules of stationary_b (Herault et al., IPDPS 2021, section III), each by itself; and random plans with
// everything that can be asked for, up to 4,608 devices.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "inspect/device_blocks.hpp"
#include "machine/device_layout.hpp"
#include "support/fewer.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using testing::any_options;
using testing::Case;
using testing::many_ranks;
using testing::plan_of;
using testing::Random;
using testing::random_case;
using testing::random_shape;
using testing::random_tiling;

/// Many columns of different weights.
Case wide_case(Random& r) {
    Case c;
    const auto p = random_tiling(r, 8, 60), k = random_tiling(r, 20, 60);
    c.a = random_shape(r, {p, k}, 0.7);
    c.b = random_shape(r, {k, random_tiling(r, 60, 60)}, 0.5);
    c.request.how.algorithm = Algorithm::stationary_b;
    c.request.how.deal = Deal::mirrored;
    c.request.spec = &c.spec;
    c.request.a = &c.a;
    c.request.b = &c.b;
    return c;
}

TEST(StationaryB, ColumnsAreDealtByFlopsInMirroredCyclicOrder) {
    Random r(41);
    for (int trial = 0; trial < 60; ++trial) {
        auto c = wide_case(r);
        const int q = 1 + static_cast<int>(r() % 6);
        c.machine.ranks = q;
        c.request.how.grid_rows = 1;
        c.request.how.grid_cols = q;
        const Plan plan = plan_of(c);
        validate(plan);
        // Flops and rank of every column of C.
        std::map<std::int64_t, double> flops;
        std::map<std::int64_t, std::set<int>> ranks;
        for (const auto& chain : plan.chains) {
            const auto& sum = plan.sums[chain.sum];
            const auto at = plan.c.grid().coordinates(plan.c.tile(sum.c));
            ranks[at[1]].insert(sum.rank);
            if (chain.part != 0) continue;
            for (auto p = chain.first_product; p < chain.first_product + chain.products; ++p)
                flops[at[1]] += 2.0 *
                                static_cast<double>(plan.a.grid().tile_elements(plan.a.tile(plan.products[p].a))) *
                                static_cast<double>(plan.b.grid().tile_extents(plan.b.tile(plan.products[p].b))[1]);
        }
        std::vector<std::int64_t> order;
        for (const auto& [column, f] : flops) order.push_back(column);
        std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return flops[x] > flops[y]; });
        for (std::size_t i = 0; i < order.size(); ++i) {
            const auto turn = static_cast<int>(i % (2 * static_cast<std::size_t>(q)));
            ASSERT_EQ(ranks[order[i]], std::set<int>{turn < q ? turn : 2 * q - 1 - turn}) << trial << " column " << i;
        }
    }
}

TEST(StationaryB, BlocksByWorstFitAndChunksOneTilePerRowInTurn) {
    Random r(42);
    int several_blocks = 0, several_chunks = 0;
    for (int trial = 0; trial < 60; ++trial) {
        auto c = wide_case(r);
        c.machine.devices_per_rank = 1 + static_cast<int>(r() % 4);
        c.request.how.blocks = Blocks::worst_fit;
        c.request.device_memory = 1;
        try {
            plan_of(c);
            continue;  // nothing to do
        } catch (const BudgetError& e) {
            c.request.device_memory = e.smallest_bytes() + static_cast<std::int64_t>(r() % 400'000);
        }
        const auto memory = c.request.device_memory - device_reserve_bytes(c.request.device_memory);
        const Inspection in(c.request, c.machine);
        std::vector<std::int32_t> sums;
        for (std::size_t i = 0; i < in.sums.size(); ++i)
            if (in.sums[i].first < in.sums[i].last) sums.push_back(static_cast<std::int32_t>(i));
        const auto cut = cut_for_devices(in, sums);
        ASSERT_EQ(cut.blocks, Blocks::worst_fit);
        // Columns by bytes (B and C), the largest first, each into the emptiest block.
        std::map<std::int32_t, std::int64_t> bytes;
        std::set<std::pair<std::int32_t, std::int32_t>> seen;
        for (auto i : sums) {
            const auto& s = in.sums[i];
            bytes[in.col[s.c]] += in.bytes_on_device(Operand::c)[s.c];
            for (auto p = s.first; p < s.last; ++p)
                if (const auto t = in.tile_of(Operand::b, p); seen.insert({in.col[s.c], t}).second)
                    bytes[in.col[s.c]] += in.bytes_on_device(Operand::b)[t];
        }
        std::size_t fewest = SIZE_MAX, most = 0;
        std::map<std::int32_t, int> blocks_of_column;
        std::int64_t largest_column = 0, largest_tile = 0;  // of B and C together; of A, where one has to fit
        for (auto i : sums)
            for (auto p = in.sums[i].first; p < in.sums[i].last; ++p)
                largest_tile = std::max(largest_tile, in.bytes_on_device(Operand::a)[in.tile_of(Operand::a, p)]);
        for (const auto& [column, b] : bytes) largest_column = std::max(largest_column, b);
        for (const auto& d : cut.devices) {
            fewest = std::min(fewest, d.blocks.size());
            most = std::max(most, d.blocks.size());
            ASSERT_LE(d.total(), memory);
            for (const auto& block : d.blocks) {
                ASSERT_LE(block.bytes, std::max(memory / 2, largest_column));
                std::set<std::int32_t> columns;
                std::int64_t all = 0;
                for (auto i : block.sums) columns.insert(in.col[in.sums[i].c]);
                for (auto column : columns) {
                    ++blocks_of_column[column];
                    all += bytes[column];
                }
                ASSERT_EQ(all, block.bytes);
                // The n-th tile of A of every row before the next of any; no chunk above a quarter but for one tile.
                std::map<std::int32_t, int> turn;
                int now = 0;
                for (const auto& chunk : block.chunks) {
                    std::int64_t filled = 0;
                    for (const auto& t : chunk.tiles) {
                        ASSERT_EQ(t.operand, Operand::a);
                        const auto row =
                            static_cast<std::int32_t>(in.request.a->grid().coordinates(in.request.a->tile(t.slot))[0]);
                        if (!t.resident) filled += t.bytes;
                        if (t.resident) continue;
                        const int n = turn[row]++;
                        ASSERT_GE(n, now) << trial;
                        now = n;
                    }
                    ASSERT_LE(filled, std::max(memory / 4, largest_tile));
                }
                several_chunks += block.chunks.size() > 2;
            }
        }
        for (const auto& [column, n] : blocks_of_column) ASSERT_EQ(n, 1) << "column " << column;
        ASSERT_EQ(blocks_of_column.size(), bytes.size());
        ASSERT_LE(most - fewest, 1u) << "a device is more than a block ahead";
        several_blocks += most > 1;
        // The same blocks as a fit done by hand.
        std::vector<std::int32_t> order;
        for (const auto& [column, b] : bytes) order.push_back(column);
        std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return bytes[x] > bytes[y]; });
        const auto worst = worst_fit(in, sums, c.machine.devices_per_rank, {memory / 2, SIZE_MAX, SIZE_MAX});
        if (largest_column > memory / 2) continue;
        std::vector<std::int64_t> open(static_cast<std::size_t>(c.machine.devices_per_rank));
        std::vector<std::vector<std::int32_t>> filled(open.size()), expected;
        const auto close = [&] {
            for (std::size_t d = 0; d < open.size(); ++d) {
                std::sort(filled[d].begin(), filled[d].end());
                if (!filled[d].empty()) expected.push_back(std::exchange(filled[d], {}));
                open[d] = 0;
            }
        };
        for (auto column : order) {
            auto d = std::min_element(open.begin(), open.end()) - open.begin();
            if (open[d] + bytes[column] > memory / 2) {
                close();
                d = 0;
            }
            open[d] += bytes[column];
            filled[d].push_back(column);
        }
        close();
        std::vector<std::vector<std::int32_t>> found;
        for (const auto& b : worst) {
            std::set<std::int32_t> columns;
            for (auto i : b.sums) columns.insert(in.col[in.sums[i].c]);
            found.emplace_back(columns.begin(), columns.end());
        }
        EXPECT_EQ(found, expected) << trial;
    }
    EXPECT_GT(several_blocks, 5);
    EXPECT_GT(several_chunks, 5);
}

/// Tiles that no surviving product of the receiver needs are neither sent nor made; all that are needed come once.
void only_what_is_needed(const Plan& plan) {
    std::set<std::tuple<int, int, std::int32_t>> needed, came;
    for (const auto& chain : plan.chains)
        for (auto p = chain.first_product; p < chain.first_product + chain.products; ++p) {
            needed.insert({plan.sums[chain.sum].rank, 0, plan.products[p].a});
            needed.insert({plan.sums[chain.sum].rank, 1, plan.products[p].b});
        }
    for (const auto& s : plan.steps)
        if (s.kind == StepKind::receive || (s.kind == StepKind::make))
            for (auto i = s.begin; i < s.end; ++i) {
                const std::tuple tile{s.rank, static_cast<int>(plan.arrivals[i].operand), plan.arrivals[i].slot};
                ASSERT_TRUE(needed.count(tile));
                ASSERT_TRUE(came.insert(tile).second) << "twice";
            }
}

TEST(RandomPlans, WithAllThatCanBeAskedFor) {
    Random r(43);
    int planned = 0, filtered = 0, given = 0, added = 0, kinds[4] = {};
    for (int trial = 0; trial < 1500; ++trial) {
        auto c = random_case(r);
        any_options(r, c);
        many_ranks(r, c, 7, 4);
        Plan plan;
        try {
            plan = plan_of(c);
        } catch (const UserError&) {
            continue;
        }
        ASSERT_NO_THROW(validate(plan)) << trial << "\n" << explain(plan);
        only_what_is_needed(plan);
        ++planned;
        filtered += plan.filter > 0 && plan.counts.left_out_bound > 0;
        given += c.has_given;
        added += c.has_old;
        ++kinds[static_cast<int>(plan.scalar)];
    }
    EXPECT_GT(planned, 900);
    EXPECT_GT(filtered, 100);
    EXPECT_GT(given, 200);
    EXPECT_GT(added, 200);
    for (int n : kinds) EXPECT_GT(n, 100);
}

TEST(RandomPlans, UpTo4608Devices) {
    Random r(44);
    int most = 0, planned = 0, of_most = 0, thousands = 0;
    for (int trial = 0; trial < 2000 / kFewer; ++trial) {
        auto c = random_case(r);
        if (c.a.grid().rank() == 2) {
            const auto k = random_tiling(r, 12, 60);
            c.a = random_shape(r, {random_tiling(r, 60, 60), k}, 0.4);
            c.b = random_shape(r, {k, random_tiling(r, 60, 60)}, 0.4);
            c.spec = ContractionSpec("pk,kq->pq");
        }
        any_options(r, c);
        const int devices = trial % 8 == 0 ? 4608 : 100 << r() % 6;
        c.machine.devices_per_rank = trial % 8 == 0 || r() % 2 ? 6 : 1;
        c.machine.ranks = devices / c.machine.devices_per_rank;
        c.machine.device.memory = 1LL << 30;
        if (c.request.source_b == SourceKind::host_made && r() % 2) c.request.source_b = SourceKind::device_made;
        c.request.how.algorithm = trial % 3 == 0   ? Algorithm::stationary_b
                                  : trial % 3 == 1 ? Algorithm::outer_product
                                                   : Algorithm::replicate_b;
        Plan plan;
        try {
            plan = plan_of(c);
        } catch (const UserError&) {
            continue;
        }
        ASSERT_NO_THROW(validate(plan)) << trial;
        only_what_is_needed(plan);
        const int all = plan.ranks * plan.devices_per_rank;
        most = std::max(most, all);
        ++planned;
        of_most += all == 4608;
        thousands += all >= 1000;
    }
    EXPECT_EQ(most, 4608);
    EXPECT_GT(planned, 1800 / kFewer);
    EXPECT_GT(of_most, 150 / kFewer);
    EXPECT_GT(thousands, 500 / kFewer);
}

}  // namespace
}  // namespace tessera
