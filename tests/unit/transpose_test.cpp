#include "tessera/kernels/transpose.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "kernels/transpose_tiles.hpp"
#include "tessera/base/error.hpp"
#include "transpose_cases.hpp"

namespace tessera::kernels {
namespace {

using testing::Extents;
using testing::Perm;
using testing::random_case;
using testing::random_value;
using Case = testing::TransposeCase;

const Isa kIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512};

template <class T>
void check(const Case& c, std::mt19937_64& rng, const TransposeTuning& tuning) {
    const auto offset = rng() % 17, guard = std::size_t{16};
    std::vector<T> in(static_cast<std::size_t>(c.in_span) + offset);
    for (auto& x : in) x = random_value<T>(rng);
    std::vector<T> before(static_cast<std::size_t>(c.out_span) + offset + guard);
    for (auto& x : before) x = random_value<T>(rng);

    const auto args = testing::random_arguments<T>(rng);
    auto expected = before;
    ref::transpose<T>(c.extents, c.permutation, in.data() + offset, expected.data() + offset, args.alpha, args.beta,
                      args.conjugate, c.in_strides, c.out_strides);
    const auto plan = plan_transpose(c.extents, c.permutation, sizeof(T), c.in_strides, c.out_strides, tuning);
    testing::on_each_isa(args, 4, rng, [&](const TransposeArguments<T>& with) {
        auto got = before;
        transpose(plan, in.data() + offset, got.data() + offset, with);
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)), 0)
            << name(*with.isa) << " threads " << with.threads << "\n"
            << describe(plan);
    });
}

template <class T>
class Transpose : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Transpose, Types);

