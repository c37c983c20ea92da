// The tile product against its definition, bit by bit: any layout, chain, cut and instruction set gives the same sum.

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "kernels/cpu/gemm_driver.hpp"
#include "kernels/gemm.hpp"
#include "support/fewer.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera::kernels {
namespace {

using Rng = std::mt19937_64;

std::int64_t pick(Rng& rng, std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
}

template <Scalar T>
T random_value(Rng& rng) {
    using R = RealOf<T>;
    const auto real = [&]() -> R {
        const auto kind = pick(rng, 0, 30);
        if (kind == 0) return R(0);
        if (kind == 1) return -R(0);
        return static_cast<R>(std::uniform_real_distribution<double>(-1, 1)(rng));
    };
    if constexpr (is_complex<T>)
        return {real(), real()};
    else
        return real();
}

std::vector<Isa> isas() {
    std::vector<Isa> all{Isa::scalar};
    for (const Isa isa : {Isa::avx2, Isa::avx512})
        if (isa <= detected_isa()) all.push_back(isa);
    return all;
}

/// Two groups of extents laid out in memory in a random order of axes, with or without gaps.
struct Placed {
    MatrixLayout layout;
    std::int64_t elements = 0;
};

Placed place(Rng& rng, const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& cols, int style) {
    std::vector<std::int64_t> extents(rows);
    extents.insert(extents.end(), cols.begin(), cols.end());
    std::vector<std::size_t> order(extents.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style == 1) std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(rows.size()), order.end());
    if (style >= 2) std::shuffle(order.begin(), order.end(), rng);
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t step = style == 3 ? pick(rng, 1, 2) : 1;
    for (std::size_t i = order.size(); i-- > 0;) {
        strides[order[i]] = step;
        step = step * std::max<std::int64_t>(extents[order[i]], 1) +
               (style >= 2 && pick(rng, 0, 2) == 0 ? pick(rng, 1, 3) : 0);
    }
    Placed out;
    out.elements = step;
    const auto add = [&](Axes& axes, std::int64_t extent, std::int64_t stride) {
        // What walks memory as one axis may come fused, as the maker of layouts does.
        if (axes.count > 0 && axes.axis[axes.count - 1].stride == extent * stride) {
            axes.axis[axes.count - 1] = {axes.axis[axes.count - 1].extent * extent, stride};
            return;
        }
        axes.push_back({extent, stride});
    };
    for (std::size_t i = 0; i < extents.size(); ++i)
        add(i < rows.size() ? out.layout.rows : out.layout.cols, extents[i], strides[i]);
    return out;
}

std::vector<std::int64_t> split_extent(Rng& rng, std::int64_t n, int most) {
    std::vector<std::int64_t> out;
    while (static_cast<int>(out.size()) + 1 < most) {
        std::vector<std::int64_t> divisors;
        for (std::int64_t d = 2; d <= n; ++d)
            if (n % d == 0) divisors.push_back(d);
        if (divisors.empty()) break;
        const std::int64_t d =
            divisors[static_cast<std::size_t>(pick(rng, 0, static_cast<std::int64_t>(divisors.size()) - 1))];
        out.push_back(d);
        n /= d;
    }
    if (n != 1 || pick(rng, 0, 1) == 0) out.push_back(n);
    return out;
}

template <Scalar T>
struct Problem {
    std::deque<MatrixLayout> layouts;
    std::deque<std::vector<T>> tiles;
    std::deque<std::vector<ChainLink<T>>> links;
    std::vector<Chain<T>> chains;  // with c as an offset into `result`
    std::vector<T> result;
    GemmFlags flags;

    T* tile(Rng& rng, std::int64_t elements) {
        const std::int64_t shift = pick(rng, 0, 3);  // bases need no alignment
        tiles.emplace_back(static_cast<std::size_t>(elements + shift));
        for (T& x : tiles.back()) x = random_value<T>(rng);
        return tiles.back().data() + shift;
    }
};

