// The C interface of TAPP against sums over all indices: types, strides, diagonals, sums, conjugates, places, refusals.

#include "tapp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <map>
#include <random>
#include <type_traits>

namespace {

using Z = std::complex<double>;
using Indices = std::vector<std::int64_t>;

/// A tensor with memory around it, and its elements as complex numbers of double precision.
struct Dense {
    TAPP_datatype type = TAPP_F64;
    Indices idx, extents, strides;
    std::vector<std::byte> memory;
    std::int64_t first = 0;  // element of memory where the tensor begins
    TAPP_tensor_info info = 0;

    Dense() = default;
    Dense(const Dense&) = delete;
    ~Dense() {
        if (info) {
            EXPECT_EQ(TAPP_destroy_tensor_info(info), 0);
        }
    }
    int size() const {
        return type == TAPP_C64 ? 16 : type == TAPP_F64 || type == TAPP_C32 ? 8 : type == TAPP_F32 ? 4 : 2;
    }
    void* data() { return memory.data() + first * size(); }
    void make_info() {
        ASSERT_EQ(TAPP_create_tensor_info(&info, type, static_cast<int>(idx.size()), extents.data(), strides.data()),
                  0);
    }
    /// Numbers are small multiples of 1/4, so that every type has them and sums are exact.
    Z get(std::int64_t at) const {
        const std::byte* p = memory.data() + (first + at) * size();
        const auto as = [&](auto x) {
            std::memcpy(&x, p, sizeof x);
            return x;
        };
        switch (type) {
            case TAPP_F32:
                return as(float());
            case TAPP_F64:
                return as(double());
            case TAPP_C32:
                return as(std::complex<float>());
            case TAPP_C64:
                return as(Z());
            case TAPP_BF16:
                return std::bit_cast<float>(static_cast<std::uint32_t>(as(std::uint16_t())) << 16);
            default: {
                const auto bits = as(std::uint16_t());
                const int exponent = bits >> 10 & 31, fraction = bits & 1023;
                const double size = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
                return bits & 0x8000 ? -size : size;
            }
        }
    }
    void set(std::int64_t at, Z value) {
        std::byte* p = memory.data() + (first + at) * size();
        const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
        const auto f = static_cast<float>(value.real());
        switch (type) {
            case TAPP_F32:
                return put(f);
            case TAPP_F64:
                return put(value.real());
            case TAPP_C32:
                return put(std::complex<float>(value));
            case TAPP_C64:
                return put(value);
            case TAPP_BF16:
                return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(f) >> 16));
            default: {
                if (f == 0) return put(std::uint16_t(0));
                int e = 0;
                const auto m = static_cast<int>(std::ldexp(std::frexp(std::abs(f), &e), 11));
                put(static_cast<std::uint16_t>((f < 0 ? 0x8000 : 0) | (e + 14) << 10 | (m & 1023)));
            }
        }
    }
};

void lay_out(Dense& x, std::mt19937& rng, const std::map<std::int64_t, std::int64_t>& extent, bool result) {
    const auto draw = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); };
    const auto n = x.idx.size();
    x.extents.clear();
    for (const auto i : x.idx) x.extents.push_back(extent.at(i));
    x.strides.assign(n, 0);
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), rng);
    std::int64_t step = draw(1, 2), low = 0, high = 0;
    for (const auto i : order) {
        x.strides[i] = draw(0, 2) == 0 ? -step : step;
        if (!result && draw(0, 9) == 0) x.strides[i] = 0;
        (x.strides[i] < 0 ? low : high) += x.strides[i] * (x.extents[i] - 1);
        step *= x.extents[i] + draw(0, 1);
    }
    x.first = -low;
    x.memory.resize(static_cast<std::size_t>((high - low + 1) * x.size()));
    for (std::int64_t at = low; at <= high; ++at) x.set(at, Z(draw(-8, 8) / 4.0, draw(-8, 8) / 4.0));
}

/// Where the element with these values of the indices is.
std::int64_t place(const Dense& x, const std::map<std::int64_t, std::int64_t>& at) {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < x.idx.size(); ++i) out += at.at(x.idx[i]) * x.strides[i];
    return out;
}

Z op(Z z, TAPP_element_op how) { return how == TAPP_CONJUGATE ? std::conj(z) : z; }

