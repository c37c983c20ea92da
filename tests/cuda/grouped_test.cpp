// Grouped tile products and the hash generator on a device, against the plain loops on the host.
// Skips itself where there is no device.
#include "device/cuda/grouped_gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "kernels/gemm.hpp"
#include "support/leak_check.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels {
namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::initializer_list<std::int64_t> from) {
    return from.begin()[random() % from.size()];
}

struct Matrix {
    std::int64_t rows = 0, columns = 0, ld = 1, at = 0;  // at: in elements of the arena
};

struct Product {
    Matrix a, b;
    std::int64_t k = 0;
    std::uint32_t flags = 0;
};

struct Tile {
    Matrix c;
    bool resume = false;
    std::vector<Product> chain;
};

/// Everything in one array, with NaN wherever no matrix has an element: reading padding shows, and so does writing it.
template <Scalar T>
struct Case {
    std::vector<T> memory;
    std::vector<Tile> tiles;

    static T hole() { return T(std::numeric_limits<RealOf<T>>::quiet_NaN()); }

    Matrix matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, std::int64_t skew, Random& random) {
        const auto unit = static_cast<std::int64_t>(256 / sizeof(T));
        const std::int64_t at = (static_cast<std::int64_t>(memory.size()) + unit - 1) / unit * unit + skew;
        memory.resize(static_cast<std::size_t>(at + rows * ld + 4), hole());
        std::uniform_real_distribution<RealOf<T>> uniform(-1, 1);
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j) {
                T& x = memory[static_cast<std::size_t>(at + i * ld + j)];
                if constexpr (is_complex<T>)
                    x = T(uniform(random), uniform(random));
                else
                    x = uniform(random);
            }
        return {rows, columns, ld, at};
    }
    /// Exact, padded or any leading dimension; aligned or not.
    Matrix any_matrix(std::int64_t rows, std::int64_t columns, Random& random) {
        const std::int64_t ld = random() % 2 == 0 ? cuda::padded_ld(columns, ScalarTraits<T>::kind)
                                                  : columns + pick(random, {0, 0, 1, 2, 5});
        return matrix(rows, columns, std::max<std::int64_t>(ld, 1), random() % 4 == 0 ? 1 : 0, random);
    }
    void add(std::int64_t m, std::int64_t n, const std::vector<std::int64_t>& sums, bool resume, Random& random) {
        Tile tile{any_matrix(m, n, random), resume, {}};
        for (std::int64_t k : sums) {
            const auto flags = static_cast<std::uint32_t>(random() % (is_complex<T> ? 16 : 4));
            const bool ta = flags & cuda::kTransposeA, tb = flags & cuda::kTransposeB;
            tile.chain.push_back(
                {any_matrix(ta ? k : m, ta ? m : k, random), any_matrix(tb ? n : k, tb ? k : n, random), k, flags});
        }
        tiles.push_back(std::move(tile));
    }

    /// The memory after the plain loops.
    std::vector<T> reference() const {
        std::vector<T> out = memory;
        const auto layout = [](const Matrix& x, bool transposed) {
            MatrixLayout l;
            l.rows.push_back({x.rows, x.ld});
            l.cols.push_back({x.columns, 1});
            if (transposed) std::swap(l.rows, l.cols);
            return l;
        };
        for (const Tile& t : tiles) {
            const MatrixLayout c = layout(t.c, false);
            const Chain<T> empty{out.data() + t.c.at, &c, {}, !t.resume};
            ref::multiply_chains<T>({&empty, 1}, {});
            for (const Product& p : t.chain) {
                const MatrixLayout a = layout(p.a, p.flags & cuda::kTransposeA),
                                   b = layout(p.b, p.flags & cuda::kTransposeB);
                const ChainLink<T> link{memory.data() + p.a.at, memory.data() + p.b.at, &a, &b};
                const Chain<T> chain{out.data() + t.c.at, &c, {&link, 1}, false};
                ref::multiply_chains<T>({&chain, 1},
                                        {(p.flags & cuda::kConjugateA) != 0, (p.flags & cuda::kConjugateB) != 0});
            }
        }
        return out;
    }

    /// The memory after the device: products [0, cut) of every chain, then the rest. cut < 0: in one launch.
    std::vector<T> on_device(const cuda::GroupedTuning& tuning = {}, int cut = -1, bool backwards = false) const {
        const std::size_t bytes = memory.size() * sizeof(T);
        const cuda::DeviceBuffer arena(bytes);
        cuda::copy_to_device(arena.data(), memory.data(), bytes);
        const auto address = [&](const Matrix& x) {
            return cuda::address_of(arena.data()) + static_cast<cuda::DeviceAddress>(x.at) * sizeof(T);
        };
        for (int part = 0; part < (cut < 0 ? 1 : 2); ++part) {
            cuda::GroupedList list(ScalarTraits<T>::kind);
            std::int64_t bound = cuda::kImageSlack;
            for (std::size_t i = 0; i < tiles.size(); ++i) {
                const Tile& t = tiles[backwards ? tiles.size() - 1 - i : i];
                const std::size_t middle = std::min(t.chain.size(), static_cast<std::size_t>(std::max(cut, 0)));
                const std::size_t begin = part == 0 ? 0 : middle;
                const std::size_t end = part == 0 && cut >= 0 ? middle : t.chain.size();
                list.add_tile(address(t.c), t.c.rows, t.c.columns, t.c.ld, t.resume || part == 1);
                for (std::size_t p = begin; p < end; ++p) {
                    const Product& x = t.chain[p];
                    list.add_product(address(x.a), x.a.ld, address(x.b), x.b.ld, x.k, x.flags);
                }
                bound += cuda::grouped_bytes_bound(t.c.rows, t.c.columns, static_cast<std::int64_t>(end - begin));
            }
            const cuda::GroupedLaunch launch = list.plan(device::info(0).multiprocessors, tuning);
            if (tuning.shape < 0) {
                EXPECT_LE(launch.bytes, bound);
            }
            std::vector<char> host(static_cast<std::size_t>(launch.bytes));
            list.write_image(host.data());
            const cuda::DeviceBuffer image(host.size());
            cuda::copy_to_device(image.data(), host.data(), host.size());
            cuda::run_grouped(launch, image.data(), nullptr, tuning);
            cuda::synchronize();
        }
        std::vector<T> out(memory.size());
        cuda::copy_to_host(out.data(), arena.data(), bytes);
        return out;
    }
};

