// Dense arrays of any strides against a plain sum; the same bits whatever the strides, the threads and the blocks are.

#include "tessera/contract/arrays.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/random_shapes.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/index/automatic_tiling.hpp"

namespace tessera {
namespace {

using testing::pick;
using testing::Random;
using Wide = std::complex<double>;

template <class T>
T value(Random& r) {
    const auto real = [&] { return static_cast<RealOf<T>>(static_cast<double>(pick(r, -1000, 1000)) / 512); };
    if constexpr (is_complex<T>)
        return T(real(), real());
    else
        return real();
}

/// Elements in memory of their own, with holes and any steps between them.
template <class T>
struct Strided {
    std::vector<T> memory;
    ArrayView<T> view;

    /// `repeats`: some steps are 0, as of a broadcast operand.
    Strided(Random& r, const IndexVector& extents, bool repeats) : view(nullptr, extents, extents) {
        std::vector<int> order;
        for (int d = 0; d < extents.size(); ++d) order.push_back(d);
        std::shuffle(order.begin(), order.end(), r);
        std::int64_t step = pick(r, 0, 3) == 0 ? 2 : 1, first = 0;
        for (const int d : order) {
            view.strides[d] = step;
            step = step * std::max<std::int64_t>(1, extents[d]) + (pick(r, 0, 2) == 0 ? pick(r, 0, 5) : 0);
            if (repeats && pick(r, 0, 9) == 0) view.strides[d] = 0;
            if (pick(r, 0, 4) == 0) {
                view.strides[d] = -view.strides[d];
                first -= view.strides[d] * std::max<std::int64_t>(0, extents[d] - 1);
            }
        }
        memory.resize(static_cast<std::size_t>(step) + 8);
        for (auto& x : memory) x = value<T>(r);
        view.data = memory.data() + first;
    }
    T& at(const std::vector<std::int64_t>& index) const {
        std::int64_t o = 0;
        for (int d = 0; d < view.rank(); ++d) o += index[static_cast<std::size_t>(d)] * view.strides[d];
        return view.data[o];
    }
};

/// Calls body with every index.
template <class Body>
void each(const IndexVector& extents, Body&& body) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(extents.size()), 0);
    if (extents.product() == 0) return;
    for (;;) {
        body(index);
        int d = extents.size() - 1;
        for (; d >= 0; --d) {
            if (++index[static_cast<std::size_t>(d)] < extents[d]) break;
            index[static_cast<std::size_t>(d)] = 0;
        }
        if (d < 0) return;
    }
}

struct Spec {
    std::string m, n, k, batch, a, b, c;
    std::map<char, std::int64_t> extent;

    std::string text() const { return a + "," + b + "->" + c; }
    IndexVector extents(const std::string& labels) const {
        IndexVector e;
        for (const char l : labels) e.push_back(extent.at(l));
        return e;
    }
    std::int64_t size(const std::string& labels) const { return extents(labels).product(); }
};

Spec random_spec(Random& r, std::int64_t most_labels, std::int64_t most) {
    Spec s;
    char next = 'a';
    for (auto* group : {&s.m, &s.n, &s.k, &s.batch})
        for (auto left = pick(r, 0, most_labels); left > 0; --left) {
            s.extent[next] = pick(r, 0, 30) == 0 ? 0 : pick(r, 0, 4) == 0 ? 1 : pick(r, 1, most);
            *group += next++;
        }
    s.a = s.m + s.k + s.batch;
    s.b = s.n + s.k + s.batch;
    s.c = s.m + s.n + s.batch;
    for (auto* labels : {&s.a, &s.b, &s.c}) std::shuffle(labels->begin(), labels->end(), r);
    return s;
}

/// The plain sum: element of C by element, in twice the precision of float.
template <class T>
std::vector<std::pair<Wide, double>> plain_sum(const Spec& s, const Strided<T>& a, const Strided<T>& b,
                                               bool conjugate_a, bool conjugate_b) {
    std::map<char, std::int64_t> at;
    const auto element = [&](const Strided<T>& x, const std::string& labels) {
        std::int64_t o = 0;
        for (std::size_t d = 0; d < labels.size(); ++d) o += at[labels[d]] * x.view.strides[static_cast<int>(d)];
        return Wide(x.view.data[o]);
    };
    std::vector<std::pair<Wide, double>> out;
    each(s.extents(s.c), [&](const auto& index) {
        for (std::size_t d = 0; d < s.c.size(); ++d) at[s.c[d]] = index[d];
        Wide sum = 0;
        double magnitude = 0;
        each(s.extents(s.k), [&](const auto& inner) {
            for (std::size_t d = 0; d < s.k.size(); ++d) at[s.k[d]] = inner[d];
            Wide x = element(a, s.a), y = element(b, s.b);
            if (conjugate_a) x = std::conj(x);
            if (conjugate_b) y = std::conj(y);
            sum += x * y;
            magnitude += std::abs(x) * std::abs(y);
        });
        out.push_back({sum, magnitude});
    });
    return out;
}