template <Scalar T>
Problem<T> random_problem(Rng& rng, std::int64_t largest, int style) {
    Problem<T> out;
    out.flags = {pick(rng, 0, 1) == 1, pick(rng, 0, 1) == 1, pick(rng, 0, 1) == 1};
    const auto extent = [&] {
        static const std::int64_t special[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 23, 24, 31, 32, 47, 48, 49, 64, 97};
        if (pick(rng, 0, 1) == 0) {
            const std::int64_t s = special[pick(rng, 0, 17)];
            if (s <= largest) return s;
        }
        return pick(rng, 1, largest);
    };
    const int axes = style >= 2 ? 3 : 1;
    const bool seen = pick(rng, 0, 2) == 0;  // in tiles that are stored for others
    std::vector<std::int64_t> c_at;
    std::int64_t c_elements = 0;
    const std::int64_t chain_count = pick(rng, 1, 3);
    for (std::int64_t i = 0; i < chain_count; ++i) {
        const std::vector<std::int64_t> m = split_extent(rng, extent(), axes), n = split_extent(rng, extent(), axes);
        const Placed c = place(rng, m, n, style);
        out.layouts.push_back(c.layout);
        const MatrixLayout* c_layout = &out.layouts.back();
        c_at.push_back(c_elements + pick(rng, 0, 2));
        c_elements = c_at.back() + c.elements;
        out.links.emplace_back();
        const std::int64_t link_count = pick(rng, 0, 4);
        for (std::int64_t l = 0; l < link_count; ++l) {
            const std::int64_t total = pick(rng, 0, 15) == 0 ? 0 : extent();
            const std::vector<std::int64_t> k =
                total == 0 ? std::vector<std::int64_t>{0} : split_extent(rng, total, axes);
            const Placed a = place(rng, m, k, style), b = place(rng, k, n, style);
            out.layouts.push_back(a.layout);
            const MatrixLayout* a_layout = &out.layouts.back();
            out.layouts.push_back(b.layout);
            const MatrixLayout* b_layout = &out.layouts.back();
            const T* pa = out.tile(rng, a.elements);
            const T* pb = out.tile(rng, b.elements);
            out.links.back().push_back({pa, pb, a_layout, b_layout});
            if (!seen) continue;
            auto& link = out.links.back().back();
            const double factors[] = {1, -1, 2, -4};
            link.factor = factors[pick(rng, 0, 3)];
            link.conjugate_a = pick(rng, 0, 1) == 1;
            link.conjugate_b = pick(rng, 0, 1) == 1;
        }
        out.chains.push_back({nullptr, c_layout, out.links.back(), pick(rng, 0, 1) == 1});
    }
    out.result.resize(static_cast<std::size_t>(c_elements) + 1);
    for (T& x : out.result) x = random_value<T>(rng);
    for (std::size_t i = 0; i < out.chains.size(); ++i) out.chains[i].c = out.result.data() + c_at[i];
    return out;
}

/// The chains with C in another buffer.
template <Scalar T>
std::vector<Chain<T>> moved_to(const Problem<T>& problem, std::vector<T>& buffer) {
    std::vector<Chain<T>> chains = problem.chains;
    for (Chain<T>& chain : chains) chain.c = buffer.data() + (chain.c - problem.result.data());
    return chains;
}

template <Scalar T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <class T>
class Gemm : public testing::Test {
  protected:
    // Gaps between tiles and around them are compared too: nothing outside C may change.
    void check(Rng& rng, std::int64_t largest, int style) {
        const Problem<T> problem = random_problem<T>(rng, largest, style);
        std::vector<T> expected = problem.result;
        ref::multiply_chains<T>(moved_to(problem, expected), problem.flags);
        for (const Isa isa : isas()) {
            std::vector<T> got = problem.result;
            cpu::multiply_chains<T>(isa, moved_to(problem, got), problem.flags, workspace_);
            ASSERT_TRUE(same_bits(got, expected))
                << name(isa) << " style " << style << " m " << problem.chains[0].c_layout->rows.extent() << " n "
                << problem.chains[0].c_layout->cols.extent();
        }
    }
    GemmWorkspace workspace_;
};

using Types = testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Gemm, Types);

TYPED_TEST(Gemm, PlainMatrices) {
    Rng rng(1);
    for (int i = 0; i < 500 / kFewer; ++i) ASSERT_NO_FATAL_FAILURE(this->check(rng, 60, 0)) << i;
}

TYPED_TEST(Gemm, TransposedMatrices) {
    Rng rng(2);
    for (int i = 0; i < 300 / kFewer; ++i) ASSERT_NO_FATAL_FAILURE(this->check(rng, 60, 1)) << i;
}

TYPED_TEST(Gemm, AnyAxesAnyStrides) {
    Rng rng(3);
    for (int i = 0; i < 500 / kFewer; ++i) ASSERT_NO_FATAL_FAILURE(this->check(rng, 60, 2 + i % 2)) << i;
}