template <Scalar T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

/// Largest difference over sqrt(length of the sums), holes compared as holes.
template <Scalar T>
double error(const std::vector<T>& got, const std::vector<T>& want) {
    double worst = 0;
    const auto* g = reinterpret_cast<const RealOf<T>*>(got.data());
    const auto* w = reinterpret_cast<const RealOf<T>*>(want.data());
    for (std::size_t i = 0; i < got.size() * sizeof(T) / sizeof(RealOf<T>); ++i) {
        if (std::isnan(w[i]) && std::isnan(g[i])) continue;
        const double d = std::abs(static_cast<double>(g[i]) - static_cast<double>(w[i]));
        if (!(d <= 1e300)) return INFINITY;
        worst = std::max(worst, d);
    }
    return worst;
}

class CudaGrouped : public testing::Test {
  protected:
    void SetUp() override {
        if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    }
};

template <Scalar T>
Case<T> random_case(Random& random, int tile_count, std::initializer_list<std::int64_t> extents) {
    Case<T> c;
    for (int t = 0; t < tile_count; ++t) {
        std::vector<std::int64_t> sums(random() % 5);
        for (std::int64_t& k : sums) k = pick(random, extents);
        c.add(pick(random, extents), pick(random, extents), sums, random() % 3 == 0, random);
    }
    return c;
}

template <Scalar T>
void matches_the_reference(std::uint64_t seed, double tolerance) {
    Random random(seed);
    const std::initializer_list<std::int64_t> small{1, 2, 3, 4, 5, 7, 8, 11, 13, 15, 16, 17, 19, 23, 24, 29, 31, 32};
    const std::initializer_list<std::int64_t> any{1,  2,  3,  7,  13,  16,  17,  31,  33,  40,  47,
                                                  61, 64, 65, 97, 100, 127, 128, 129, 151, 200, 257};
    for (int trial = 0; trial < 12; ++trial) {
        const Case<T> c = trial % 2 == 0 ? random_case<T>(random, 12, any) : random_case<T>(random, 60, small);
        const std::vector<T> want = c.reference(), got = c.on_device();
        EXPECT_LT(error(got, want), tolerance) << "trial " << trial;
        EXPECT_TRUE(same_bits(got, want)) << "trial " << trial << ": not the host's chain of fused operations";
    }
}

TEST_F(CudaGrouped, DoubleMatchesTheReference) { matches_the_reference<double>(1, 1e-12); }
TEST_F(CudaGrouped, FloatMatchesTheReference) { matches_the_reference<float>(2, 1e-3); }
TEST_F(CudaGrouped, Complex64MatchesTheReference) { matches_the_reference<std::complex<float>>(3, 1e-3); }
TEST_F(CudaGrouped, Complex128MatchesTheReference) { matches_the_reference<std::complex<double>>(4, 1e-12); }