/// Every element of D by the definition.
std::map<std::int64_t, Z> expected(const Dense& a, const Dense& b, const Dense& c, const Dense& d, Z alpha, Z beta,
                                   const TAPP_element_op (&ops)[4],
                                   const std::map<std::int64_t, std::int64_t>& extent) {
    std::map<std::int64_t, Z> out;
    std::map<std::int64_t, std::int64_t> at;
    for (const auto& [index, n] : extent) at[index] = 0;
    for (bool more = true; more;) {
        const auto to = place(d, at);
        if (!out.contains(to)) out[to] = beta == 0.0 ? 0 : beta * op(c.get(place(c, at)), ops[2]);
        out[to] += alpha * op(a.get(place(a, at)), ops[0]) * op(b.get(place(b, at)), ops[1]);
        more = false;
        for (auto& [index, value] : at) {
            if (++value < extent.at(index)) {
                more = true;
                break;
            }
            value = 0;
        }
    }
    for (auto& [to, value] : out) value = op(value, ops[3]);
    return out;
}

struct Case {
    Dense a, b, c, d;
    std::map<std::int64_t, std::int64_t> extent;
    TAPP_element_op ops[4] = {};
    std::vector<std::byte> alpha = std::vector<std::byte>(16), beta = std::vector<std::byte>(16);
    Z alpha_value, beta_value;
};

void draw_case(Case& x, std::mt19937& rng, const std::vector<TAPP_datatype>& types, bool conjugate) {
    const auto draw = [&](int lo, int hi) { return std::uniform_int_distribution<int>(lo, hi)(rng); };
    const auto type = [&] { return types[static_cast<std::size_t>(draw(0, static_cast<int>(types.size()) - 1))]; };
    x.a.type = type(), x.b.type = type(), x.c.type = type(), x.d.type = type();
    const auto complex = [](const Dense& y) { return y.type == TAPP_C32 || y.type == TAPP_C64; };
    if ((complex(x.a) || complex(x.b) || complex(x.c)) && !complex(x.d)) x.d.type = TAPP_C64;
    const int labels = draw(0, 5);
    for (int l = 0; l < labels; ++l) {
        const std::int64_t index = 1'000'000'007LL * l - 3;
        x.extent[index] = draw(1, 4);
        const int where = draw(0, 6);  // A B D, A D, B D, A B, A, B, twice in A and in D
        const auto put = [&](Dense& y) {
            y.idx.insert(y.idx.begin() + draw(0, static_cast<int>(y.idx.size())), index);
        };
        if (where != 2 && where != 5) put(x.a);
        if (where == 0 || where == 2 || where == 3 || where == 5) put(x.b);
        if (where <= 2 || where == 6) put(x.d);
        if (where == 6) put(x.a);
        if (where == 6 && draw(0, 1)) put(x.d);
    }
    x.c.idx = x.d.idx;
    lay_out(x.a, rng, x.extent, false);
    lay_out(x.b, rng, x.extent, false);
    lay_out(x.c, rng, x.extent, false);
    lay_out(x.d, rng, x.extent, true);
    if (conjugate)
        for (auto& how : x.ops) how = draw(0, 1);
    Dense scalar;
    scalar.type = x.d.type;
    scalar.memory.resize(16);
    const auto value = [&](std::vector<std::byte>& bytes, Z z) {
        scalar.set(0, z);
        bytes = scalar.memory;
        return scalar.get(0);
    };
    x.alpha_value = value(x.alpha, Z(draw(-4, 4) / 2.0, draw(-4, 4) / 2.0));
    x.beta_value = value(x.beta, draw(0, 2) == 0 ? Z() : Z(draw(-4, 4) / 2.0, draw(-4, 4) / 2.0));
    for (auto* y : {&x.a, &x.b, &x.c, &x.d}) y->make_info();
}

class Tapp : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(TAPP_create_handle(&handle), 0); }
    void TearDown() override { ASSERT_EQ(TAPP_destroy_handle(handle), 0); }
    TAPP_error create(TAPP_tensor_product* plan, const Case& x, TAPP_prectype prec = TAPP_DEFAULT_PREC) {
        return TAPP_create_tensor_product(plan, handle, x.ops[0], x.a.info, x.a.idx.data(), x.ops[1], x.b.info,
                                          x.b.idx.data(), x.ops[2], x.c.info, x.c.idx.data(), x.ops[3], x.d.info,
                                          x.d.idx.data(), prec);
    }
    TAPP_handle handle = 0;
};