TYPED_TEST(Gemm, LargeEnoughForEveryBlocking) {
    Rng rng(4);
    for (int i = 0; i < (kFewer == 1 ? 12 : 2); ++i) ASSERT_NO_FATAL_FAILURE(this->check(rng, 300, i % 4)) << i;
}

// More rows, columns and depth than one block of each; a thin product keeps the reference quick.
TYPED_TEST(Gemm, LongAndThin) {
    using T = TypeParam;
    Rng rng(5);
    const std::int64_t shapes[][3] = {{5, 9, 2100},  {3, 4000, 40}, {2000, 5, 60},  {1, 1, 5000},
                                      {300, 1, 700}, {1, 700, 300}, {17, 1500, 130}};
    for (const auto& [m, n, k] : shapes) {
        for (int style = 0; style < (kFewer == 1 ? 3 : 1); ++style) {
            const Placed a = place(rng, {m}, {k}, style), b = place(rng, {k}, {n}, style),
                         c = place(rng, {m}, {n}, style);
            Problem<T> problem;
            const std::vector<ChainLink<T>> links(
                2, ChainLink<T>{problem.tile(rng, a.elements), problem.tile(rng, b.elements), &a.layout, &b.layout});
            std::vector<T> expected(static_cast<std::size_t>(c.elements), T(1));
            const Chain<T> chain{expected.data(), &c.layout, links, false};
            std::vector<std::vector<T>> results;
            for (const Isa isa : isas()) {
                results.push_back(expected);
                Chain<T> moved = chain;
                moved.c = results.back().data();
                cpu::multiply_chains<T>(isa, {&moved, 1}, {}, this->workspace_);
            }
            ref::multiply_chains<T>({&chain, 1}, {});
            for (const std::vector<T>& got : results)
                EXPECT_TRUE(same_bits(got, expected)) << m << ' ' << n << ' ' << k << " style " << style;
        }
    }
}

// A C that is copied: kept over several blocks of k, in more than one part, with rows and columns in the operands'
// order.
TYPED_TEST(Gemm, CopiesOfC) {
    using T = TypeParam;
    Rng rng(7);
    for (int round = 0; round < (kFewer == 1 ? 2 : 1); ++round) {
        const std::vector<std::int64_t> m{41, 3, 13}, n{3, 4, 13}, k{7, kFewer == 1 ? 4 : 2, kFewer == 1 ? 3 : 2};
        const Placed a = place(rng, m, k, 2), b = place(rng, k, n, 2), c = place(rng, m, n, 2);
        Problem<T> problem;
        std::vector<ChainLink<T>> links;
        for (int l = 0; l < 3; ++l)
            links.push_back({problem.tile(rng, a.elements), problem.tile(rng, b.elements), &a.layout, &b.layout});
        std::vector<T> expected(static_cast<std::size_t>(c.elements), T(1));
        const std::vector<T> start = expected;
        const Chain<T> chain{expected.data(), &c.layout, links, round == 1};
        ref::multiply_chains<T>({&chain, 1}, {});
        for (const Isa isa : isas()) {
            std::vector<T> got = start;
            Chain<T> moved = chain;
            moved.c = got.data();
            cpu::multiply_chains<T>(isa, {&moved, 1}, {}, this->workspace_);
            EXPECT_TRUE(same_bits(got, expected)) << name(isa) << " round " << round;
        }
    }
}

// Where a chain is cut into calls changes nothing.
TYPED_TEST(Gemm, CutsOfAChain) {
    using T = TypeParam;
    Rng rng(6);
    const std::int64_t m = 37, n = 53, k = 61;
    const Placed a = place(rng, {m}, {k}, 0), b = place(rng, {k}, {n}, 0), c = place(rng, {m}, {n}, 0);
    Problem<T> problem;
    std::vector<ChainLink<T>> links;
    for (int l = 0; l < 40; ++l)
        links.push_back({problem.tile(rng, a.elements), problem.tile(rng, b.elements), &a.layout, &b.layout});
    std::vector<T> whole(static_cast<std::size_t>(m * n));
    const Chain<T> all{whole.data(), &c.layout, links, true};
    multiply_chains<T>({&all, 1}, {}, this->workspace_);
    for (int round = 0; round < 5; ++round) {
        std::vector<T> parts(static_cast<std::size_t>(m * n), T(7));
        bool first = true;
        for (std::size_t at = 0; at < links.size();) {
            const auto count = std::min<std::size_t>(static_cast<std::size_t>(pick(rng, 1, 9)), links.size() - at);
            const Chain<T> part{parts.data(), &c.layout, {links.data() + at, count}, first};
            multiply_chains<T>({&part, 1}, {}, this->workspace_);
            first = false;
            at += count;
        }
        EXPECT_TRUE(same_bits(parts, whole));
    }
}