template <Scalar T>
void bits_depend_on_the_extents_alone(std::uint64_t seed) {
    Random random(seed);
    for (int trial = 0; trial < 4; ++trial) {
        const Case<T> c = trial % 2 == 0 ? random_case<T>(random, 10, {1, 5, 16, 31, 33, 64, 71, 128, 130, 301})
                                         : random_case<T>(random, 40, {1, 3, 8, 13, 16, 23, 32});
        const std::vector<T> first = c.on_device();
        EXPECT_TRUE(same_bits(c.on_device(), first)) << "two runs differ";
        EXPECT_TRUE(same_bits(c.on_device({}, -1, true), first)) << "the list backwards";
        for (int shape = 0; shape < 4; ++shape)
            EXPECT_TRUE(same_bits(c.on_device({shape, 0}), first)) << "block shape " << shape;
        for (int shared : {100 << 10, 160 << 10})  // as on smaller chips
            EXPECT_TRUE(same_bits(c.on_device({0, 0, shared}), first)) << shared << " bytes of shared memory";
        for (int blocks : {1, 3, 50}) EXPECT_TRUE(same_bits(c.on_device({-1, blocks}), first)) << blocks << " blocks";
        for (int cut = 0; cut < 4; ++cut) {
            EXPECT_TRUE(same_bits(c.on_device({}, cut), first)) << "cut after " << cut;
            EXPECT_TRUE(same_bits(c.on_device({cut, 7}, cut), first)) << "cut after " << cut << ", another shape";
        }
    }
}

TEST_F(CudaGrouped, BitsOfDoubleDependOnTheExtentsAlone) { bits_depend_on_the_extents_alone<double>(5); }
TEST_F(CudaGrouped, BitsOfFloatDependOnTheExtentsAlone) { bits_depend_on_the_extents_alone<float>(6); }
TEST_F(CudaGrouped, BitsOfComplexDependOnTheExtentsAlone) { bits_depend_on_the_extents_alone<std::complex<double>>(7); }

// Few and tiny, for compute-sanitizer: every block shape, every copy path.
TEST_F(CudaGrouped, SmallCases) {
    Random random(8);
    Case<double> c;
    for (std::int64_t n : {1, 13, 16, 23, 32, 33, 64, 70, 129}) c.add(n, n + 1, {n, 17, 4}, n % 2 == 0, random);
    c.add(3, 200, {5}, false, random);
    c.add(200, 3, {40, 1}, true, random);
    c.add(9, 9, {}, false, random);
    const std::vector<double> want = c.reference();
    for (int shape = -1; shape < 4; ++shape) EXPECT_LT(error(c.on_device({shape, 0}), want), 1e-13);
    Case<std::complex<float>> z;
    for (std::int64_t n : {1, 13, 64, 70}) z.add(n, n + 1, {n, 17}, n % 2 == 0, random);
    EXPECT_LT(error(z.on_device(), z.reference()), 1e-4);
}

TEST_F(CudaGrouped, EmptyListsAndEmptyTiles) {
    Random random(9);
    Case<double> c;
    EXPECT_NO_THROW({
        cuda::GroupedList list(ScalarKind::f64);
        const cuda::GroupedLaunch launch = list.plan(132);
        const cuda::DeviceBuffer image(static_cast<std::size_t>(launch.bytes));
        cuda::run_grouped(launch, image.data());
        cuda::synchronize();
    });
    c.add(0, 5, {3}, false, random);
    c.add(5, 0, {3}, false, random);
    c.add(5, 7, {0}, false, random);
    c.add(5, 7, {0, 3, 0}, true, random);
    c.add(70, 70, {0}, true, random);
    EXPECT_LT(error(c.on_device(), c.reference()), 1e-13);
}

TEST_F(CudaGrouped, WrongInputIsAUserError) {
    cuda::GroupedList list(ScalarKind::f64);
    EXPECT_THROW(list.add_tile(0, 3, 4, 3, false), UserError);
    EXPECT_THROW(list.add_tile(0, std::int64_t{1} << 33, 4, 4, false), UserError);
    list.add_tile(0, 3, 4, 4, false);
    EXPECT_THROW(list.add_product(0, 4, 0, 4, 5), UserError);
    EXPECT_THROW(list.add_product(0, 5, 0, 3, 5), UserError);
    EXPECT_THROW(list.add_product(0, 2, 0, 4, 5, cuda::kTransposeA), UserError);
    EXPECT_NO_THROW(list.add_product(0, 3, 0, 5, 5, cuda::kTransposeA | cuda::kTransposeB));
    EXPECT_THROW(cuda::HashList(ScalarKind::f64).add({0, 0, 1, 3, 4, 3, 0}), UserError);
}