void compare(const Case& x, const std::map<std::int64_t, Z>& should, const std::vector<std::byte>& before, int round) {
    const double least = x.d.type == TAPP_BF16 ? 0x1p-8 : x.d.type == TAPP_F16 ? 0x1p-11 : 1e-6;
    for (const auto& [at, value] : should)
        ASSERT_LE(std::abs(x.d.get(at) - value), least * (1 + std::abs(value))) << "round " << round << " at " << at;
    // Nothing else of the memory is written.
    for (std::size_t i = 0; i < before.size(); ++i)
        if (before[i] != x.d.memory[i]) {
            ASSERT_TRUE(should.contains(static_cast<std::int64_t>(i) / x.d.size() - x.d.first)) << round;
        }
}

void random_products(const std::vector<TAPP_datatype>& types, int rounds,
                     const std::function<TAPP_error(TAPP_tensor_product*, const Case&)>& create) {
    std::mt19937 rng(7);
    for (int round = 0; round < rounds; ++round) {
        Case x;
        draw_case(x, rng, types, round % 2);
        TAPP_tensor_product plan = 0;
        ASSERT_EQ(create(&plan, x), 0) << round;
        const auto should = expected(x.a, x.b, x.c, x.d, x.alpha_value, x.beta_value, x.ops, x.extent);
        const auto before = x.d.memory;
        const void* c = x.beta_value == 0.0 ? nullptr : x.c.data();
        ASSERT_EQ(TAPP_execute_product(plan, 0, nullptr, x.alpha.data(), x.a.data(), x.b.data(), x.beta.data(), c,
                                       x.d.data()),
                  0)
            << round;
        compare(x, should, before, round);
        ASSERT_EQ(TAPP_destroy_tensor_product(plan), 0);
    }
}

TEST_F(Tapp, RandomProductsOfOneType) {
    for (const auto type : {TAPP_F32, TAPP_F64, TAPP_C32, TAPP_C64, TAPP_F16, TAPP_BF16}) {
        SCOPED_TRACE(type);
        random_products({type}, 60, [&](auto* plan, const Case& x) { return create(plan, x); });
    }
}

TEST_F(Tapp, RandomProductsOfMixedTypes) {
    random_products({TAPP_F32, TAPP_F64, TAPP_C32, TAPP_C64, TAPP_F16, TAPP_BF16}, 200,
                    [&](auto* plan, const Case& x) { return create(plan, x); });
    random_products({TAPP_F64, TAPP_F32}, 20,
                    [&](auto* plan, const Case& x) { return create(plan, x, TAPP_F32F32_ACCUM_F32); });
    random_products({TAPP_F64, TAPP_F32}, 20,
                    [&](auto* plan, const Case& x) { return create(plan, x, TAPP_F64F64_ACCUM_F64); });
}

TEST_F(Tapp, CIsWhatDHolds) {
    std::mt19937 rng(3);
    for (int round = 0; round < 60; ++round) {
        Case x;
        draw_case(x, rng, {round % 2 ? TAPP_C64 : TAPP_F64}, true);
        // C in D's place, as the same pointer or as none.
        ASSERT_EQ(TAPP_set_strides(x.c.info, x.d.strides.data()), 0);
        x.c.strides = x.d.strides, x.c.first = x.d.first, x.c.memory = x.d.memory;
        TAPP_tensor_product plan = 0;
        ASSERT_EQ(create(&plan, x), 0);
        const auto should = expected(x.a, x.b, x.c, x.d, x.alpha_value, x.beta_value, x.ops, x.extent);
        const auto before = x.d.memory;
        const void* c = round % 3 ? x.d.data() : TAPP_IN_PLACE;
        ASSERT_EQ(TAPP_execute_product(plan, 0, nullptr, x.alpha.data(), x.a.data(), x.b.data(), x.beta.data(), c,
                                       x.d.data()),
                  0);
        compare(x, should, before, round);
        ASSERT_EQ(TAPP_destroy_tensor_product(plan), 0);
    }
}