template <class T>
std::vector<T> gathered(const Strided<T>& x) {
    std::vector<T> out;
    each(x.view.extents, [&](const auto& index) { out.push_back(x.at(index)); });
    return out;
}

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0);
}

template <class T>
void check(const Spec& s, Random& r, bool scaled) {
    SCOPED_TRACE(s.text());
    Strided<T> a(r, s.extents(s.a), true), b(r, s.extents(s.b), true), c(r, s.extents(s.c), false);
    ContractOptions options;
    if (scaled) {
        options.alpha = is_complex<T> ? Wide(0.5, -1.5) : Wide(-1.5);
        options.beta = is_complex<T> ? Wide(-0.25, 2) : Wide(0.25);
    }
    options.conjugate_a = pick(r, 0, 1) == 0;
    options.conjugate_b = pick(r, 0, 1) == 0;
    const auto wanted = plain_sum(s, a, b, options.conjugate_a && is_complex<T>, options.conjugate_b && is_complex<T>);
    const auto before = gathered(c);
    const auto memory = c.memory;

    contract_into(s.text(), a.view, b.view, c.view, {.threads = 1}, options);
    const auto got = gathered(c);
    const double epsilon = std::numeric_limits<RealOf<T>>::epsilon();
    for (std::size_t i = 0; i < got.size(); ++i) {
        const Wide sum = Wide(options.alpha) * wanted[i].first + Wide(options.beta) * Wide(before[i]);
        const double scale = std::abs(options.alpha) * wanted[i].second + std::abs(options.beta) * std::abs(before[i]);
        ASSERT_LE(std::abs(Wide(got[i]) - sum), 8 * epsilon * scale * (1 + std::sqrt(static_cast<double>(s.size(s.k)))))
            << "element " << i;
    }
    // Nothing but the elements of the view is written.
    std::vector<T> others = c.memory, others_before = memory;
    each(c.view.extents, [&](const auto& index) {
        const auto at = &c.at(index) - c.memory.data();
        others[static_cast<std::size_t>(at)] = others_before[static_cast<std::size_t>(at)] = T(0);
    });
    EXPECT_TRUE(same_bits(others, others_before));
    // The bits do not depend on threads, nor on how the arrays lie.
    for (const int threads : {2, 3}) {
        c.memory = memory;
        contract_into(s.text(), a.view, b.view, c.view, {.threads = threads}, options);
        EXPECT_TRUE(same_bits(gathered(c), got)) << threads << " threads";
    }
    auto compact_a = gathered(a), compact_b = gathered(b), compact_c = before;
    contract_into(s.text(), ArrayView<const T>(compact_a.data(), a.view.extents),
                  ArrayView<const T>(compact_b.data(), b.view.extents), ArrayView<T>(compact_c.data(), c.view.extents),
                  {.threads = 2}, options);
    EXPECT_TRUE(same_bits(compact_c, got)) << "compact";
}

template <class T>
class Arrays : public ::testing::Test {};
using Scalars = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(Arrays, Scalars);

TYPED_TEST(Arrays, RandomSpecsAndStrides) {
    Random r(7);
    for (int i = 0; i < 300; ++i) check<TypeParam>(random_spec(r, 2, 6), r, i % 3 == 0);
}