// Sums of single elements, side by side: each is the chain of its own fused multiply-adds.
TYPED_TEST(Gemm, Dots) {
    using T = TypeParam;
    Rng rng(8);
    const MatrixLayout one{};
    for (int round = 0; round < 300 / kFewer; ++round) {
        const std::int64_t k = pick(rng, 0, 70), step_a = pick(rng, 0, 2) == 0 ? pick(rng, -2, 3) : 1,
                           step_b = pick(rng, 0, 2) == 0 ? pick(rng, 0, 3) : 1;
        GemmFlags flags;
        flags.conjugate_a = pick(rng, 0, 1) == 1;
        flags.conjugate_b = pick(rng, 0, 1) == 1;
        const MatrixLayout a_layout{.rows = {}, .cols = {1, {{{k, step_a}}}}},
            b_layout{.rows = {1, {{{k, step_b}}}}, .cols = {}};
        std::vector<T> memory(static_cast<std::size_t>(2 * kDots * 80 * 3));
        for (T& x : memory) x = random_value<T>(rng);
        const T *a[kDots], *b[kDots];
        T start[kDots], expected[kDots];
        for (int c = 0; c < kDots; ++c) {
            a[c] = memory.data() + 3 * 80 * (2 * c + 1) - pick(rng, 1, 8) - (step_a < 0 ? 0 : 220);
            b[c] = memory.data() + 3 * 80 * (2 * c + 1) + pick(rng, 0, 8);
            start[c] = expected[c] = random_value<T>(rng);
            const ChainLink<T> link{a[c], b[c], &a_layout, &b_layout};
            const Chain<T> chain{&expected[c], &one, {&link, 1}, false};
            ref::multiply_chains<T>({&chain, 1}, flags);
        }
        for (const Isa isa : isas()) {
            T got[kDots];
            std::copy(start, start + kDots, got);
            cpu::add_dots<T>(isa, a, b, k, step_a, step_b, flags, got);
            ASSERT_EQ(std::memcmp(got, expected, sizeof(got)), 0)
                << name(isa) << " k " << k << " steps " << step_a << ' ' << step_b;
        }
    }
}

TYPED_TEST(Gemm, NothingToDo) {
    using T = TypeParam;
    multiply_chains<T>({}, {}, this->workspace_);
    const MatrixLayout plain{.rows = {1, {{{3, 4}}}}, .cols = {1, {{{4, 1}}}}};
    const MatrixLayout empty{.rows = {1, {{{0, 4}}}}, .cols = {1, {{{4, 1}}}}};
    std::vector<T> c(12, T(3));
    Chain<T> chain{c.data(), &plain, {}, false};
    multiply_chains<T>({&chain, 1}, {}, this->workspace_);
    EXPECT_EQ(c, std::vector<T>(12, T(3)));
    chain = {c.data(), &empty, {}, true};
    multiply_chains<T>({&chain, 1}, {}, this->workspace_);
    EXPECT_EQ(c, std::vector<T>(12, T(3)));
    chain = {c.data(), &plain, {}, true};
    multiply_chains<T>({&chain, 1}, {}, this->workspace_);
    EXPECT_EQ(c, std::vector<T>(12, T(0)));
}

TEST(GemmWorkspace, IsBoundedAndMoves) {
    EXPECT_LE(gemm_workspace_bytes(), std::int64_t{16} << 20);
    GemmWorkspace one;
    GemmWorkspace two = std::move(one);
    one = std::move(two);
    const MatrixLayout unit{};
    const double a = 3, b = 4;
    double c = 5;
    const ChainLink<double> link{&a, &b, &unit, &unit};
    const Chain<double> chain{&c, &unit, {&link, 1}, false};
    multiply_chains<double>({&chain, 1}, {}, one);
    EXPECT_EQ(c, 17);
}

}  // namespace
}  // namespace tessera::kernels