/// D(i,j) = A(i,k) B(k,j), row-major.
struct Matrices {
    explicit Matrices(std::int64_t n, TAPP_datatype type = TAPP_F64) {
        const std::int64_t extents[] = {n, n}, strides[] = {n, 1};
        EXPECT_EQ(TAPP_create_tensor_info(&info, type, 2, extents, strides), 0);
    }
    ~Matrices() { EXPECT_EQ(TAPP_destroy_tensor_info(info), 0); }
    TAPP_error create(TAPP_tensor_product* plan, TAPP_handle handle) const {
        return TAPP_create_tensor_product(plan, handle, 0, info, ik, 0, info, kj, 0, info, ij, 0, info, ij,
                                          TAPP_DEFAULT_PREC);
    }
    TAPP_tensor_info info = 0;
    std::int64_t ik[2] = {1, 3}, kj[2] = {3, 2}, ij[2] = {1, 2};
};

TEST_F(Tapp, BatchesHaveTheBitsOfSingleProducts) {
    const std::int64_t n = 12;
    const int count = 100;
    const Matrices m(n);
    TAPP_tensor_product plan = 0;
    ASSERT_EQ(m.create(&plan, handle), 0);
    std::mt19937 rng(5);
    std::vector<std::vector<double>> a(count, std::vector<double>(n * n)), b = a, c = a, batched = a, single = a;
    std::vector<const void*> pa, pb, pc;
    std::vector<void*> pd;
    for (int i = 0; i < count; ++i) {
        for (auto* x : {&a[i], &b[i], &c[i]})
            for (auto& value : *x) value = std::uniform_real_distribution(-1.0, 1.0)(rng);
        pa.push_back(a[i].data()), pb.push_back(b[i].data()), pc.push_back(c[i].data()),
            pd.push_back(batched[i].data());
    }
    const double alpha = 1.5, beta = -0.5;
    TAPP_executor exec = 0;
    ASSERT_EQ(TAPP_create_executor(&exec), 0);
    for (int threads : {1, 3}) {
        ASSERT_EQ(TAPP_attr_set(exec, TAPP_TESSERA_THREADS, &threads), 0);
        TAPP_status status = 0;
        ASSERT_EQ(TAPP_execute_batched_product(plan, exec, &status, count, &alpha, pa.data(), pb.data(), &beta,
                                               pc.data(), pd.data()),
                  0);
        void* flops = nullptr;
        ASSERT_EQ(TAPP_attr_get(status, TAPP_TESSERA_FLOPS, &flops), 0);
        EXPECT_EQ(*static_cast<double*>(flops), 2.0 * n * n * n * count);
        ASSERT_EQ(TAPP_destroy_status(status), 0);
        for (int i = 0; i < count; ++i) {
            ASSERT_EQ(TAPP_execute_product(plan, 0, nullptr, &alpha, pa[i], pb[i], &beta, pc[i], single[i].data()), 0);
            ASSERT_EQ(single[i], batched[i]);
        }
    }
    // In place as a whole, and none at all.
    ASSERT_EQ(TAPP_execute_batched_product(plan, 0, nullptr, count, &alpha, pa.data(), pb.data(), &beta, TAPP_IN_PLACE,
                                           pd.data()),
              0);
    for (int i = 0; i < count; ++i) {
        auto& d = single[i];
        ASSERT_EQ(TAPP_execute_product(plan, 0, nullptr, &alpha, pa[i], pb[i], &beta, d.data(), d.data()), 0);
        ASSERT_EQ(d, batched[i]);
    }
    ASSERT_EQ(TAPP_execute_batched_product(plan, 0, nullptr, 0, &alpha, nullptr, nullptr, &beta, nullptr, nullptr), 0);
    ASSERT_EQ(TAPP_destroy_executor(exec), 0);
    ASSERT_EQ(TAPP_destroy_tensor_product(plan), 0);
}

std::string text_of(TAPP_error error) {
    std::string text(TAPP_explain_error(error, 0, nullptr), ' ');
    text.resize(text.size() + 1);
    EXPECT_EQ(TAPP_explain_error(error, text.size(), text.data()), text.size() - 1);
    text.pop_back();
    return text;
}