TYPED_TEST(Arrays, SidesThatAreCut) {
    Random r(11);
    const auto groups = [&](std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
        Spec s;
        char next = 'a';
        const auto fill = [&](std::string& group, std::int64_t wanted) {
            while (wanted > 1) {
                const auto extent = pick(r, 0, 1) == 0 ? wanted : pick(r, 2, std::max<std::int64_t>(2, wanted / 2));
                s.extent[next] = extent;
                group += next++;
                wanted = (wanted + extent - 1) / extent;
            }
        };
        fill(s.m, m);
        fill(s.n, n);
        fill(s.k, k);
        fill(s.batch, batch);
        s.a = s.m + s.k + s.batch;
        s.b = s.n + s.k + s.batch;
        s.c = s.m + s.n + s.batch;
        for (auto* labels : {&s.a, &s.b, &s.c}) std::shuffle(labels->begin(), labels->end(), r);
        return s;
    };
    check<TypeParam>(groups(5, 3, 9000, 1), r, false);  // segments of k
    check<TypeParam>(groups(1, 1, 20000, 1), r, true);  // a dot product
    check<TypeParam>(groups(3, 2, 5000, 3), r, true);
    check<TypeParam>(groups(900, 3, 20, 1), r, false);
    check<TypeParam>(groups(2, 1100, 30, 1), r, true);
    check<TypeParam>(groups(430, 410, 3, 1), r, false);
    check<TypeParam>(groups(130, 70, 300, 1), r, true);
    check<TypeParam>(groups(17, 19, 21, 40), r, false);
}

TYPED_TEST(Arrays, ADiagonalOfAnOperand) {
    using T = TypeParam;
    Random r(13);
    std::vector<T> a(5 * 5 * 4), b(4 * 3), c(5 * 3), wanted(5 * 3, T(0));
    for (auto* x : {&a, &b})
        for (auto& e : *x) e = value<T>(r);
    contract_into("iik,kj->ij", ArrayView<const T>(a.data(), {5, 5, 4}), ArrayView<const T>(b.data(), {4, 3}),
                  ArrayView<T>(c.data(), {5, 3}));
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 3; ++j) {
            Wide sum = 0;
            for (int k = 0; k < 4; ++k)
                sum += Wide(a[static_cast<std::size_t>((i * 5 + i) * 4 + k)]) *
                       Wide(b[static_cast<std::size_t>(k * 3 + j)]);
            EXPECT_LE(std::abs(sum - Wide(c[static_cast<std::size_t>(i * 3 + j)])), 1e-4);
        }
}

TYPED_TEST(Arrays, HaveTheBitsOfTensorsInAutomaticTiles) {
    using T = TypeParam;
    Random r(17);
    const auto compare = [&](const Spec& s) {
        SCOPED_TRACE(s.text());
        std::vector<T> a(static_cast<std::size_t>(s.size(s.a))), b(static_cast<std::size_t>(s.size(s.b))),
            c(static_cast<std::size_t>(s.size(s.c)));
        for (auto* x : {&a, &b})
            for (auto& e : *x) e = value<T>(r);
        const auto ea = s.extents(s.a), eb = s.extents(s.b);
        const auto ta = Tensor<T>::from_dense(automatic_grid(s.text(), 0, ea), a),
                   tb = Tensor<T>::from_dense(automatic_grid(s.text(), 1, eb), b);
        if (ta.tile_count() < ta.grid().tile_counts().product() || tb.tile_count() < tb.grid().tile_counts().product())
            return;  // zeros
        contract_into(s.text(), ArrayView<const T>(a.data(), ea), ArrayView<const T>(b.data(), eb),
                      ArrayView<T>(c.data(), s.extents(s.c)), {.threads = 2});
        EXPECT_TRUE(same_bits(einsum(s.text(), ta, tb).to_dense(), c));
    };
    for (int i = 0; i < 60; ++i) compare(random_spec(r, 2, 9));
    Spec s{"ab", "cd", "ef", "", "aebf", "fdec", "abcd", {}};
    for (const char l : std::string("abcdef")) s.extent[l] = l < 'e' ? 7 : 40;  // several tiles of k
    compare(s);
    Spec small{"a", "b", "cd", "", "acd", "dbc", "ab", {{'a', 3}, {'b', 5}, {'c', 70}, {'d', 90}}};  // segments
    compare(small);
}

