// Contractions across ranks give the bits of one rank: random specs, distributions, algorithms, types and options.
// Compiled a second time for ranks that share a CUDA device (support/back_end.hpp).

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>

#include "support/back_end.hpp"
#include "support/random_einsum.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/contract/einsum.hpp"
#include "tessera/tensor/slice.hpp"

namespace tessera {
namespace {

using testing::Random;
using testing::random_tiling;

constexpr const char* kSpecs[] = {"ik,kj->ij", "ki,kj->ji",   "aibj,jbck->ciak", "hik,hkj->hij", "ij,kl->ikjl",
                                  "ik,ik->",   "iik,kj->ij",  "ijk,kl->jl",      "ijk,jkl->li",  "ik,kj->j",
                                  "kij,k->ij", "abc,bd->dca", "ijk,ijk->ij",     "ijj,jk->ik"};
constexpr const char* kLongSpecs[] = {"ik,kj->ij", "ki,kj->ji", "ikl,klj->ji", "ijk,kl->ijl"};
constexpr Algorithm kAlgorithms[] = {Algorithm::automatic, Algorithm::stationary_b, Algorithm::outer_product,
                                     Algorithm::split_k,   Algorithm::replicate_b,  Algorithm::split_grid};

/// Tilings of a contraction whose result is tiny next to its operands (k in several segments), or whose B is: what
/// split_k and replicate_b are for.
std::map<char, Tiling> long_tilings(Random& r, const ContractionSpec& spec, bool split) {
    std::map<char, Tiling> out;
    const auto tiling = [&](std::size_t tiles, std::int64_t most) {
        std::vector<std::int64_t> sizes(tiles);
        for (auto& s : sizes) s = 1 + static_cast<std::int64_t>(r() % static_cast<unsigned>(most));
        return Tiling::from_sizes(sizes);
    };
    for (char l : spec.a() + spec.b()) {
        const auto role = spec.role(l);
        const bool is_long = role == (split ? LabelRole::contracted : LabelRole::free_a);
        out.emplace(l, is_long ? tiling(12 + r() % 20, 9) : tiling(1 + r() % 2, 3));
    }
    return out;
}

Shape random_shape(Random& r, const std::string& labels, std::map<char, Tiling>& tilings, unsigned tenths = 6) {
    std::vector<Tiling> of;
    for (char l : labels) {
        if (!tilings.count(l)) tilings.emplace(l, random_tiling(r, 4, 9));
        of.push_back(tilings.at(l));
    }
    const TileGrid grid(of);
    std::vector<ShapeEntry> e;
    for (std::int64_t o = 0; o < grid.tile_total(); ++o)
        if (r() % 10 < tenths) e.push_back({TileOrdinal{o}, 1.0 + static_cast<double>(r() % 5)});
    return Shape(grid, std::move(e));
}

Distribution random_distribution(Random& r, const TileGrid& grid, int ranks) {
    std::vector<Distribution::Axis> axes(static_cast<std::size_t>(grid.rank()));
    int left = ranks;
    for (auto& a : axes) {
        a.ranks = 1 + static_cast<int>(r() % static_cast<unsigned>(left));
        left /= a.ranks;
        a.deal = r() % 2 ? Distribution::Deal::cyclic : Distribution::Deal::blocked;
    }
    return Distribution(ranks, axes);
}

template <Scalar T>
void random_contractions(std::uint64_t seed, int trials) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    trials = testing::trials(trials);
    Random r(seed);  // the same on all ranks
    Communicator& ranks = mpi_world();
    std::map<std::string, int> done, shared;  // by several ranks
    int filtered = 0, surely_filtered = 0, split_over_k = 0;
    for (int trial = 0; trial < trials; ++trial) {
        // In turn, so that no seed leaves one out: the filter lies above a tile of the result; any; and two that ask
        // for what they are made for.
        const bool filters = trial % 4 == 0, split = trial % 4 == 2, replicate = trial % 4 == 3;
        const ContractionSpec spec(split || replicate ? kLongSpecs[r() % std::size(kLongSpecs)]
                                                      : kSpecs[r() % std::size(kSpecs)]);
        std::map<char, Tiling> tilings;
        if (split || replicate) tilings = long_tilings(r, spec, split);
        const Shape sa = random_shape(r, spec.a(), tilings, filters ? 10 : 6);
        const Shape sb = random_shape(r, spec.b(), tilings, filters ? 10 : 6);
        const auto grid = spec.result_grid(sa.grid(), sb.grid());
        const auto a1 = Tensor<T>::random(sa, seed + 1), b1 = Tensor<T>::random(sb, seed + 2);
        const auto a = Tensor<T>::random(sa, seed + 1, 0, {ranks, random_distribution(r, sa.grid(), ranks.size())});
        const auto b = Tensor<T>::random(sb, seed + 2, 0, {ranks, random_distribution(r, sb.grid(), ranks.size())});

        auto here = testing::back_end_resources(), together = here;
        PlanOptions how;
        ContractOptions one, many;
        one.alpha = r() % 2 ? 1.0 : -0.75;
        here.threads = 1;
        one.filter = r() % 4 == 0 ? 2.0 : 0;
        if (is_complex<T>) {
            one.conjugate_a = r() % 2;
            one.conjugate_b = r() % 2;
        }
        Shape given;
        if (!filters && r() % 4 == 0) {
            std::map<char, Tiling> same = tilings;
            given = random_shape(r, spec.c(), same);
            one.result_shape = &given;
        }
        const bool adds = !filters && r() % 3 == 0;
        if (adds) one.beta = 0.5;
        if (filters) {
            one.filter = 0;
            const auto whole = contract<T>(spec.text(), a1, b1, here, one).tensor;
            one.filter = 1.01 * *std::ranges::min_element(whole.shape().norms());
            ASSERT_GT(one.filter, 0) << spec.text();
            ++surely_filtered;
        }
        many = one;
        together.threads = 1 + static_cast<int>(r() % 2);
        how.algorithm = split       ? (trial % 8 == 2 ? Algorithm::split_k : Algorithm::split_grid)
                        : replicate ? Algorithm::replicate_b
                                    : kAlgorithms[r() % (filters ? 3 : 6)];  // the last three refuse some problems
        how.deal = static_cast<Deal>(trial % 3);
        const std::string algorithm = name(how.algorithm);
        if (!adds && r() % 2) many.result_distribution = random_distribution(r, grid, ranks.size());
        const bool made = !adds && r() % 3 == 0 && !spec.needs_reduction(1);

        const Shape old_shape = adds ? random_shape(r, spec.c(), tilings) : Shape(grid);
        const auto where = random_distribution(r, grid, ranks.size());
        std::atomic<std::int64_t> calls{0};
        const GeneratedTensor<T> made_b{b1.shape(), [&](const TileInfo& info, std::span<T> tile) {
                                            ++calls;
                                            const auto from = b1.tile(info.coordinates);
                                            std::copy(from.begin(), from.end(), tile.begin());
                                        }};
        Tensor<T> want, got;
        ContractReport report;
        std::optional<PlannedContraction> planned;
        const auto label =
            fmt::format("{} trial {} algorithm {} of {} ranks", spec.text(), trial, algorithm, ranks.size());
        // With a filter there is a plan only when diagonals and sums of an operand are made.
        const bool plans = many.filter == 0 || !(spec.needs_reduction(0) || spec.needs_reduction(1));
        try {
            if (adds) {
                want = Tensor<T>::random(old_shape, seed + 3);
                got = Tensor<T>::random(old_shape, seed + 3, 0, {ranks, where});
                contract_into<T>(spec.text(), a1, b1, want, here, one);
                if (plans) {
                    planned = plan_into<T>(spec.text(), a, b, got, together, many, how);
                    report = execute_into<T>(*planned, a, b, got);
                } else {
                    report = contract_into<T>(spec.text(), a, b, got, together, many, how);
                }
            } else {
                want = contract<T>(spec.text(), a1, b1, here, one).tensor;
                const ContractOperand<T> second = made ? ContractOperand<T>(made_b) : ContractOperand<T>(b);
                if (plans) planned = plan<T>(spec.text(), a, second, together, many, how);
                auto result =
                    plans ? execute<T>(*planned, a, second) : contract<T>(spec.text(), a, second, together, many, how);
                report = result.report;
                got = std::move(result.tensor);
            }
        } catch (const UserError& e) {  // split_k or replicate_b where they cannot be
            ASSERT_TRUE(algorithm == "split_k" || algorithm == "replicate_b" || algorithm == "split_grid")
                << label << ": " << e.what();
            continue;
        }
        ++done[algorithm];
        if (planned) {
            const Plan& plan = planned->plan();
            validate(plan);
            // How many ranks really sum, and into how many sums of one tile.
            int workers = 0;
            for (const auto& n : plan.rank_counts) workers += n.products > 0;
            if (workers > 1) ++shared[algorithm];
            if (algorithm == "split_k" && plan.segments > 1 && workers > 1) ++split_over_k;
            const auto& mine = plan.rank_counts[static_cast<std::size_t>(ranks.rank())];
            EXPECT_EQ(report.sent_bytes, plan.counts.sent_bytes) << label;
            EXPECT_EQ(report.rank_sent_bytes, mine.sent_bytes) << label;
            EXPECT_EQ(report.rank_received_bytes, mine.received_bytes) << label;
            if (made) {
                EXPECT_EQ(calls.load(), mine.made_tiles) << label;
            }
        }
        ASSERT_EQ(checksum(got), checksum(want)) << label;
        ASSERT_TRUE(got.shape() == want.shape()) << label;
        EXPECT_EQ(report.ranks, ranks.size());
        if (one.filter > 0 && !adds) {
            one.filter = 0;
            auto left_out = contract<T>(spec.text(), a1, b1, here, one).tensor;
            axpy(T(-1), want, left_out);  // which has the bits of what the ranks found
            const double rounding = std::is_same_v<RealOf<T>, float> ? 1e-3 : 1e-10;
            EXPECT_LE(norm(left_out), report.left_out * (1 + 1e-10) + rounding) << label;
            filtered += report.left_out > 0;
        }
    }
    EXPECT_GE(filtered, surely_filtered);
    EXPECT_GT(surely_filtered, 0);
    // What is refused is not tested: some of each must not be.
    if (trials >= 40) {
        EXPECT_GE(done["replicate_b"], trials / 8);
        EXPECT_GE(done["split_k"], trials / 16);
        EXPECT_GE(done["split_grid"], trials / 20);  // not with batch indices
    }
    if (trials >= 40 && ranks.size() > 1) {
        EXPECT_GE(shared["replicate_b"], trials / 10);
        EXPECT_GE(split_over_k, trials / 20);
        if (trials >= 100) {  // tiny ones are not worth sharing
            EXPECT_GE(shared["split_grid"], trials / 20);
        }
    }
}

TEST(ContractAcrossRanks, SameBitsFloat64) { random_contractions<double>(1, 150); }
TEST(ContractAcrossRanks, SameBitsFloat32) { random_contractions<float>(2, 40); }
TEST(ContractAcrossRanks, SameBitsComplex64) { random_contractions<std::complex<float>>(3, 40); }
TEST(ContractAcrossRanks, SameBitsComplex128) { random_contractions<std::complex<double>>(4, 40); }

/// The order and the bits of one rank, with plans and without (a filter), from stored operands and made ones.
template <Scalar T>
void random_einsums(std::uint64_t seed, int trials) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Random r(seed);
    Communicator& ranks = mpi_world();
    int left_out = 0;
    for (int trial = 0; trial < testing::trials(trials); ++trial) {
        const auto e = testing::random_einsum(r, 3 + trial % 4, 6, 3, 4, 0.8);
        std::vector<Tensor<T>> alone, dealt;
        for (const auto& s : e.shapes) {
            const auto number = r();
            alone.push_back(Tensor<T>::random(s, number));
            dealt.push_back(Tensor<T>::random(s, number, 0, {ranks, random_distribution(r, s.grid(), ranks.size())}));
        }
        std::vector<GeneratedTensor<T>> made;
        for (const auto& t : alone)
            made.push_back({t.shape(), [&t](const TileInfo& info, std::span<T> tile) {
                                std::ranges::copy(t.tile(info.coordinates), tile.begin());
                            }});
        std::vector<ContractOperand<T>> one(alone.begin(), alone.end()), many(dealt.begin(), dealt.end());
        if (trial % 2) many[1] = made[1];
        auto here = testing::back_end_resources();
        here.threads = 1;
        const auto want = contract(e.text(), one, here);
        ContractOptions options;
        if (trial % 3 == 1) options.filter = 0.1 * norm(want.tensor);
        const auto tree = plan(e.text(), one, here, options).tree();
        auto together = here;
        together.communicator = &ranks;
        together.threads = 2;
        const auto planned = plan(e.text(), many, together, options);
        ASSERT_EQ(planned.tree(), tree) << e.text();
        const auto filtered = contract(e.text(), one, here, options);
        for (int time = 0; time < 2; ++time) {
            const auto got = time == 0 ? contract(e.text(), many, together, options) : execute(planned, many);
            ASSERT_EQ(checksum(got.tensor), checksum(filtered.tensor)) << e.text();
            ASSERT_EQ(got.report.left_out, filtered.report.left_out) << e.text();
        }
        left_out += filtered.report.left_out > 0;
    }
    if (!testing::on_device) {  // which has few trials
        EXPECT_GT(left_out, 0);
    }
}