TEST_F(Tapp, RefusalsHaveTheirCodesAndNameValues) {
    const auto tried = [&](const std::vector<Indices>& idx, const std::vector<Indices>& extents,
                           const std::vector<Indices>& strides) {
        TAPP_tensor_info infos[4] = {};
        for (std::size_t o = 0; o < 4; ++o)
            EXPECT_EQ(TAPP_create_tensor_info(&infos[o], TAPP_F64, static_cast<int>(idx[o].size()), extents[o].data(),
                                              strides[o].data()),
                      0);
        TAPP_tensor_product plan = 0;
        const auto error =
            TAPP_create_tensor_product(&plan, handle, 0, infos[0], idx[0].data(), 0, infos[1], idx[1].data(), 0,
                                       infos[2], idx[2].data(), 0, infos[3], idx[3].data(), TAPP_DEFAULT_PREC);
        for (const auto info : infos) EXPECT_EQ(TAPP_destroy_tensor_info(info), 0);
        // The product says it again, and touches nothing.
        double number = 1;
        EXPECT_EQ(TAPP_execute_product(plan, 0, nullptr, &number, &number, &number, &number, &number, &number), error);
        EXPECT_EQ(number, 1);
        const auto text = text_of(error);
        EXPECT_EQ(TAPP_destroy_tensor_product(plan), 0);
        return std::to_string(error) + " " + text;
    };
    const Indices one{1};
    EXPECT_EQ(tried({{1}, {1}, {2}, {2}}, {{3}, {4}, {5}, {5}}, {one, one, one, one}),
              "4 index 2 of D is in neither A nor B");
    EXPECT_EQ(tried({{1}, {1}, {}, {}}, {{3}, {4}, {}, {}}, {one, one, {}, {}}),
              "1 index 1 has 3 elements in A and 4 in B");
    EXPECT_EQ(tried({{1}, {}, {1}, {1}}, {{3}, {}, {4}, {4}}, {one, {}, one, one}),
              "2 index 1 has 3 elements in A and 4 in D");
    EXPECT_EQ(tried({{}, {1}, {1}, {1}}, {{}, {3}, {4}, {4}}, {{}, one, one, one}),
              "3 index 1 has 3 elements in B and 4 in D");
    EXPECT_EQ(tried({{1}, {}, {}, {1}}, {{3}, {}, {}, {3}}, {one, {}, {}, one}), "5 C has 0 modes and D has 1");
    EXPECT_EQ(tried({{1}, {2}, {2}, {1}}, {{3}, {3}, {3}, {3}}, {one, one, one, one}),
              "6 mode 0 has index 2 in C and 1 in D");
    EXPECT_EQ(tried({{1}, {}, {1}, {1}}, {{3}, {}, {2}, {3}}, {one, {}, one, one}),
              "7 mode 0 has 2 elements in C and 3 in D");
    EXPECT_EQ(tried({{1, 2}, {}, {1, 2}, {1, 2}}, {{3, 4}, {}, {3, 4}, {3, 4}}, {{4, 1}, {}, {4, 1}, {3, 1}}),
              "8 elements of D overlap: a mode of extent 3 has stride 3");
    EXPECT_EQ(tried({{1, 1}, {}, {}, {}}, {{3, 4}, {}, {}, {}}, {{4, 1}, {}, {}, {}}),
              "9 index 1 has 3 elements in A and 4 in A");

    const Matrices m(3);
    TAPP_tensor_product plan = 0;
    ASSERT_EQ(m.create(&plan, handle), 0);
    std::vector<double> a(9, 1.0), b(9, 2.0), d(9, 3.0);
    double alpha = 1, beta = 0;
    const auto run = [&](const void* left, const void* right, void* to) {
        return TAPP_execute_product(plan, 0, nullptr, &alpha, left, right, &beta, nullptr, to);
    };
    EXPECT_EQ(run(nullptr, b.data(), d.data()), TAPP_TESSERA_ARGUMENT);
    EXPECT_EQ(text_of(TAPP_TESSERA_ARGUMENT), "A is a null pointer");
    EXPECT_EQ(run(d.data(), b.data(), d.data()), TAPP_TESSERA_INPUT);
    EXPECT_NE(text_of(TAPP_TESSERA_INPUT).find("share memory"), std::string::npos);
    EXPECT_EQ(d, std::vector<double>(9, 3.0));
    a[4] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(run(a.data(), b.data(), d.data()), TAPP_TESSERA_INPUT);
    EXPECT_EQ(TAPP_execute_product(m.info, 0, nullptr, &alpha, b.data(), b.data(), &beta, nullptr, d.data()),
              TAPP_TESSERA_ARGUMENT);
    EXPECT_EQ(text_of(TAPP_TESSERA_ARGUMENT), "plan is no such object: it was not made, or is destroyed");
    ASSERT_EQ(TAPP_destroy_tensor_product(plan), 0);

    TAPP_tensor_info info = 0;
    const std::int64_t extents[] = {3, -1}, strides[] = {1, 1};
    EXPECT_EQ(TAPP_create_tensor_info(&info, TAPP_F64, 2, extents, strides), TAPP_TESSERA_EXTENT);
    EXPECT_EQ(text_of(TAPP_TESSERA_EXTENT), "mode 1 has extent -1");
    EXPECT_EQ(TAPP_create_tensor_info(&info, TAPP_F64, -1, extents, strides), TAPP_TESSERA_MODES);
    EXPECT_EQ(TAPP_create_tensor_info(&info, TAPP_F64, 17, extents, strides), TAPP_TESSERA_MODES);
    EXPECT_EQ(TAPP_create_tensor_info(&info, 6, 1, extents, strides), TAPP_TESSERA_TYPE);
    EXPECT_EQ(text_of(TAPP_TESSERA_TYPE), "data type 6 is unknown");
    int threads = -2;
    EXPECT_EQ(TAPP_attr_set(handle, TAPP_TESSERA_THREADS, &threads), TAPP_TESSERA_ARGUMENT);
    TAPP_executor exec = 0;
    ASSERT_EQ(TAPP_create_executor(&exec), 0);
    EXPECT_EQ(TAPP_attr_set(exec, TAPP_TESSERA_THREADS, &threads), TAPP_TESSERA_ARGUMENT);
    threads = 2;
    EXPECT_EQ(TAPP_attr_set(exec, TAPP_TESSERA_THREADS, &threads), 0);
    EXPECT_EQ(TAPP_attr_clear(exec, TAPP_TESSERA_THREADS), 0);
    void* value = nullptr;
    EXPECT_EQ(TAPP_attr_get(exec, TAPP_TESSERA_THREADS, &value), 0);
    EXPECT_EQ(*static_cast<int*>(value), 0);
    EXPECT_EQ(TAPP_attr_get(exec, TAPP_TESSERA_FLOPS, &value), TAPP_TESSERA_ARGUMENT);
    ASSERT_EQ(TAPP_destroy_executor(exec), 0);
    EXPECT_EQ(text_of(0), "success");
    char small[5];
    EXPECT_EQ(TAPP_explain_error(0, 5, small), 4u);
    EXPECT_STREQ(small, "succ");
}

TEST_F(Tapp, InfosHaveOtherModesAndExtents) {
    TAPP_tensor_info info = 0;
    const std::int64_t extents[] = {3, 4}, strides[] = {4, 1}, others[] = {5, 6, 7};
    std::int64_t read[3] = {};
    ASSERT_EQ(TAPP_create_tensor_info(&info, TAPP_F64, 2, extents, strides), 0);
    ASSERT_EQ(TAPP_set_nmodes(info, 3), 0);
    EXPECT_EQ(TAPP_get_nmodes(info), 3);
    TAPP_get_extents(info, read);
    EXPECT_EQ((std::vector<std::int64_t>(read, read + 3)), (std::vector<std::int64_t>{3, 4, 1}));
    ASSERT_EQ(TAPP_set_extents(info, others), 0);
    ASSERT_EQ(TAPP_set_strides(info, others), 0);
    TAPP_get_strides(info, read);
    EXPECT_EQ((std::vector<std::int64_t>(read, read + 3)), (std::vector<std::int64_t>{5, 6, 7}));
    ASSERT_EQ(TAPP_destroy_tensor_info(info), 0);
    EXPECT_EQ(TAPP_get_nmodes(0), -1);
}

}  // namespace
