#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "device/cuda/transpose.hpp"
#include "support/leak_check.hpp"
#include "tessera/base/error.hpp"
#include "transpose_cases.hpp"

namespace tessera::kernels {
namespace {

using testing::Extents;
using testing::Perm;
using testing::random_case;
using testing::random_value;

template <class T>
class CudaTranspose : public ::testing::Test {
  protected:
    void SetUp() override {
        if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    }
};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(CudaTranspose, Types);

template <class T>
void check(const testing::TransposeCase& c, std::mt19937_64& rng, const cuda::DeviceTransposeTuning& tuning) {
    // Either side may begin anywhere, so that each is off the 16 bytes of an access while the other is on them.
    const auto any_offset = [&] { return rng() % 3 == 0 ? rng() % 5 : 0; };
    const auto in_offset = any_offset(), offset = any_offset(), guard = std::size_t{16};
    std::vector<T> in(static_cast<std::size_t>(c.in_span) + in_offset);
    for (auto& x : in) x = random_value<T>(rng);
    std::vector<T> out(static_cast<std::size_t>(c.out_span) + offset + guard);
    for (auto& x : out) x = random_value<T>(rng);
    T alpha = 1, beta = 0;
    bool conjugate = false;
    if (rng() % 3 == 0) {
        alpha = random_value<T>(rng);
        beta = rng() % 3 == 0 ? T(0) : random_value<T>(rng);
        conjugate = rng() % 2 == 0;
    }
    cuda::DeviceBuffer d_in(in.size() * sizeof(T)), d_out(out.size() * sizeof(T));
    cuda::copy_to_device(d_in.data(), in.data(), d_in.bytes());
    cuda::copy_to_device(d_out.data(), out.data(), d_out.bytes());
    const cuda::DeviceTranspose transpose(c.extents, c.permutation, sizeof(T), c.in_strides, c.out_strides, tuning);
    transpose.run(static_cast<const T*>(d_in.data()) + in_offset, static_cast<T*>(d_out.data()) + offset, alpha, beta,
                  conjugate);
    std::vector<T> got(out.size());
    cuda::copy_to_host(got.data(), d_out.data(), d_out.bytes());
    ref::transpose<T>(c.extents, c.permutation, in.data() + in_offset, out.data() + offset, alpha, beta, conjugate,
                      c.in_strides, c.out_strides);
    ASSERT_EQ(std::memcmp(got.data(), out.data(), out.size() * sizeof(T)), 0)
        << "offsets " << in_offset << " and " << offset << " alpha " << alpha << " beta " << beta << "\n"
        << transpose.description();
}

constexpr cuda::DeviceTransposeTuning kShapes[] = {{},           {256, 8, 1}, {512, 8, 1},
                                                   {512, 16, 2}, {768, 8, 2}, {1024, 8, 2}};

// Few and tiny, for compute-sanitizer: every block shape.
TYPED_TEST(CudaTranspose, SmallCases) {
    std::mt19937_64 rng(17);
    for (const auto& shape : kShapes)
        for (int n = 0; n < 4; ++n) {
            check<TypeParam>(random_case(rng, 3'000), rng, shape);
            if (this->HasFatalFailure()) return;
        }
}

TYPED_TEST(CudaTranspose, RandomCasesMatchTheReference) {
    std::mt19937_64 rng(4711 + sizeof(TypeParam));
    for (int n = 0; n < 600; ++n) {
        auto tuning = kShapes[rng() % std::size(kShapes)];
        tuning.run_bytes = std::int64_t{32} << rng() % 6;
        tuning.waves = static_cast<int>(rng() % 4) - 1;
        tuning.row_bytes = std::int64_t{64} << rng() % 5;
        tuning.words = rng() % 4 != 0;
        check<TypeParam>(random_case(rng, n % 10 == 0 ? 300'000 : 10'000), rng, tuning);
        if (this->HasFatalFailure()) return;
    }
}

/// Extents that allow accesses of 16 bytes on one side, the other, both and neither; whole and ragged tiles; with the
/// addresses on those 16 bytes and off them; moved and combined.
TYPED_TEST(CudaTranspose, WordsOnEitherSide) {
    std::mt19937_64 rng(161);
    int in_words = 0, out_words = 0;
    for (const std::int64_t rows : {64, 101, 232, 301})
        for (const std::int64_t columns : {64, 101, 264, 307})
            for (const std::int64_t depth : {1, 4, 7}) {
                testing::TransposeCase c{{rows, depth, columns}, {2, 1, 0}, {}, {}, 0, 0};
                c.in_span = c.out_span = rows * depth * columns;
                for (int n = 0; n < 3; ++n) check<TypeParam>(c, rng, {});
                if (this->HasFatalFailure()) return;
                const auto text = cuda::DeviceTranspose(c.extents, c.permutation, sizeof(TypeParam)).description();
                in_words += text.find("accesses of 16 in") != std::string::npos;
                out_words += text.find(" in and 16 out") != std::string::npos;
            }
    EXPECT_GE(in_words, sizeof(TypeParam) < 16 ? 12 : 48);
    EXPECT_GE(out_words, sizeof(TypeParam) < 16 ? 12 : 48);
}

TYPED_TEST(CudaTranspose, BetaZeroOverwritesNaN) {
    using T = TypeParam;
    const Extents extents{70, 33, 41};
    const Perm perm{2, 0, 1};
    std::vector<T> in(70 * 33 * 41, T(3)), out(in.size(), T(std::numeric_limits<RealOf<T>>::quiet_NaN()));
    cuda::DeviceBuffer a(in.size() * sizeof(T)), b(in.size() * sizeof(T));
    cuda::copy_to_device(a.data(), in.data(), a.bytes());
    const cuda::DeviceTranspose transpose(extents, perm, sizeof(T));
    for (const T alpha : {T(1), T(2)}) {
        cuda::fill_bytes(b.data(), 0xff, b.bytes());
        transpose.run(static_cast<const T*>(a.data()), static_cast<T*>(b.data()), alpha);
        cuda::copy_to_host(out.data(), b.data(), b.bytes());
        EXPECT_EQ(out, std::vector<T>(in.size(), alpha * T(3)));
    }
}

/// As on the CPU: times one is nothing, so conjugation leaves no NaN beside an infinity.
TYPED_TEST(CudaTranspose, InfinityIsOnlyMoved) {
    using T = TypeParam;
    const auto infinity = std::numeric_limits<RealOf<T>>::infinity();
    std::vector<T> in(30, T(1)), out(30, T(0));
    if constexpr (is_complex<T>)
        in[7] = T(infinity, 1);
    else
        in[7] = infinity;
    cuda::DeviceBuffer a(in.size() * sizeof(T)), b(in.size() * sizeof(T));
    cuda::copy_to_device(a.data(), in.data(), a.bytes());
    const cuda::DeviceTranspose transpose(Extents{5, 6}, Perm{1, 0}, sizeof(T));
    for (const T beta : {T(0), T(1)}) {
        cuda::fill_bytes(b.data(), 0, b.bytes());
        transpose.run(static_cast<const T*>(a.data()), static_cast<T*>(b.data()), T(1), beta, true);
        cuda::copy_to_host(out.data(), b.data(), b.bytes());
        EXPECT_EQ(out[1 * 5 + 1], conjugate_if(in[7], true));
    }
}

/// A tile that reaches past 2^32 elements, moved and combined. Some elements are set, and found at their new places.
TEST(CudaTransposeLarge, OffsetsPast32Bits) {
    if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    const std::int64_t rows = 128, columns = 36'000'000;
    const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(float);
    if (cuda::free_bytes(0) < static_cast<std::int64_t>(2 * bytes) + (1 << 30))
        GTEST_SKIP() << "no 38 GB on the device";
    cuda::DeviceBuffer in(bytes), out(bytes);
    cuda::fill_bytes(in.data(), 0, bytes);
    std::mt19937_64 rng(32);
    std::vector<std::pair<std::int64_t, std::int64_t>> places{{0, 0}, {rows - 1, columns - 1}, {rows - 1, 0}};
    for (int n = 0; n < 200; ++n) places.emplace_back(rng() % rows, rng() % columns);
    const auto value = [](std::int64_t row, std::int64_t column) {
        return static_cast<float>(row) + static_cast<float>(column % 65536) / 65536;
    };
    for (const auto& [row, column] : places) {
        const float x = value(row, column);
        cuda::copy_to_device(static_cast<float*>(in.data()) + row * columns + column, &x, sizeof x);
    }
    const cuda::DeviceTranspose transpose(Extents{rows, columns}, Perm{1, 0}, sizeof(float));
    for (const float alpha : {1.0F, 2.0F}) {
        cuda::fill_bytes(out.data(), 0xff, bytes);
        transpose.run(static_cast<const float*>(in.data()), static_cast<float*>(out.data()), alpha, 0.0F, false);
        for (const auto& [row, column] : places) {
            float x = 0;
            cuda::copy_to_host(&x, static_cast<const float*>(out.data()) + column * rows + row, sizeof x);
            ASSERT_EQ(x, alpha * value(row, column)) << row << ", " << column << "\n" << transpose.description();
        }
    }
}

TEST(CudaTransposeErrors, OverlapAndBadPlans) {
    if (device::count() == 0) GTEST_SKIP() << "no CUDA device";
    cuda::DeviceBuffer a(1000 * sizeof(double));
    const cuda::DeviceTranspose transpose(Extents{10, 20}, Perm{1, 0}, 8);
    auto* p = static_cast<double*>(a.data());
    EXPECT_THROW(transpose.run(p, p + 100), UserError);
    EXPECT_THROW(transpose.run(static_cast<const float*>(a.data()), static_cast<float*>(a.data()) + 500), UserError);
    EXPECT_THROW(cuda::DeviceTranspose(Extents{10, 20}, Perm{1, 1}, 8), UserError);
    for (const auto& tuning : {cuda::DeviceTransposeTuning{-1, 8, 2},
                               {1024, -8, 2},
                               {1024, 8, 0},
                               {0, 0, 0, -1},
                               {0, 0, 0, 0, -1},
                               {0, 0, 0, 0, 0, -2}})
        EXPECT_THROW(cuda::DeviceTranspose(Extents{10, 20}, Perm{1, 0}, 8, {}, {}, tuning), UserError);
    cuda::DeviceTransposeTuning odd;
    odd.threads = 33, odd.elements = 8, odd.stages = 1;
    EXPECT_THROW(cuda::DeviceTranspose(Extents{10, 20}, Perm{1, 0}, 8, {}, {}, odd).run(p, p + 500), UserError);
    EXPECT_THROW(device::set_current(device::count()), BackendUnavailable);
    EXPECT_THROW(cuda::DeviceBuffer(std::size_t{1} << 50), MachineError);
}

}  // namespace
}  // namespace tessera::kernels
