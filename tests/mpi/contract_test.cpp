// Contractions across ranks give the bits of one rank: random specs, distributions, algorithms, types and options.
// Compiled a second time for ranks that share a CUDA device (support/back_end.hpp).

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>

#include "support/back_end.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/mpi.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"

namespace tessera {
namespace {

using Random = std::mt19937_64;

constexpr const char* kSpecs[] = {"ik,kj->ij", "ki,kj->ji",   "aibj,jbck->ciak", "hik,hkj->hij", "ij,kl->ikjl",
                                  "ik,ik->",   "iik,kj->ij",  "ijk,kl->jl",      "ijk,jkl->li",  "ik,kj->j",
                                  "kij,k->ij", "abc,bd->dca", "ijk,ijk->ij",     "ijj,jk->ik"};
constexpr const char* kLongSpecs[] = {"ik,kj->ij", "ki,kj->ji", "ikl,klj->ji", "ijk,kl->ijl"};
constexpr const char* kAlgorithms[] = {"auto", "stationary_b", "outer_product", "split_k", "replicate_b"};

Tiling random_tiling(Random& r) {
    std::vector<std::int64_t> sizes(1 + r() % 4);
    for (auto& s : sizes) s = 1 + static_cast<std::int64_t>(r() % 9);
    return Tiling::from_sizes(sizes);
}

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
        if (!tilings.count(l)) tilings.emplace(l, random_tiling(r));
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

        auto one = testing::back_end_options();
        ContractOptions many;
        one.alpha = r() % 2 ? 1.0 : -0.75;
        one.threads = 1;
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
            const auto whole = contract<T>(spec.text(), a1, b1, one).tensor;
            one.filter = 1.01 * *std::ranges::min_element(whole.shape().norms());
            ASSERT_GT(one.filter, 0) << spec.text();
            ++surely_filtered;
        }
        many = one;
        many.threads = 1 + static_cast<int>(r() % 2);
        many.algorithm = split       ? "split_k"
                         : replicate ? "replicate_b"
                                     : kAlgorithms[r() % (filters ? 3 : 5)];  // the last two refuse some problems
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
        std::int64_t planned = 0;
        int workers = 0, segments = 0;
        RankCounts mine;
        const auto label =
            fmt::format("{} trial {} algorithm {} of {} ranks", spec.text(), trial, many.algorithm, ranks.size());
        many.on_plan = [&](const Plan& plan) {
            planned = plan.counts.sent_bytes;
            mine = plan.rank_counts[static_cast<std::size_t>(ranks.rank())];
            validate(plan);
            // How many ranks really sum, and into how many sums of one tile.
            for (const auto& n : plan.rank_counts) workers += n.products > 0;
            segments = plan.segments;
        };
        try {
            if (adds) {
                want = Tensor<T>::random(old_shape, seed + 3);
                got = Tensor<T>::random(old_shape, seed + 3, 0, {ranks, where});
                contract_into<T>(spec.text(), a1, b1, want, one);
                report = contract_into<T>(spec.text(), a, b, got, many);
            } else {
                want = contract<T>(spec.text(), a1, b1, one).tensor;
                auto result = made ? contract<T>(spec.text(), a, made_b, many) : contract<T>(spec.text(), a, b, many);
                report = result.report;
                got = std::move(result.tensor);
            }
        } catch (const UserError& e) {  // split_k or replicate_b where they cannot be
            ASSERT_TRUE(many.algorithm == "split_k" || many.algorithm == "replicate_b") << label << ": " << e.what();
            continue;
        }
        ++done[many.algorithm];
        if (workers > 1) ++shared[many.algorithm];
        if (many.algorithm == "split_k" && segments > 1 && workers > 1) ++split_over_k;
        ASSERT_EQ(checksum(got), checksum(want)) << label;
        ASSERT_TRUE(got.shape() == want.shape()) << label;
        EXPECT_EQ(report.sent_bytes, planned) << label;
        EXPECT_EQ(report.rank_sent_bytes, mine.sent_bytes) << label;
        EXPECT_EQ(report.rank_received_bytes, mine.received_bytes) << label;
        EXPECT_EQ(report.ranks, ranks.size());
        if (made) {
            EXPECT_EQ(calls.load(), mine.made_tiles) << label;
        }
        if (one.filter > 0 && !adds) {
            one.filter = 0;
            auto left_out = contract<T>(spec.text(), a1, b1, one).tensor;
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
        EXPECT_GE(done["split_k"], trials / 8);
    }
    if (trials >= 40 && ranks.size() > 1) {
        EXPECT_GE(shared["replicate_b"], trials / 10);
        EXPECT_GE(split_over_k, trials / 10);
    }
}

