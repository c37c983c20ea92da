#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "base/check.hpp"
#include "base/memory_limit.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "tessera/base/ids.hpp"

namespace tessera {
namespace {

TEST(Check, MessagesCarryTheirOperands) {
    try {
        require(false, "tile {} of {}", 3, 2);
        FAIL();
    } catch (const UserError& e) {
        EXPECT_STREQ(e.what(), "tile 3 of 2");
        EXPECT_EQ(e.exit_code(), 2);
    }
    EXPECT_THROW(ensure(false, "x"), InternalError);
}

TEST(Units, BytesHaveLiterals) {
    static_assert(8_GiB == std::int64_t{8} << 30 && 16_MiB == 16 << 20 && 1_KiB == 1024 &&
                  2_TiB == std::int64_t{2} << 40);
    static_assert(2_kB == 2000 && 3_MB == 3'000'000 && 1_GB == 1'000'000'000 && 1_TB == 1'000'000'000'000);
    static_assert(1.5_GiB == 3 * (std::int64_t{1} << 29) && 0.5_kB == 500 && 0_GiB == 0);
    EXPECT_EQ(parse_bytes("1.5GiB"), 1.5_GiB);
    EXPECT_EQ(parse_bytes("16 MB"), 16_MB);
    EXPECT_EQ(format_bytes(1.5_GiB), "1.50 GiB");
}

TEST(Units, OneLineShowsControlCharacters) {
    EXPECT_EQ(one_line("a\nb\tc\r\x1b[0m\x7f"), "a\\nb\\tc\\r\\x1b[0m\\x7f");
    EXPECT_EQ(one_line("\xc3\xbc"), "\xc3\xbc");  // names in UTF-8 stay as they are
}

TEST(MemoryLimit, IsTheLeastOfTheControlGroups) {
    const auto root = std::filesystem::temp_directory_path() / "tessera-groups";
    std::filesystem::remove_all(root);
    const auto group = [&](const std::string& path, const char* file, const char* text) {
        std::filesystem::create_directories(root / path);
        std::ofstream(root / path / file) << text << "\n";
    };
    const auto limit = [&](const std::string& membership) { return control_group_memory(membership, root.string()); };
    EXPECT_EQ(limit(""), INT64_MAX);
    EXPECT_EQ(limit("0::/job\n"), INT64_MAX);  // no such folder
    group("job/step", "memory.max", "max");
    group("job", "memory.max", "8589934592");
    EXPECT_EQ(limit("0::/job/step\n"), 8_GiB);  // of the one around
    group("job/step", "memory.max", "4294967296");
    EXPECT_EQ(limit("0::/job/step\n"), 4_GiB);
    EXPECT_EQ(limit("0::/job\n"), 8_GiB);
    EXPECT_EQ(limit("0::/elsewhere\n"), INT64_MAX);
    group("", "memory.max", "17179869184");
    EXPECT_EQ(limit("0::/elsewhere\n"), 16_GiB);  // a container sees its own group as the root
    // Version 1.
    group("memory/docker/x", "memory.limit_in_bytes", "1073741824");
    group("memory", "memory.limit_in_bytes", "9223372036854771712");
    EXPECT_EQ(limit("5:devices:/\n4:memory:/docker/x\n"), 1_GiB);
    EXPECT_EQ(limit("4:cpu,memory:/docker/x\n"), 1_GiB);
    EXPECT_EQ(limit("4:memory:/\n"), INT64_MAX);
    EXPECT_EQ(limit("4:memory\nnonsense\n::\n"), 16_GiB);
    std::filesystem::remove_all(root);
}

TEST(Check, OverflowIsAUserError) {
    EXPECT_EQ(checked_multiply(1LL << 31, 1LL << 31, "n"), 1LL << 62);
    EXPECT_THROW(checked_multiply(1LL << 32, 1LL << 32, "n"), UserError);
    EXPECT_THROW(checked_add(INT64_MAX, 1, "n"), UserError);
}

TEST(Parallel, VisitsEachOnceAndCarriesExceptions) {
    for (int threads : {1, 2, 3, 8}) {
        std::vector<std::atomic<int>> seen(1000);
        parallel_for(1000, threads, 7, [&](std::int64_t i) { ++seen[i]; });
        for (auto& s : seen) EXPECT_EQ(s, 1);
        EXPECT_THROW(parallel_for(100, threads, 1, [](std::int64_t i) { require(i != 42, "i is {}", i); }), UserError);
        std::atomic<int> bodies{0};
        parallel_region(threads, [&](int, int team) {
            EXPECT_EQ(team, threads);
            ++bodies;
        });
        EXPECT_EQ(bodies, threads);
    }
}

TEST(Parallel, CallersAtOnceShareTheCores) {
    const int cores = resolve_threads(0);
    std::atomic<int> working{0}, most{0}, begun{0};
    constexpr int kCallers = 4;
    const auto caller = [&] {
        parallel_region(cores, [&](int thread, int team) {
            if (team > 1) {  // teams of one are the callers themselves
                const int now = ++working;
                for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
                }
                parallel_region(cores, [&](int, int inner) { EXPECT_EQ(inner, 1); });
            }
            if (thread == 0) ++begun;
            while (begun < kCallers) std::this_thread::yield();  // nobody leaves before all have come
            if (team > 1) --working;
        });
    };
    std::vector<std::thread> callers;
    for (int i = 0; i < kCallers; ++i) callers.emplace_back(caller);
    for (auto& c : callers) c.join();
    EXPECT_LE(most, cores);
    // Alone again: all that is asked for.
    std::atomic<int> bodies{0};
    parallel_region(cores + 3, [&](int, int) { ++bodies; });
    EXPECT_EQ(bodies, cores + 3);
}

}  // namespace
}  // namespace tessera