TEST(ContractAcrossRanks, EinsumsHaveTheSameBits) {
    random_einsums<double>(11, 60);
    random_einsums<std::complex<float>>(12, 20);
}

/// Ranks that ask for different einsums are told so, all of them.
TEST(ContractAcrossRanks, EinsumsMustBeTheSameOnAllRanks) {
    Communicator& ranks = mpi_world();
    if (ranks.size() == 1) GTEST_SKIP() << "needs several ranks";
    const Tiling t{2, 2};
    const Shape s = Shape::dense({t, t});
    const auto x = Tensor<double>::random(s, 1, 1, {ranks, Distribution::even(s.grid(), ranks.size())});
    const std::string spec = ranks.rank() == 0 ? "ij,jk,kl->il" : "ij,jk,kl->li";
    EXPECT_THROW(einsum(spec, x, x, x), UserError);
}

TEST(ContractAcrossRanks, OneOperand) {
    Random r(9);
    Communicator& ranks = mpi_world();
    for (const auto* text : {"ijk->kji", "iij->j", "ijk->", "ijk->ik", "ij->ji", "iji->ji"}) {
        const ContractionSpec spec(text);
        std::map<char, Tiling> tilings;
        const Shape s = random_shape(r, spec.a(), tilings);
        const auto x1 = Tensor<double>::random(s, 5);
        const auto x = Tensor<double>::random(s, 5, 0, {ranks, random_distribution(r, s.grid(), ranks.size())});
        EXPECT_EQ(checksum(contract(text, x).tensor), checksum(contract(text, x1).tensor)) << text;
    }
}

