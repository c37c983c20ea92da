// What may be asked of the planner: algorithms and blocks by name, and the memory it may take itself.

#include "tessera/plan/plan_options.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "inspect/algorithms.hpp"
#include "support/plan_cases.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using testing::kAlgorithms;
using testing::SquareProduct;

std::string message_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

/// Every name that can be asked for has a row, by which it is weighed on many ranks and listed on one.
TEST(Plan, EveryAlgorithmIsWeighed) {
    std::set<Algorithm> rows, weighed[2];
    for (const auto& row : algorithms()) rows.insert(row.algorithm);
    for (const auto algorithm : kAlgorithms) EXPECT_EQ(rows.count(algorithm), algorithm != Algorithm::automatic);
    EXPECT_EQ(rows.size() + 1, std::size(kAlgorithms));
    std::string names;
    for (const auto algorithm : kAlgorithms) names += (names.empty() ? "" : ", ") + std::string(name(algorithm));
    EXPECT_EQ(message_of([] { parse_algorithm("fast"); }), "algorithm 'fast': one of " + names);
    SquareProduct product(64, 8);
    for (const int ranks : {1, 4}) {
        product.machine.ranks = ranks;
        for (const auto& c : product.plan().candidates) weighed[ranks > 1].insert(c.algorithm);
    }
    for (const auto& w : weighed) EXPECT_EQ(w, rows);
}

/// The planner asks no machine: what a plan may take is a number of the request.
TEST(Plan, TakesNoMoreThanThePlanningMemory) {
    SquareProduct product(640, 8);  // 512,000 products
    product.request.planning_memory = 1'000'000;
    EXPECT_EQ(
        message_of([&] { product.plan(); }),
        "contraction 'ij,jk->ik': 512000 tile products, whose plan takes about 15.6 MiB; this machine has 977 KiB: "
        "larger tiles make fewer");
    product.request.planning_memory = 512'000 * 32;
    EXPECT_EQ(product.plan().products.size(), 512'000u);
}

TEST(PlanOptions, NamesAreParsedBack) {
    for (const auto a : kAlgorithms) EXPECT_EQ(parse_algorithm(name(a)), a);
    for (const auto b : {Blocks::automatic, Blocks::columns, Blocks::patches, Blocks::worst_fit})
        EXPECT_EQ(parse_blocks(name(b)), b);
    EXPECT_EQ(message_of([] { parse_blocks("strips"); }), "blocks 'strips': one of auto, columns, patches, worst_fit");
    EXPECT_EQ(names({Blocks::stay, Blocks::columns}), "stay, columns");
    SquareProduct product(16, 4);
    product.request.how.blocks = Blocks::strips;
    EXPECT_EQ(message_of([&] { product.plan(); }), "blocks 'strips' are the planner's own choice");
}

}  // namespace
}  // namespace tessera
