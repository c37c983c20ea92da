// Nothing outside the tensors is touched, not even by an instruction whose mask leaves it out: input and output lie
// against pages that may not be accessed.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tessera/kernels/transpose.hpp"
#include "transpose_cases.hpp"

namespace tessera::kernels {
namespace {

using testing::Extents;
using testing::Perm;
using testing::random_case;
using testing::random_value;
using Case = testing::TransposeCase;

/// Pages between two forbidden ones.
class Fenced {
  public:
    explicit Fenced(std::size_t bytes) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
        bytes_ = (std::max<std::size_t>(bytes, 1) + page_ - 1) / page_ * page_;
        void* all = mmap(nullptr, bytes_ + 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) throw std::bad_alloc();
        base_ = static_cast<char*>(all);
        mprotect(base_, page_, PROT_NONE);
        mprotect(base_ + page_ + bytes_, page_, PROT_NONE);
    }
    ~Fenced() { munmap(base_, bytes_ + 2 * page_); }
    Fenced(const Fenced&) = delete;
    Fenced& operator=(const Fenced&) = delete;

    /// Room for so many elements: the first right behind the forbidden page, or the last right before one.
    template <class T>
    T* place(std::size_t count, bool at_end) {
        return reinterpret_cast<T*>(base_ + page_ + (at_end ? bytes_ - count * sizeof(T) : 0));
    }

  private:
    std::size_t page_, bytes_;
    char* base_;
};

template <class T>
void check(const Case& c, const TransposeTuning& tuning, std::mt19937_64& rng, Fenced& in_pages, Fenced& out_pages) {
    const auto in_count = static_cast<std::size_t>(c.in_span), out_count = static_cast<std::size_t>(c.out_span);
    std::vector<T> before(out_count);
    for (auto& x : before) x = random_value<T>(rng);
    const auto args = testing::random_arguments<T>(rng);
    const auto plan = plan_transpose(c.extents, c.permutation, sizeof(T), c.in_strides, c.out_strides, tuning);
    for (const bool in_end : {false, true}) {
        T* const in = in_pages.place<T>(in_count, in_end);
        for (std::size_t i = 0; i < in_count; ++i) in[i] = random_value<T>(rng);
        auto expected = before;
        ref::transpose<T>(c.extents, c.permutation, in, expected.data(), args.alpha, args.beta, args.conjugate,
                          c.in_strides, c.out_strides);
        for (const bool out_end : {false, true}) {
            T* const out = out_pages.place<T>(out_count, out_end);
            testing::on_each_isa(args, 2, rng, [&](const TransposeArguments<T>& with) {
                std::memcpy(out, before.data(), out_count * sizeof(T));
                transpose(plan, in, out, with);
                ASSERT_EQ(std::memcmp(out, expected.data(), out_count * sizeof(T)), 0) << name(*with.isa) << "\n"
                                                                                       << describe(plan);
            });
        }
    }
}

template <class T>
class TransposeFenced : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(TransposeFenced, Types);

TYPED_TEST(TransposeFenced, RandomCasesStayInside) {
    std::mt19937_64 rng(404 + sizeof(TypeParam));
    // Strides are padded by up to 8 elements per index, and the first may be 2.
    Fenced in(std::size_t{1} << 22), out(std::size_t{1} << 22);
    for (int n = 0; n < 250; ++n) {
        TransposeTuning tuning;
        tuning.block_bytes = std::int64_t{64} << rng() % 12;
        tuning.run_bytes = std::int64_t{16} << rng() % 8;
        tuning.row_bytes = std::int64_t{16} << rng() % 8;
        tuning.stream_bytes = rng() % 2 ? 0 : 1 << 30;
        tuning.team_bytes = rng() % 4 ? 0 : 1 << 30;
        if (rng() % 4 == 0) tuning = {};
        const Case c = random_case(rng, 3'000);
        if (std::max(c.in_span, c.out_span) * static_cast<std::int64_t>(sizeof(TypeParam)) > 1 << 22) continue;
        check<TypeParam>(c, tuning, rng, in, out);
        if (this->HasFatalFailure()) return;
    }
}

TYPED_TEST(TransposeFenced, ManySmallIndicesGathered) {
    using T = TypeParam;
    // Short leading indices on both sides: runs that are no multiple of a register, moved by offset tables.
    Case c;
    c.extents = {16, 10, 2, 28, 19, 4};
    c.permutation = {0, 5, 1, 3, 2, 4};
    Extents out(6);
    for (int d = 0; d < 6; ++d) out[d] = c.extents[c.permutation[d]];
    std::mt19937_64 rng(1);
    c.in_strides = testing::strides_of(c.extents, rng, false, c.in_span);
    c.out_strides = testing::strides_of(out, rng, false, c.out_span);
    Fenced in_pages(static_cast<std::size_t>(c.in_span) * sizeof(T));
    Fenced out_pages(static_cast<std::size_t>(c.out_span) * sizeof(T));
    check<T>(c, {}, rng, in_pages, out_pages);
}

}  // namespace
}  // namespace tessera::kernels