/// What MPI is given while one of these lives.
struct SeenByMpi {
    std::int64_t messages = 0, bytes = 0, longest = 0;
    SeenByMpi() { now = this; }
    ~SeenByMpi() { now = nullptr; }
    static inline SeenByMpi* now = nullptr;
};

/// Shares differ: all ranks refuse together, with one figure, and what is moved counts.
TEST(ContractAcrossRanks, BudgetOfOneOperandIsThatOfAllRanks) {
    if (testing::on_device) GTEST_SKIP() << "of the host's budget";
    Communicator& ranks = mpi_world();
    const TileGrid grid{Tiling::uniform(24, 8), Tiling::uniform(8, 4), Tiling::uniform(8, 4)};
    const Distribution places[] = {Distribution::even(grid, ranks.size()), Distribution(ranks.size(), {{}, {}, {}})};
    for (const auto& place : places)
        for (const char* spec : {"ijs->ij", "isj->j", "ijs->sji", "iss->i"}) {
            const auto a = Tensor<double>::random(Shape::dense(grid), 1, 1, {ranks, place});
            Resources here{.threads = 1};
            double least[] = {2, 0};
            for (int refused = 0; refused < 2; ++refused) {
                here.memory = static_cast<std::int64_t>(least[0]) - 1;
                try {
                    contract(spec, a, here);
                    ADD_FAILURE() << spec;
                } catch (const BudgetError& e) {
                    least[0] = static_cast<double>(e.smallest_bytes());
                }
            }
            here.memory = static_cast<std::int64_t>(least[0]);
            least[1] = -least[0];
            if (ranks.size() > 1) ranks.max(std::span<double>(least));
            EXPECT_EQ(least[0], -least[1]) << spec << ": ranks name different budgets";
            EXPECT_EQ(contract(spec, a, here).report.peak_host_bytes, here.memory) << spec;
        }
}