TYPED_TEST(Transpose, RandomCasesMatchTheReference) {
    std::mt19937_64 rng(20260 + sizeof(TypeParam));
    for (int n = 0; n < 1500; ++n) {
        TransposeTuning tuning;
        // Small blocks and runs, so that small tensors meet cut indices and every kernel; streams half of the time.
        tuning.block_bytes = std::int64_t{64} << rng() % 12;
        tuning.run_bytes = std::int64_t{16} << rng() % 8;
        tuning.row_bytes = std::int64_t{16} << rng() % 8;
        tuning.stream_bytes = rng() % 2 ? 0 : 1 << 30;
        tuning.team_bytes = rng() % 4 ? 0 : 1 << 30;  // several threads for small tensors too
        check<TypeParam>(random_case(rng, n % 50 == 0 ? 200'000 : 6'000), rng, tuning);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(Transpose, LargerCasesWithTheDefaultTuning) {
    std::mt19937_64 rng(77 + sizeof(TypeParam));
    for (int n = 0; n < 40; ++n) {
        TransposeTuning tuning;
        if (n % 2) tuning.stream_bytes = 0;
        check<TypeParam>(random_case(rng, 400'000), rng, tuning);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(Transpose, InfinityIsOnlyMoved) {
    using T = TypeParam;
    const auto infinity = std::numeric_limits<RealOf<T>>::infinity();
    const Extents extents{5, 6};
    const Perm perm{1, 0};
    std::vector<T> in(30, T(1)), out(30, T(0));
    if constexpr (is_complex<T>)
        in[7] = T(infinity, 1);
    else
        in[7] = infinity;
    transpose<T>(extents, perm, in.data(), out.data(), {.conjugate = true});
    EXPECT_EQ(out[1 * 5 + 1], conjugate_if(in[7], true));
}

TYPED_TEST(Transpose, BetaZeroOverwritesNaN) {
    using T = TypeParam;
    const Extents extents{13, 7, 9};
    const Perm perm{2, 0, 1};
    std::vector<T> in(13 * 7 * 9, T(3)), out(in.size(), T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
    transpose<T>(extents, perm, in.data(), out.data());
    EXPECT_EQ(out, in);
    std::fill(out.begin(), out.end(), T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
    transpose<T>(extents, perm, in.data(), out.data(), {.alpha = T(2)});
    EXPECT_EQ(out, std::vector<T>(in.size(), T(6)));
}

TYPED_TEST(Transpose, CalledByManyThreadsAtOnce) {
    using T = TypeParam;
    const Extents extents{31, 17, 23, 5};
    const Perm perm{3, 1, 0, 2};
    std::mt19937_64 rng(5);
    std::vector<T> in(31 * 17 * 23 * 5), expected(in.size());
    for (auto& x : in) x = random_value<T>(rng);
    ref::transpose<T>(extents, perm, in.data(), expected.data());
    TransposePlanCache cache;
    std::vector<std::vector<T>> out(4, std::vector<T>(in.size()));
    std::vector<std::thread> team;
    for (auto& mine : out)
        team.emplace_back([&] { transpose<T>(*cache.get(extents, perm, sizeof(T)), in.data(), mine.data()); });
    for (auto& t : team) t.join();
    for (auto& mine : out) EXPECT_EQ(mine, expected);
    EXPECT_EQ(cache.size(), 1u);
}

TEST(TransposePlan, TheCacheKnowsRanksApart) {
    TransposePlanCache cache;
    cache.get(Extents{2, 3}, Perm{1, 0}, 8);
    EXPECT_THROW(cache.get(Extents{2, 3, 1}, Perm{0}, 8), UserError);
}

TEST(TransposePlan, EmptyScalarAndOneElement) {
    double in = 4, out = 0;
    transpose<double>({}, {}, &in, &out);
    EXPECT_EQ(out, 4);
    const Extents ones{1, 1, 1}, empty{3, 0, 5};
    const Perm perm{2, 0, 1};
    out = 0;
    transpose<double>(ones, perm, &in, &out);
    EXPECT_EQ(out, 4);
    EXPECT_EQ(plan_transpose(empty, perm, 8).kernel, TransposeKernel::empty);
    transpose<double>(empty, perm, nullptr, nullptr);
}

TEST(TransposePlan, FusesWhatStaysTogether) {
    const Extents extents{4, 1, 6, 8, 10};
    auto plan = plan_transpose(extents, Perm{3, 4, 1, 0, 2}, 8);
    ASSERT_EQ(plan.rank, 2);  // (8 10) and (4 6)
    EXPECT_EQ(plan.axis[0].extent, 80);
    EXPECT_EQ(plan.axis[1].extent, 24);
    EXPECT_EQ(plan.kernel, TransposeKernel::micro);
    plan = plan_transpose(extents, Perm{0, 1, 2, 3, 4}, 8);
    EXPECT_EQ(plan.rank, 1);
    EXPECT_EQ(plan.kernel, TransposeKernel::rows);
    // A leading dimension keeps the outer index apart.
    plan = plan_transpose(Extents{4, 6}, Perm{0, 1}, 8, Extents{9, 1}, {});
    EXPECT_EQ(plan.rank, 2);
    EXPECT_NE(describe(plan).find("rank 2"), std::string::npos);
    EXPECT_EQ(plan, plan_transpose(Extents{4, 6}, Perm{0, 1}, 8, Extents{9, 1}, {}));
}

TEST(TransposePlan, BadInputNamesTheValue) {
    const auto message = [](auto&& call) -> std::string {
        try {
            call();
        } catch (const UserError& e) {
            return e.what();
        }
        return "";
    };
    const auto has = [&](auto&& call, const char* text) {
        const auto m = message(call);
        EXPECT_NE(m.find(text), std::string::npos) << "'" << m << "' lacks '" << text << "'";
    };
    has([] { plan_transpose(Extents{2, 3}, Perm{0, 0}, 8); }, "[0, 0]");
    has([] { plan_transpose(Extents{2, 3}, Perm{0, 2}, 8); }, "[0, 2]");
    has([] { plan_transpose(Extents{2, 3}, Perm{0, -1}, 8); }, "[0, -1]");
    has([] { plan_transpose(Extents{2, 3}, Perm{0}, 8); }, "rank 2");
    has([] { plan_transpose(Extents{2, -3}, Perm{1, 0}, 8); }, "-3");
    has([] { plan_transpose(Extents{1LL << 40, 1LL << 40}, Perm{1, 0}, 8); }, "1099511627776");
    has([] { plan_transpose(Extents{1LL << 31, 1LL << 31}, Perm{1, 0}, 8); }, "does not fit");
    has([] { plan_transpose(Extents(17, 1), Perm(17, 0), 8); }, "17");
    has([] { plan_transpose(Extents{2, 3}, Perm{1, 0}, 12); }, "12");
    has([] { plan_transpose(Extents{2, 3}, Perm{1, 0}, 8, Extents{3, 0}, {}); }, "stride 0");
    has([] { plan_transpose(Extents{2, 3}, Perm{1, 0}, 8, {}, Extents{1, 1}); }, "output stride 1");
    has([] { plan_transpose(Extents{2, 3}, Perm{1, 0}, 8, Extents{-3, 1}, {}); }, "transpose: input stride -3");
    const auto tuned = [](std::int64_t block_bytes, const Perm& perm) {
        TransposeTuning tuning;
        tuning.block_bytes = block_bytes;
        return plan_transpose(Extents{300, 400}, perm, 8, {}, {}, tuning).blocks;
    };
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{15}})
        for (const Perm& perm : {Perm{0, 1}, Perm{1, 0}})
            has([&] { tuned(bytes, perm); }, fmt::format("block_bytes {} is less", bytes).c_str());
    const std::pair<std::int64_t TransposeTuning::*, std::string> fields[] = {
        {&TransposeTuning::run_bytes, "run_bytes"},
        {&TransposeTuning::row_bytes, "row_bytes"},
        {&TransposeTuning::stream_bytes, "stream_bytes"},
        {&TransposeTuning::team_bytes, "team_bytes"}};
    for (const auto& [field, name] : fields)
        for (const std::int64_t bytes : {-1, 0}) {
            if (bytes == 0 && (name == "stream_bytes" || name == "team_bytes")) continue;  // zero: always
            TransposeTuning tuning;
            tuning.*field = bytes;
            has(
                [&] {
                    plan_transpose(Extents{300, 400}, Perm{1, 0}, 8, {}, {}, tuning);
                },
                fmt::format("tuning.{} {}", name, bytes).c_str());
        }
    EXPECT_GT(tuned(16, Perm{0, 1}), 0);
    EXPECT_GT(tuned(16, Perm{1, 0}), 0);
    std::vector<double> data(20);
    const auto at = [&](std::size_t bytes) {
        return reinterpret_cast<double*>(reinterpret_cast<std::uintptr_t>(data.data()) + bytes);
    };
    for (const std::size_t off : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
        has([&] { transpose<double>(Extents{2, 4}, Perm{1, 0}, at(off), at(96)); }, "input at address");
        has([&] { transpose<double>(Extents{2, 4}, Perm{1, 0}, at(0), at(80 + off)); }, "output at address");
        has([&] { transpose<double>(Extents{2, 4}, Perm{1, 0}, at(0), at(80 + off)); }, "no multiple of 8");
    }
    // A pair needs only the alignment of its halves.
    using Z = std::complex<double>;
    EXPECT_NO_THROW(
        transpose<Z>(Extents{2, 2}, Perm{1, 0}, reinterpret_cast<const Z*>(at(8)), reinterpret_cast<Z*>(at(88))));
    has([&] { transpose<double>(Extents{3, 4}, Perm{1, 0}, data.data(), data.data() + 8); }, "overlap");
    has([&] { transpose<double>(Extents{3, 4}, Perm{1, 0}, data.data(), nullptr); }, "null output");
    has([&] { transpose(plan_transpose(Extents{3, 2}, Perm{1, 0}, 4), data.data(), data.data() + 8); }, "4 bytes");
}

TEST(TransposePlan, TrafficPast64BitsIsTheLargestNumber) {
    const std::int64_t large = 1LL << 29;
    for (const auto& [extents, perm] : {std::pair{Extents{2 * large, large}, Perm{1, 0}},
                                        {Extents{large, 2 * large}, Perm{0, 1}},
                                        {Extents{1LL << 59, 1}, Perm{1, 0}}}) {
        const auto plan = plan_transpose(extents, perm, 8);
        EXPECT_EQ(plan.volume, 1LL << 59);
        EXPECT_GT(plan.predicted_bytes, 1LL << 62);
        EXPECT_FALSE(describe(plan).empty());
    }
    EXPECT_EQ(plan_transpose(Extents{2 * large, large}, Perm{1, 0}, 8, {}, Extents{2 * large + 7, 1}).predicted_bytes,
              std::numeric_limits<std::int64_t>::max());
}

/// What the device kernels do, on the host: tiles one after the other, through slots.
void run_tiles(const TileTables& t, const double* in, double* out) {
    std::vector<double> shared(t.slots);
    for (std::int64_t tile = 0; tile < t.tiles; ++tile) {
        std::int64_t from = 0, to = 0;
        std::uint32_t limit[2] = {1, 1};
        for (std::size_t i = 0; i < t.loops.size(); ++i) {
            const auto& l = t.loops[i];
            const auto at = static_cast<std::int64_t>(tile / l.period % l.count);
            from += at * l.in_step;
            to += at * l.out_step;
            if (i < 2) limit[i] = static_cast<std::uint32_t>(std::min<std::int64_t>(l.block, l.extent - at * l.block));
        }
        const auto inside = [&](std::uint32_t c) { return (c & 0xffff) < limit[0] && c >> 16 < limit[1]; };
        if (t.direct) {
            for (std::uint32_t e = 0; e < t.volume; ++e)
                if (inside(t.in_coordinate[e])) out[to + t.out_offset[e]] = in[from + t.in_offset[e]];
            continue;
        }
        // As the hardware does: words start at multiples of their size, on the device and in shared memory.
        for (std::size_t a = 0; a < t.in_offset.size(); ++a) {
            if (!inside(t.in_coordinate[a])) continue;
            ASSERT_EQ((from + t.in_offset[a]) % t.in_word, 0);
            ASSERT_EQ(t.store[a] % t.in_word, 0);
            for (int i = 0; i < t.in_word; ++i) shared[t.store[a] + i] = in[from + t.in_offset[a] + i];
        }
        for (std::size_t a = 0; a < t.out_offset.size(); ++a) {
            if (!inside(t.out_coordinate[a])) continue;
            ASSERT_EQ((to + t.out_offset[a]) % t.out_word, 0);
            for (int i = 0; i < t.out_word; ++i) out[to + t.out_offset[a] + i] = shared[t.load[a * t.out_word + i]];
        }
    }
}

TEST(TransposeTiles, TablesMatchTheReference) {
    std::mt19937_64 rng(99);
    int direct = 0, ragged = 0, in_words = 0, out_words = 0, both = 0;
    for (int n = 0; n < 3000; ++n) {
        const Case c = random_case(rng, n % 20 == 0 ? 100'000 : 5'000);
        std::vector<double> in(static_cast<std::size_t>(c.in_span)), expected(static_cast<std::size_t>(c.out_span), -1);
        for (auto& x : in) x = random_value<double>(rng);
        auto got = expected;
        ref::transpose<double>(c.extents, c.permutation, in.data(), expected.data(), 1, 0, false, c.in_strides,
                               c.out_strides);
        const auto plan = plan_transpose(c.extents, c.permutation, 8, c.in_strides, c.out_strides);
        // The tables do not know what an element is: words of two, and of four as for floats.
        const auto t =
            make_tiles(plan, std::int64_t{16} << rng() % 9, std::int64_t{32} << rng() % 6, 256, 8 << rng() % 3);
        run_tiles(t, in.data(), got.data());
        if (HasFatalFailure()) FAIL() << describe(t.plan);
        ASSERT_EQ(got, expected) << describe(t.plan);
        direct += t.direct;
        in_words += t.in_word > 1;
        out_words += t.out_word > 1;
        both += t.in_word > 1 && t.out_word > 1;
        ragged += !t.loops.empty() && t.loops[0].extent % t.loops[0].block != 0;
    }
    EXPECT_GT(direct, 50);
    EXPECT_GT(ragged, 200);
    EXPECT_GT(in_words, 100);
    EXPECT_GT(out_words, 100);
    EXPECT_GT(both, 50);
}

TEST(TransposeTiles, WidenedWordsMoveTheSameBytes) {
    const Extents extents{5, 7, 6};
    const auto plan = plan_transpose(extents, Perm{1, 0, 2}, 8);
    const auto wide = widen(plan);
    ASSERT_EQ(wide.element_bytes, 16);
    EXPECT_EQ(wide.volume * 16, plan.volume * 8);
    EXPECT_EQ(wide.axis[plan.rank - 1].extent, 3);
    EXPECT_EQ(wide.axis[0].in_stride * 2, plan.axis[0].in_stride);
    EXPECT_EQ(widen(plan_transpose(extents, Perm{2, 0, 1}, 8)).element_bytes, 8);
    EXPECT_EQ(widen(plan_transpose(Extents{5, 7, 3}, Perm{1, 0, 2}, 8)).element_bytes, 8);
    EXPECT_EQ(widen(plan_transpose(Extents{5, 7, 8}, Perm{1, 0, 2}, 4)).element_bytes, 16);
}

TEST(TransposeTiles, SharedMemoryConflictsAreFew) {
    // A square transpose of a power of two would hit one bank 16 times without padding.
    const auto t = make_tiles(plan_transpose(Extents{1024, 1024}, Perm{1, 0}, 8), 4096, 512, 512, 8);
    EXPECT_EQ(t.volume, 4096u);
    EXPECT_LT(t.conflicts, 1.2);
    // A word's elements lie side by side, so lanes that gather the same one of each word share half the banks.
    const auto w = make_tiles(plan_transpose(Extents{1024, 1024}, Perm{1, 0}, 8), 4096, 512, 512, 16);
    EXPECT_EQ(w.in_word, 2);
    EXPECT_EQ(w.out_word, 2);
    EXPECT_LT(w.conflicts, 1.6);
}

TEST(TransposePlan, PlanningIsQuick) {
    const Extents extents{9, 11, 10, 8, 12, 9, 10, 11};
    Perm perm{7, 2, 5, 0, 3, 6, 1, 4};
    std::int64_t sum = 0;
    double best = 1e9;
    for (int round = 0; round < 50; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 20; ++i) sum += plan_transpose(extents, perm, 8).blocks;
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 20);
    }
    EXPECT_GT(sum, 0);
    EXPECT_LT(best, 20e-6);
}

}  // namespace
}  // namespace tessera::kernels