TEST(ContractAcrossRanks, SameBitsFloat64) { random_contractions<double>(1, 150); }
TEST(ContractAcrossRanks, SameBitsFloat32) { random_contractions<float>(2, 40); }
TEST(ContractAcrossRanks, SameBitsComplex64) { random_contractions<std::complex<float>>(3, 40); }
TEST(ContractAcrossRanks, SameBitsComplex128) { random_contractions<std::complex<double>>(4, 40); }

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
    const TileGrid grid{Tiling::uniform(24, 8), Tiling::uniform(8, 4), Tiling{8}};
    const Distribution places[] = {Distribution::even(grid, ranks.size()), Distribution(ranks.size(), {{}, {}, {}})};
    for (const auto& place : places)
        for (const char* spec : {"ijs->ij", "isj->j", "ijs->sji"}) {
            const auto a = Tensor<double>::random(Shape::dense(grid), 1, 1, {ranks, place});
            ContractOptions options;
            options.threads = 1;
            double least[] = {2, 0};
            for (int refused = 0; refused < 2; ++refused) {
                options.memory = static_cast<std::int64_t>(least[0]) - 1;
                try {
                    contract(spec, a, options);
                    ADD_FAILURE() << spec;
                } catch (const BudgetError& e) {
                    least[0] = static_cast<double>(e.smallest_bytes());
                }
            }
            options.memory = static_cast<std::int64_t>(least[0]);
            least[1] = -least[0];
            if (ranks.size() > 1) ranks.max(std::span<double>(least));
            EXPECT_EQ(least[0], -least[1]) << spec << ": ranks name different budgets";
            EXPECT_EQ(contract(spec, a, options).report.peak_host_bytes, options.memory) << spec;
        }
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
        ContractOptions options;
        options.threads = 1;
        options.memory = 1;
        made = 0;
        std::int64_t least = 0;
        try {
            contract<double>(spec, a, b, options);
            ADD_FAILURE() << spec;
        } catch (const BudgetError& e) {
            least = e.smallest_bytes();
        }
        EXPECT_EQ(made, 0);
        EXPECT_GE(least, 16 * 16 * 64 * 8 / ranks.size());  // a rank's share, once
        EXPECT_LT(least, 2 * 16 * 16 * 64 * 8 / std::min(ranks.size(), 4));
        options.memory = least;
        EXPECT_EQ(contract<double>(spec, a, b, options).report.peak_host_bytes, least) << spec;
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
        for (const auto* algorithm : {"stationary_b", "outer_product", "replicate_b"}) {
            ContractOptions options;
            options.algorithm = algorithm;
            SeenByMpi seen;
            const auto c = contract("ik,kj->ij", a, b, options);
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

/// Ranks that ask for different things are told so, all of them, before any work.
TEST(ContractAcrossRanks, DifferentCallsAreRefused) {
    Communicator& ranks = mpi_world();
    if (ranks.size() == 1) GTEST_SKIP() << "one rank";
    const auto t = Tiling::uniform(8, 2);
    const auto x =
        Tensor<double>::random(Shape::dense({t, t}), 1, 0, {ranks, Distribution::even({t, t}, ranks.size())});
    const bool last = ranks.rank() + 1 == ranks.size();
    const auto refused = [&](const char* spec, const ContractOptions& options, const std::string& word) {
        try {
            contract(spec, x, x, options);
            ADD_FAILURE() << "rank " << ranks.rank() << " went on: " << word;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
        }
    };
    refused(last ? "ik,kj->ij" : "ik,kj->ji", {}, "->ji'");
    ContractOptions options;
    options.algorithm = last ? "stationary_b" : "outer_product";
    refused("ik,kj->ij", options, "algorithm is 'stationary_b'");
    options = {};
    options.memory = last ? 1 << 30 : 1 << 29;
    refused("ik,kj->ij", options, "memory is '1073741824'");
    options = {};
    options.conjugate_a = last;
    refused("ik,kj->ij", options, "conjugation of A and B is 'true false'");
    options = {};
    if (last) options.result_distribution = Distribution::even({t, t}, ranks.size());
    refused("ik,kj->ij", options, "distribution is '");
    EXPECT_EQ(contract("ik,kj->ij", x, x).report.ranks, ranks.size());
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