/// A diagonal moves its own tiles and no others; a permutation, a slice, and bounds of one operand's tiles none.
TEST(ContractAcrossRanks, OneOperandMovesNoMoreThanItNeeds) {
    Communicator& ranks = mpi_world();
    const Tiling t = Tiling::uniform(48, 6);
    const auto a =
        Tensor<double>::random(Shape::dense({t, t}), 1, 1, {ranks, Distribution::even({t, t}, ranks.size())});
    const auto one = Tensor<double>::random(Shape::dense({t, t}), 1, 1);
    const auto sent = [&](auto&& work) {
        SeenByMpi seen;
        work();
        std::int64_t all[] = {seen.bytes};
        ranks.sum(std::span<std::int64_t>(all));
        return all[0];
    };
    for (const char* spec : {"ii->", "ii->i"}) {
        std::uint64_t bits = 0;
        EXPECT_LE(sent([&] { bits = checksum(contract(spec, a).tensor); }), 8 * 6 * 6 * 8) << spec;
        EXPECT_EQ(bits, checksum(contract(spec, one).tensor)) << spec;
    }
    EXPECT_EQ(sent([&] { permute(a, {1, 0}); }), 0);
    EXPECT_EQ(sent([&] { contract("ij->ji", a, {}, {.bounds = {{'i', 5, 40}}}); }), 0);
    EXPECT_EQ(sent([&] { slice(a, {{5, 40}, {0, 48}}); }), 0);
}

