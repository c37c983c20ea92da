// A caller's own epilogue: every element seen once, where it says it is, and the same sum for any number of threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <stdexcept>

#include "tessera/base/error.hpp"
#include "tessera/kernels/triples.hpp"
#include "triples_cases.hpp"

namespace tessera::kernels {
namespace {

using namespace triples_cases;

/// body(index in the output, offset in the piece)
template <class Body>
void for_each_element(const FusedPiece& p, Body&& body) {
    BlockExtents x{};
    for (bool more = true; more;) {
        BlockExtents index{};
        std::int64_t at = 0;
        for (int n = 0; n < kBlockRank; ++n) {
            index[n] = p.origin[n] + x[n];
            at += p.stride[n] * x[n];
        }
        body(index, at);
        more = false;
        for (int n = 0; n < kBlockRank && !more; ++n) {
            more = ++x[n] < p.extents[n];
            if (!more) x[n] = 0;
        }
    }
}

std::int64_t position(const BlockExtents& index, const BlockExtents& extents) {
    std::int64_t at = 0;
    for (int n = kBlockRank - 1; n >= 0; --n) at = at * extents[n] + index[n];
    return at;
}

const std::vector<BlockExtents> kShapes{{1, 1, 1, 1, 1, 1},   {8, 4, 4, 4, 4, 4},   {7, 5, 3, 2, 3, 5},
                                        {1, 17, 1, 13, 2, 3}, {20, 13, 6, 9, 8, 3}, {3, 2, 35, 4, 1, 21}};

TEST(TriplesReduce, EveryElementIsSeenOnceWithItsValue) {
    Random random(31);
    for (const BlockExtents& extents : kShapes)
        for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
            const Case c = eighteen(extents, 3, 5, random);
            std::vector<double> want(static_cast<std::size_t>(c.volume())), got(want.size(), NAN);
            ref::fused_contract(extents, c.terms, {want.data(), packed_strides(extents), false});
            FusedOptions options;
            options.isa = isa;
            options.threads = 3;
            const double count = fused_reduce(
                extents, c.terms,
                [&](const FusedPiece& p) {
                    double seen = 0;
                    for_each_element(p, [&](const BlockExtents& index, std::int64_t at) {
                        got[static_cast<std::size_t>(position(index, extents))] = p.sums[0][at];
                        ++seen;
                    });
                    return seen;
                },
                options);
            EXPECT_EQ(count, static_cast<double>(c.volume()));
            EXPECT_EQ(got, want) << name(isa);
        }
}

TEST(TriplesReduce, NormAndAWeightedSumOfTwoLists) {
    Random random(32);
    FusedWorkspace workspace;
    for (const BlockExtents& extents : kShapes) {
        const Case c = eighteen(extents, 4, 6, random);
        std::vector<double> w(static_cast<std::size_t>(c.volume())), s(w.size());
        ref::fused_contract(extents, c.terms, {w.data(), packed_strides(extents), false});
        ref::fused_contract(extents, c.singles, {s.data(), packed_strides(extents), false});
        double norm = 0, sum = 0;
        const auto weight = [](const BlockExtents& x) { return 1.0 / static_cast<double>(1 + x[0] + 2 * x[3] + x[5]); };
        BlockExtents index{};
        for (std::size_t at = 0; at < w.size(); ++at) {
            auto rest = static_cast<std::int64_t>(at);
            for (int n = 0; n < kBlockRank; ++n) {
                index[n] = rest % extents[n];
                rest /= extents[n];
            }
            norm += w[at] * w[at];
            sum += weight(index) * w[at] * (w[at] + s[at]);
        }
        const std::span<const FusedTerm> lists[] = {c.terms, c.singles};
        double first_norm = 0, first_sum = 0;
        for (int threads : {1, 2, 3, 7}) {
            FusedOptions options;
            options.threads = threads;
            options.workspace = &workspace;
            const double got_norm = fused_reduce(
                extents, c.terms,
                [](const FusedPiece& p) {
                    double part = 0;
                    for_each_element(
                        p, [&](const BlockExtents&, std::int64_t at) { part += p.sums[0][at] * p.sums[0][at]; });
                    return part;
                },
                options);
            const double got_sum = fused_reduce(
                extents, lists,
                [&](const FusedPiece& p) {
                    double part = 0;
                    for_each_element(p, [&](const BlockExtents& x, std::int64_t at) {
                        part += weight(x) * p.sums[0][at] * (p.sums[0][at] + p.sums[1][at]);
                    });
                    return part;
                },
                options);
            EXPECT_NEAR(got_norm, norm, 1e-12 * norm);
            EXPECT_NEAR(got_sum, sum, 1e-12 * std::max(norm, 1.0));
            if (threads == 1) {
                first_norm = got_norm;
                first_sum = got_sum;
            }
            EXPECT_EQ(got_norm, first_norm);
            EXPECT_EQ(got_sum, first_sum);
        }
    }
}

TEST(TriplesReduce, TheEnergyAsAVisitor) {
    Random random(33);
    const Case c = eighteen({9, 4, 5, 6, 3, 7}, 5, 6, random);
    const EnergyEpilogue epilogue = c.epilogue(TripleWeights::spin_orbital, 1.0 / 36);
    const std::span<const FusedTerm> lists[] = {c.terms, c.singles};
    const double got = fused_reduce(c.extents, lists, [&](const FusedPiece& p) {
        double part = 0;
        for_each_element(p, [&](const BlockExtents& x, std::int64_t at) {
            double d = 0;
            for (int n = 0; n < kBlockRank; ++n) d += (n < 3 ? 1 : -1) * c.energies[n][static_cast<std::size_t>(x[n])];
            part += p.sums[0][at] * (p.sums[0][at] + p.sums[1][at]) / d;
        });
        return part;
    });
    EXPECT_NEAR(got / 36, fused_energy(c.extents, c.terms, epilogue), 1e-12 * std::abs(got));
}

TEST(TriplesReduce, WrongInputAndWhatAVisitorThrows) {
    Random random(34);
    Case c = eighteen({20, 13, 6, 9, 8, 3}, 2, 3, random);
    const FusedVisit one = [](const FusedPiece&) { return 1.0; };
    EXPECT_THROW(fused_reduce(c.extents, c.terms, FusedVisit{}), UserError);
    EXPECT_THROW(fused_reduce(c.extents, std::span<const std::span<const FusedTerm>>{}, one), UserError);
    EXPECT_THROW(fused_reduce({1, 0, 1, 1, 1, 1}, c.terms, one), UserError);
    auto second = c.terms;
    second.back().a.data = nullptr;
    const std::span<const FusedTerm> lists[] = {c.terms, second};
    EXPECT_THROW(fused_reduce(c.extents, lists, one), UserError);
    // No terms: zeros.
    EXPECT_EQ(fused_reduce(c.extents, std::span<const FusedTerm>{}, [](const FusedPiece& p) { return p.sums[0][0]; }),
              0);
    std::atomic<int> calls{0};
    const auto fails = [&](const FusedPiece&) -> double {
        if (++calls == 3) throw std::runtime_error("enough");
        return 0;
    };
    for (int threads : {1, 2}) {
        calls = 0;
        FusedOptions options;
        options.threads = threads;
        EXPECT_THROW(fused_reduce(c.extents, c.terms, fails, options), std::runtime_error);
    }
    c.terms[4].a.data = nullptr;
    EXPECT_THROW(fused_reduce(c.extents, c.terms, one), UserError);
}

TEST(TriplesReduce, AWorkspaceThatWasMovedFromWorks) {
    Random random(35);
    const Case c = eighteen({5, 4, 3, 4, 3, 4}, 2, 3, random);
    const EnergyEpilogue epilogue = c.epilogue(TripleWeights::spin_orbital, 1);
    FusedWorkspace workspace;
    FusedOptions options;
    options.workspace = &workspace;
    const double want = fused_energy(c.extents, c.terms, epilogue, options);
    FusedWorkspace other = std::move(workspace);
    EXPECT_EQ(fused_energy(c.extents, c.terms, epilogue, options), want);
    options.workspace = &other;
    EXPECT_EQ(fused_energy(c.extents, c.terms, epilogue, options), want);
}

TEST(TriplesReduce, WeightsThatAreNoneAndInfiniteEnergies) {
    Random random(36);
    Case c = eighteen({3, 4, 2, 3, 3, 3}, 2, 3, random);
    EnergyEpilogue epilogue = c.epilogue(static_cast<TripleWeights>(7), 1);
    EXPECT_THROW(fused_energy(c.extents, c.terms, epilogue), UserError);
    EXPECT_THROW(ref::fused_energy(c.extents, c.terms, epilogue), UserError);
    for (TripleWeights weights : {TripleWeights::spin_orbital, TripleWeights::closed_shell})
        for (int n = 0; n < kBlockRank; ++n) {
            epilogue.weights = weights;
            auto& value = c.energies[n][1];
            const double before = value;
            for (double wrong : {INFINITY, -INFINITY}) {
                value = wrong;
                EXPECT_THROW(fused_energy(c.extents, c.terms, epilogue), UserError);
                EXPECT_THROW(ref::fused_energy(c.extents, c.terms, epilogue), UserError);
            }
            value = before;
        }
}

}  // namespace
}  // namespace tessera::kernels