TEST(ArrayInput, IsRefusedBeforeAnythingIsWritten) {
    std::vector<double> a(24, 1.0), b(24, 1.0), c(24, 7.0);
    const ArrayView<const double> va(a.data(), {4, 6}), vb(b.data(), {6, 4});
    const auto refused = [&](const char* spec, const auto& x, const auto& y, const auto& z, const std::string& says,
                             const ContractOptions& options = {}, const Resources& here = {}) {
        try {
            contract_into(spec, x, y, z, here, options);
            ADD_FAILURE() << "not refused: " << says;
        } catch (const UserError& e) {
            EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
            EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
        }
        EXPECT_EQ(c, std::vector<double>(24, 7.0));
    };
    const ArrayView<double> vc(c.data(), {4, 4});
    refused("ik,kj->ij", va, va, vc, "label 'k' has 6 elements in A and 4 in B");
    refused("ikl,kj->ij", va, vb, vc, "A has rank 2, but its labels 'ikl' have 3");
    refused("ik,kj->ij", va, vb, ArrayView<double>(c.data(), {4, 5}),
            "label 'j' has 4 elements in B and 5 in the result");
    refused("ik,kj->ij", ArrayView<const double>(a.data(), {4, -6}), vb, vc, "index 1 of A has extent -6");
    refused("ik,kj->ij", ArrayView<const double>(nullptr, {4, 6}), vb, vc, "a null pointer");
    refused("ik,kj->ij", va, vb, ArrayView<double>(c.data(), {4, 4}, {3, 1}), "elements would be written twice");
    refused("ik,kj->ij", va, vb, ArrayView<double>(c.data(), {4, 4}, {0, 1}), "elements would be written twice");
    refused("ik,kj->ij", va, vb, ArrayView<double>(a.data() + 3, {4, 4}), "A and the result share memory");
    refused("ik,kj->ij", va, ArrayView<const double>(c.data(), {6, 4}), vc, "B and the result share memory");
    refused("ik,kj->ij", va, vb, vc, "filter 0.5", {.filter = 0.5});
    refused("ik,kj->ij", va, vb, vc, "memory budget -1 is negative", {}, {.memory = -1});
    EXPECT_THROW(result_extents("ik,kj->ij", {2, 3}, {4, 5}), UserError);
}

TEST(ArrayInput, AResultWithoutElementsHasAnyStrides) {
    std::vector<double> x(1), z(1, 7.0);
    const ArrayView<const double> a(x.data(), {0, 3}, {0, 0}), b(x.data(), {3, 2}, {0, 0});
    contract_into("ik,kj->ij", a, b, ArrayView<double>(z.data(), {0, 2}, {0, 0}));
    EXPECT_EQ(z[0], 7);
}

TEST(ArrayInput, NotANumberIsSaid) {
    std::vector<double> a(6, 1.0), b(6, 1.0), c(4);
    a[2] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_THROW(contract_into("ik,kj->ij", ArrayView<const double>(a.data(), {2, 3}),
                               ArrayView<const double>(b.data(), {3, 2}), ArrayView<double>(c.data(), {2, 2})),
                 UserError);
}

TEST(ArrayInput, ColumnsOfOneMatrixMayBeOperandAndResult) {
    std::vector<double> x(12);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
    const std::vector<double> two(1, 2.0);
    contract_into("i,k->ik", ArrayView<const double>(x.data(), {4}, {3}), ArrayView<const double>(two.data(), {1}),
                  ArrayView<double>(x.data() + 1, {4, 1}, {3, 1}));
    EXPECT_EQ(x, (std::vector<double>{0, 0, 2, 3, 6, 5, 6, 12, 8, 9, 18, 11}));
}

TEST(ArrayInput, ABudgetBelowTheScratchIsRefusedWithWhatWouldDo) {
    std::vector<double> a(100000, 1.0), c(1);
    const ArrayView<const double> v(a.data(), {100000});
    try {
        contract_into("i,i->", v, v, ArrayView<double>(c.data(), {}), {.threads = 1, .memory = 1000});
        FAIL();
    } catch (const BudgetError& e) {
        EXPECT_NO_THROW(contract_into("i,i->", v, v, ArrayView<double>(c.data(), {}),
                                      {.threads = 1, .memory = e.smallest_bytes()}));
    }
}

TEST(ArrayThreads, SeveralCallersAtOnce) {
    const IndexVector ea{40, 30, 20}, eb{20, 30, 50};
    std::vector<double> a(24000), b(30000), wanted(2000);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i % 97) / 8;
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<double>(i % 89) / 8;
    const ArrayView<const double> va(a.data(), ea), vb(b.data(), eb);
    contract_into("ijk,kjl->il", va, vb, ArrayView<double>(wanted.data(), {40, 50}), {.threads = 1});
    std::vector<std::vector<double>> results(4, std::vector<double>(2000));
    std::vector<std::thread> callers;
    for (auto& c : results)
        callers.emplace_back([&] {
            for (int i = 0; i < 20; ++i)
                contract_into("ijk,kjl->il", va, vb, ArrayView<double>(c.data(), {40, 50}), {.threads = 2});
        });
    for (auto& t : callers) t.join();
    for (const auto& c : results) EXPECT_EQ(c, wanted);
}

}  // namespace
}  // namespace tessera