/// An operand that is made on demand and reduced: what it takes on a rank is known before any work, to all ranks.
TEST(ContractAcrossRanks, BudgetHoldsForADiagonalOfWhatIsMade) {
    if (testing::on_device) GTEST_SKIP() << "of the host's budget";
    Communicator& ranks = mpi_world();
    const Tiling t = Tiling::uniform(16, 4), k = Tiling::uniform(64, 8), j{8};
    const auto b = Tensor<double>::random(Shape::dense(TileGrid{k, j}), 2, 1,
                                          {ranks, Distribution::even(TileGrid{k, j}, ranks.size())});
    std::atomic<int> made{0};
    const GeneratedTensor<double> a{Shape::dense(TileGrid{t, t, k}), [&](const TileInfo& info, std::span<double> tile) {
                                        ++made;
                                        std::ranges::fill(tile, static_cast<double>(info.tile.value));
                                    }};
    for (const char* spec : {"iik,kj->ij", "sik,kj->ij"}) {
        Resources here{.threads = 1, .memory = 1};
        made = 0;
        std::int64_t least = 0;
        try {
            contract<double>(spec, a, b, here);
            ADD_FAILURE() << spec;
        } catch (const BudgetError& e) {
            least = e.smallest_bytes();
        }
        EXPECT_EQ(made, 0);
        EXPECT_GE(least, 16 * 16 * 64 * 8 / ranks.size());  // a rank's share, once
        EXPECT_LT(least, 2 * 16 * 16 * 64 * 8 / std::min(ranks.size(), 4));
        here.memory = least;
        EXPECT_EQ(contract<double>(spec, a, b, here).report.peak_host_bytes, least) << spec;
    }
}