/// Needs no device. Short lists start with most work, the work items of a tile stay together; long lists keep their
/// order.
TEST(GroupedOrder, ShortListsStartWithMostWork) {
    cuda::GroupedList list(ScalarKind::f64);
    const std::int64_t k[] = {100, 300, 200, 300, 50};
    for (std::int64_t length : k) {
        list.add_tile(0, 500, 500, 500, false);
        list.add_product(0, length, 0, 500, length);
    }
    const auto tiles_of = [&](int multiprocessors) {
        const cuda::GroupedLaunch launch = list.plan(multiprocessors);
        std::vector<std::byte> image(static_cast<std::size_t>(launch.bytes));
        list.write_image(image.data());
        std::vector<cuda::GroupedItem> items(static_cast<std::size_t>(launch.item_count[0]));
        std::memcpy(items.data(), image.data() + launch.items_at[0], items.size() * sizeof(cuda::GroupedItem));
        EXPECT_EQ(items.size(), 5u * 16);
        std::vector<int> order;
        for (const auto& item : items)
            if (order.empty() || order.back() != item.tile) order.push_back(item.tile);
        return order;
    };
    EXPECT_EQ(tiles_of(10), (std::vector<int>{1, 3, 2, 0, 4}));
    EXPECT_EQ(tiles_of(2), (std::vector<int>{0, 1, 2, 3, 4}));
}

// The generator ------------------------------------------------------------------------------------------------------

template <Scalar T>
void hash_matches(std::uint64_t seed) {
    Random random(seed);
    Case<T> c;
    std::vector<Matrix> tiles;
    for (std::int64_t rows : {1, 3, 13, 200})
        for (std::int64_t columns : {1, 2, 13, 257, 1000}) tiles.push_back(c.any_matrix(rows, columns, random));
    tiles.push_back(c.any_matrix(3, 20011, random));
    const std::size_t bytes = c.memory.size() * sizeof(T);
    const cuda::DeviceBuffer arena(bytes);
    cuda::copy_to_device(arena.data(), c.memory.data(), bytes);
    std::vector<T> want = c.memory;
    cuda::HashList list(ScalarTraits<T>::kind);
    std::int64_t bound = cuda::kImageSlack;
    for (std::size_t i = 0; i < tiles.size(); ++i) {
        const Matrix& x = tiles[i];
        const std::uint64_t state = tile_state(seed, 3, i);
        const double scale = hash_scale<T>(i % 2 == 0 ? 0.37 : 1e-9, x.rows * x.columns);
        std::vector<T> dense(static_cast<std::size_t>(x.rows * x.columns));
        hash_fill<T>(state, scale, dense);
        for (std::int64_t r = 0; r < x.rows; ++r)
            std::memcpy(&want[static_cast<std::size_t>(x.at + r * x.ld)],
                        &dense[static_cast<std::size_t>(r * x.columns)],
                        static_cast<std::size_t>(x.columns) * sizeof(T));
        list.add({cuda::address_of(arena.data()) + static_cast<cuda::DeviceAddress>(x.at) * sizeof(T), state, scale,
                  static_cast<std::int32_t>(x.rows), static_cast<std::int32_t>(x.columns),
                  static_cast<std::int32_t>(x.ld), 0});
        bound += cuda::hash_bytes_bound(x.rows, x.columns);
    }
    const cuda::HashLaunch launch = list.plan();
    EXPECT_LE(launch.bytes, bound);
    std::vector<char> host(static_cast<std::size_t>(launch.bytes));
    list.write_image(host.data());
    const cuda::DeviceBuffer image(host.size());
    cuda::copy_to_device(image.data(), host.data(), host.size());
    cuda::run_hash(launch, image.data());
    std::vector<T> got(c.memory.size());
    cuda::copy_to_host(got.data(), arena.data(), bytes);
    EXPECT_TRUE(same_bits(got, want)) << error(got, want);
}

TEST_F(CudaGrouped, HashGeneratorHasTheHostsBits) {
    hash_matches<float>(21);
    hash_matches<double>(22);
    hash_matches<std::complex<float>>(23);
    hash_matches<std::complex<double>>(24);
}

}  // namespace
}  // namespace tessera::kernels