/// A message limit of a few tiles, of less than one, and one that cuts elements apart: MPI never sees more at once, and
/// what arrives is what was sent.
TEST(ContractAcrossRanks, MessagesAboveTheLimitTravelInParts) {
    const auto t = Tiling::uniform(600, 100);
    const Shape s = Shape::dense({t, t});
    const auto one = contract("ik,kj->ij", Tensor<double>::random(s, 1), Tensor<double>::random(s, 2));
    for (const std::int64_t limit : {std::int64_t{1} << 30, std::int64_t{200'000}, std::int64_t{4099}}) {
        const auto ranks = mpi_communicator(MPI_COMM_WORLD, limit);
        const auto a = Tensor<double>::random(s, 1, 0, {*ranks, Distribution::even(s.grid(), ranks->size())});
        const auto b = Tensor<double>::random(s, 2, 0, {*ranks, Distribution::even(s.grid(), ranks->size())});
        for (const auto chosen : {Algorithm::stationary_b, Algorithm::outer_product, Algorithm::replicate_b}) {
            const auto* algorithm = name(chosen);
            SeenByMpi seen;
            const auto c = contract("ik,kj->ij", a, b, {}, {}, {.algorithm = chosen});
            EXPECT_EQ(seen.bytes, c.report.rank_sent_bytes) << algorithm;
            EXPECT_LE(seen.longest, limit) << algorithm;
            EXPECT_GE(seen.messages * limit, seen.bytes);
            if (limit == 4099) {
                EXPECT_GE(seen.messages, c.report.rank_sent_bytes / limit);
            }
            EXPECT_EQ(checksum(c.tensor), checksum(one.tensor)) << algorithm << " limit " << limit;
            EXPECT_GE(c.report.overlap, 0);
            EXPECT_LE(c.report.overlap, 1);
        }
    }
}

/// From shapes alone: operands are made where the plan wants them, and refused where they are elsewhere.
TEST(ContractAcrossRanks, APlanSaysWhereItsOperandsShallBe) {
    TESSERA_SKIP_WITHOUT_BACK_END();
    Communicator& ranks = mpi_world();
    auto here = testing::back_end_resources();
    here.communicator = &ranks;
    here.threads = 1;
    const Tiling i = Tiling::uniform(40, 5), k = Tiling::uniform(24, 6);
    const Shape a = Shape::dense({i, k}), b = Shape::dense({k, i});
    const auto one = contract("ik,kj->ij", Tensor<double>::random(a, 1), Tensor<double>::random(b, 2));
    for (const auto algorithm : kAlgorithms) {
        std::optional<PlannedContraction> planned;
        try {
            const auto deal = algorithm == Algorithm::stationary_b ? Deal::place : Deal::automatic;
            planned = plan<double>("ik,kj->ij", a, b, here, {}, {.algorithm = algorithm, .deal = deal});
        } catch (const UserError&) {
            ASSERT_TRUE(algorithm == Algorithm::split_k || algorithm == Algorithm::replicate_b ||
                        algorithm == Algorithm::split_grid);
            continue;
        }
        const auto x = Tensor<double>::random(a, 1, 1, {ranks, planned->distribution_a()});
        const auto y = Tensor<double>::random(b, 2, 1, {ranks, planned->distribution_b()});
        for (int time = 0; time < 2; ++time) {
            const auto got = execute(*planned, x, y);
            EXPECT_EQ(checksum(got.tensor), checksum(one.tensor)) << name(algorithm);
            EXPECT_EQ(got.tensor.distribution(), planned->distribution_c());
            EXPECT_EQ(got.report.sent_bytes, planned->counts().sent_bytes);
        }
        if (ranks.size() == 1) continue;
        const Distribution all_on_one(ranks.size(), {{}, {}});
        if (planned->distribution_a() == all_on_one) continue;
        const auto elsewhere = Tensor<double>::random(a, 1, 1, {ranks, all_on_one});
        try {
            execute(*planned, elsewhere, y);
            ADD_FAILURE() << name(algorithm);
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find("A is dealt to"), std::string::npos) << e.what();
        }
    }
}

/// A program that was started as one rank: tensors on mpi_world() and a plan without a communicator.
TEST(ContractAcrossRanks, OneRankIsThatOfAPlanWithoutACommunicator) {
    Communicator& ranks = mpi_world();
    if (ranks.size() > 1) GTEST_SKIP() << "several ranks";
    const Tiling t = Tiling::uniform(40, 5);
    const Shape square = Shape::dense({t, t});
    const auto planned = plan<double>("ik,kj->ij", square, square);
    const auto einsum_planned = plan<double>("ik,kj,jl->il", {square, square, square});
    const auto on = [&](std::uint64_t seed) {
        return Tensor<double>::random(square, seed, 1, {ranks, Distribution::even(square.grid(), 1)});
    };
    const auto x = on(1), y = on(2);
    const auto a = Tensor<double>::random(square, 1), b = Tensor<double>::random(square, 2);
    const auto wanted = checksum(contract("ik,kj->ij", a, b).tensor);
    EXPECT_EQ(checksum(execute(planned, x, y).tensor), wanted);
    EXPECT_EQ(checksum(contract("ik,kj->ij", a, y).tensor), wanted);
    EXPECT_EQ(checksum(execute<double>(einsum_planned, {x, y, a}).tensor),
              checksum(execute<double>(einsum_planned, {a, b, a}).tensor));
}

/// Ranks on unequal nodes: all plan for the least budget, and all refuse alike what does not fit it.
TEST(ContractAcrossRanks, UnequalBudgetsCountAsTheLeast) {
    Communicator& ranks = mpi_world();
    const auto t = Tiling::uniform(64, 8);
    const auto x =
        Tensor<double>::random(Shape::dense({t, t}), 1, 0, {ranks, Distribution::even({t, t}, ranks.size())});
    const bool last = ranks.rank() + 1 == ranks.size();
    const auto planned = plan("ik,kj->ij", x, x, {.memory = last ? (32 << 20) : (64 << 20)});
    EXPECT_EQ(planned.plan().budget.host_bytes, (32 << 20));
    const auto one = Tensor<double>::random(Shape::dense({t, t}), 1);
    EXPECT_EQ(checksum(execute(planned, x, x).tensor), checksum(contract("ik,kj->ij", one, one).tensor));
    EXPECT_THROW(plan("ik,kj->ij", x, x, {.memory = last ? (8 << 10) : (64 << 20)}), BudgetError);
    // A rank without a budget has its machine's memory.
    if (ranks.size() == 1) return;
    EXPECT_EQ(plan("ik,kj->ij", x, x, {.memory = last ? (32 << 20) : 0}).plan().budget.host_bytes, (32 << 20));
}

/// Ranks that ask for different things are told so, all of them, before any work.
TEST(ContractAcrossRanks, DifferentCallsAreRefused) {
    Communicator& ranks = mpi_world();
    if (ranks.size() == 1) GTEST_SKIP() << "one rank";
    const auto t = Tiling::uniform(8, 2);
    const auto x =
        Tensor<double>::random(Shape::dense({t, t}), 1, 0, {ranks, Distribution::even({t, t}, ranks.size())});
    const bool last = ranks.rank() + 1 == ranks.size();
    const auto refused = [&](const char* spec, const Resources& here, const ContractOptions& options,
                             const PlanOptions& how, const std::string& word) {
        try {
            contract(spec, x, x, here, options, how);
            ADD_FAILURE() << "rank " << ranks.rank() << " went on: " << word;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
        }
    };
    refused(last ? "ik,kj->ij" : "ik,kj->ji", {}, {}, {}, "->ji'");
    refused("ik,kj->ij", {}, {}, {.algorithm = last ? Algorithm::stationary_b : Algorithm::outer_product},
            "algorithm is 'stationary_b'");
    refused("ik,kj->ij", {.machine = last ? "summit" : "laptop"}, {}, {}, "the machine file is '");
    refused("ik,kj->ij", {.machine = last ? "no-such" : "laptop"}, {}, {}, "the machine file is '");
    refused("ik,kj->ij", {.machine = last ? "laptop" : ""}, {}, {}, "a machine file is 'given'");
    refused("ik,kj->ij", {}, {.conjugate_a = last}, {}, "conjugation of A and B is 'true false'");
    ContractOptions options;
    if (last) options.result_distribution = Distribution::even({t, t}, ranks.size());
    refused("ik,kj->ij", {}, options, {}, "distribution is '");
    EXPECT_EQ(contract("ik,kj->ij", x, x).report.ranks, ranks.size());

    // Operands of one shape, but made on one rank, or dealt otherwise.
    const Shape& shape = x.shape();
    const OperandShape stored(shape, SourceKind::stored, x.distribution()), made(shape, SourceKind::host_made),
        elsewhere(shape, SourceKind::stored, Distribution(ranks.size(), {{}, {}}));
    const auto plan_refused = [&](const OperandShape& a, const OperandShape& b, const OperandShape& c,
                                  const std::string& word) {
        try {
            plan_into<double>("ik,kj->ij", a, b, c, {.communicator = &ranks}, {.beta = 1});
            ADD_FAILURE() << "rank " << ranks.rank() << " went on: " << word;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
        }
    };
    plan_refused(last ? made : stored, stored, stored, "the origin of A is 'made by cores'");
    plan_refused(stored, last ? made : stored, stored, "the origin of B is 'made by cores'");
    plan_refused(last ? elsewhere : stored, stored, stored, "the origin of A is 'stored, on ");
    plan_refused(stored, stored, last ? elsewhere : stored, "the origin of C is 'stored, on ");
}

}  // namespace
}  // namespace tessera

// Open MPI and MPICH let a program stand between itself and the library.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks,
                         MPI_Request* request) {
    if (auto* seen = tessera::SeenByMpi::now) {
        int size = 0;
        PMPI_Type_size(type, &size);
        const std::int64_t bytes = std::int64_t{size} * count;
        ++seen->messages;
        seen->bytes += bytes;
        seen->longest = std::max(seen->longest, bytes);
    }
    return PMPI_Isend(data, count, type, to, tag, ranks, request);
}
