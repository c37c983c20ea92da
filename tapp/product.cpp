// Products of TAPP as einsums of arrays where they lie. What is stored in another type than the arithmetic's is read
// into an array of that type, and written back from one.

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <complex>
#include <limits>
#include <mutex>
#include <optional>

#include "objects.hpp"
#include "tessera/contract/arrays.hpp"

namespace tessera::tapp {

namespace {

/// A tensor as the product sees it: each index once, a diagonal stepped along by the sum of its strides.
struct Operand {
    std::string labels;
    TAPP_datatype type = TAPP_F32;
    IndexVector extents, strides;
    bool conjugate = false;

    bool complex() const { return type == TAPP_C32 || type == TAPP_C64; }
    std::int64_t elements() const { return extents.product(); }
};

struct Product : Object {
    static constexpr Kind of = Kind::product;
    Product() : Object(of) {}
    Operand a, b, c, d;
    ScalarKind arithmetic = ScalarKind::f32;
    std::optional<Refusal> refusal;  // said again at each execution
};

std::string text_of(std::int64_t n) { return std::to_string(n); }

std::int64_t bytes_of_type(TAPP_datatype type) {
    switch (type) {
        case TAPP_F64:
        case TAPP_C32:
            return 8;
        case TAPP_C64:
            return 16;
        case TAPP_F32:
            return 4;
        default:
            return 2;
    }
}

/// A tensor with its modes still as they were given.
struct Given {
    const char* name;
    const TensorInfo* info;
    const std::int64_t* idx;
    int modes() const { return info->extents.size(); }
};

Given given(const char* name, TAPP_tensor_info info, const std::int64_t* idx, TAPP_element_op op) {
    Given out{name, &object<TensorInfo>(info, name), idx};
    if (out.modes() > 0) not_null(idx, (std::string("idx_") + name).c_str());
    if (op != TAPP_IDENTITY && op != TAPP_CONJUGATE)
        throw Refusal{TAPP_TESSERA_ARGUMENT, std::string("op_") + name + " " + text_of(op) + " is unknown"};
    return out;
}

/// An index that both have, x and y being perhaps the same, has one extent.
void same_extents(const Given& x, const Given& y, TAPP_error code) {
    for (int i = 0; i < x.modes(); ++i)
        for (int j = 0; j < y.modes(); ++j)
            if (x.idx[i] == y.idx[j] && x.info->extents[i] != y.info->extents[j])
                throw Refusal{code, "index " + text_of(x.idx[i]) + " has " + text_of(x.info->extents[i]) +
                                        " elements in " + x.name + " and " + text_of(y.info->extents[j]) + " in " +
                                        y.name};
}

bool has_index(const Given& x, std::int64_t index) {
    return std::find(x.idx, x.idx + x.modes(), index) != x.idx + x.modes();
}

void check(const Given& a, const Given& b, const Given& c, const Given& d) {
    for (int i = 0; i < d.modes(); ++i)
        if (!has_index(a, d.idx[i]) && !has_index(b, d.idx[i]))
            throw Refusal{TAPP_TESSERA_INDEX_OF_D_ALONE, "index " + text_of(d.idx[i]) + " of D is in neither A nor B"};
    same_extents(a, a, TAPP_TESSERA_EXTENTS_A);
    same_extents(b, b, TAPP_TESSERA_EXTENTS_B);
    same_extents(d, d, TAPP_TESSERA_EXTENTS_D);
    same_extents(a, b, TAPP_TESSERA_EXTENTS_A_B);
    same_extents(a, d, TAPP_TESSERA_EXTENTS_A_D);
    same_extents(b, d, TAPP_TESSERA_EXTENTS_B_D);
    if (c.modes() != d.modes())
        throw Refusal{TAPP_TESSERA_MODES_C_D, "C has " + text_of(c.modes()) + " modes and D has " + text_of(d.modes())};
    for (int i = 0; i < d.modes(); ++i) {
        if (c.idx[i] != d.idx[i])
            throw Refusal{TAPP_TESSERA_INDICES_C_D, "mode " + text_of(i) + " has index " + text_of(c.idx[i]) +
                                                        " in C and " + text_of(d.idx[i]) + " in D"};
        if (c.info->extents[i] != d.info->extents[i])
            throw Refusal{TAPP_TESSERA_EXTENTS_C_D, "mode " + text_of(i) + " has " + text_of(c.info->extents[i]) +
                                                        " elements in C and " + text_of(d.info->extents[i]) + " in D"};
    }
}

/// Each mode of D steps over all that the faster ones reach.
void check_apart(const Operand& d) {
    std::vector<int> order;
    for (int i = 0; i < d.extents.size(); ++i) {
        if (d.extents[i] == 0) return;
        if (d.extents[i] > 1) order.push_back(i);
    }
    std::sort(order.begin(), order.end(),
              [&](int x, int y) { return std::abs(d.strides[x]) < std::abs(d.strides[y]); });
    std::int64_t reach = 0;
    for (const int i : order) {
        if (std::abs(d.strides[i]) <= reach)
            throw Refusal{TAPP_TESSERA_D_OVERLAPS_ITSELF, "elements of D overlap: a mode of extent " +
                                                              text_of(d.extents[i]) + " has stride " +
                                                              text_of(d.strides[i])};
        reach += (d.extents[i] - 1) * std::abs(d.strides[i]);
    }
}

/// Letters for indices, in the order in which they are met.
class Letters {
  public:
    char operator()(std::int64_t index) {
        auto it = std::find(known_.begin(), known_.end(), index);
        if (it == known_.end()) it = known_.insert(known_.end(), index);
        return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[it - known_.begin()];  // 3 x 16 at most
    }

  private:
    std::vector<std::int64_t> known_;
};

Operand operand(const Given& x, bool conjugate, Letters& letters) {
    Operand out;
    out.type = x.info->type;
    out.conjugate = conjugate && out.complex();
    for (int i = 0; i < x.modes(); ++i) {
        const char l = letters(x.idx[i]);
        const auto at = out.labels.find(l);
        if (at == std::string::npos) {
            out.labels += l;
            out.extents.push_back(x.info->extents[i]);
            out.strides.push_back(x.info->strides[i]);
        } else {
            out.strides[static_cast<int>(at)] += x.info->strides[i];
        }
    }
    return out;
}

ScalarKind arithmetic_of(const Product& p, TAPP_prectype prec) {
    bool complex = false, wide = false;
    for (const auto* x : {&p.a, &p.b, &p.c, &p.d}) {
        complex = complex || x->complex();
        wide = wide || x->type == TAPP_F64 || x->type == TAPP_C64;
    }
    if (complex && !p.d.complex()) throw Refusal{TAPP_TESSERA_TYPE, "an operand is complex and D is real"};
    switch (prec) {
        case TAPP_DEFAULT_PREC:
            break;
        case TAPP_F64F64_ACCUM_F64:
            wide = true;
            break;
        case TAPP_F32F32_ACCUM_F32:
        case TAPP_F16F16_ACCUM_F16:
        case TAPP_F16F16_ACCUM_F32:
        case TAPP_BF16BF16_ACCUM_F32:
            wide = false;
            break;
        default:
            throw Refusal{TAPP_TESSERA_TYPE, "precision " + text_of(prec) + " is unknown"};
    }
    if (complex) return wide ? ScalarKind::c128 : ScalarKind::c64;
    return wide ? ScalarKind::f64 : ScalarKind::f32;
}

// -- numbers of 16 bits

float of_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
std::uint16_t to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // to nearest, ties to even
}

float of_f16(std::uint16_t bits) {
    const auto sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    if (exponent == 0) {
        const float small = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -small : small;
    }
    const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}
std::uint16_t to_f16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
    const float size = std::abs(x);
    if (x != x) return static_cast<std::uint16_t>(sign | 0x7e00);
    if (size >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00);
    if (size < 0x1p-14f)  // adding 2^-1 * 2^(24-14) rounds to multiples of 2^-24
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(size + 0.5f) - 0x3f000000u));
    const auto at = std::bit_cast<std::uint32_t>(size);
    return static_cast<std::uint16_t>(sign | ((at + 0xfff + (at >> 13 & 1) - (112u << 23)) >> 13));
}

/// One stored element, as one of the arithmetic; a complex one of a real tensor has no imaginary part.
template <Scalar T>
T read(const void* data, TAPP_datatype type, std::int64_t at) {
    using R = RealOf<T>;
    const auto real = [](auto x) { return T(static_cast<R>(x)); };
    switch (type) {
        case TAPP_F32:
            return real(static_cast<const float*>(data)[at]);
        case TAPP_F64:
            return real(static_cast<const double*>(data)[at]);
        case TAPP_F16:
            return real(of_f16(static_cast<const std::uint16_t*>(data)[at]));
        case TAPP_BF16:
            return real(of_bf16(static_cast<const std::uint16_t*>(data)[at]));
        default:
            break;
    }
    if constexpr (is_complex<T>) {
        if (type == TAPP_C32) return T(static_cast<const std::complex<float>*>(data)[at]);
        const auto z = static_cast<const std::complex<double>*>(data)[at];
        return T(static_cast<R>(z.real()), static_cast<R>(z.imag()));
    }
    return T();  // a complex operand of a real D is refused before
}

template <Scalar T>
void write(void* data, TAPP_datatype type, std::int64_t at, T value) {
    const auto real = std::real(value);
    switch (type) {
        case TAPP_F32:
            static_cast<float*>(data)[at] = static_cast<float>(real);
            return;
        case TAPP_F64:
            static_cast<double*>(data)[at] = static_cast<double>(real);
            return;
        case TAPP_F16:
            static_cast<std::uint16_t*>(data)[at] = to_f16(static_cast<float>(real));
            return;
        case TAPP_BF16:
            static_cast<std::uint16_t*>(data)[at] = to_bf16(static_cast<float>(real));
            return;
        default:
            break;
    }
    const auto imaginary = std::imag(value);
    if (type == TAPP_C32)
        static_cast<std::complex<float>*>(data)[at] = {static_cast<float>(real), static_cast<float>(imaginary)};
    else
        static_cast<std::complex<double>*>(data)[at] = {static_cast<double>(real), static_cast<double>(imaginary)};
}

template <Scalar T>
constexpr TAPP_datatype type_of() {
    constexpr TAPP_datatype types[] = {TAPP_F32, TAPP_F64, TAPP_C32, TAPP_C64};
    return types[static_cast<int>(ScalarTraits<T>::kind)];
}

/// Calls visit(where an element is in x, its place in row-major order).
template <class Visit>
void each_element(const Operand& x, const Visit& visit) {
    const int n = x.extents.size();
    IndexVector at = IndexVector::filled(n, 0);
    std::int64_t offset = 0;
    for (std::int64_t i = 0, all = x.elements(); i < all; ++i) {
        visit(offset, i);
        for (int d = n; d-- > 0;) {
            offset += x.strides[d];
            if (++at[d] < x.extents[d]) break;
            offset -= x.extents[d] * x.strides[d];
            at[d] = 0;
        }
    }
}

/// Where the elements lie, or where they are of another type, in an array of their own.
template <Scalar T>
struct Read {
    Array<T> own;
    ArrayView<const T> view;

    Read(const Operand& x, const void* data) {
        if (x.type == type_of<T>()) {
            view = {static_cast<const T*>(data), x.extents, x.strides};
            return;
        }
        own = Array<T>(x.extents);
        T* to = own.data();
        each_element(x, [&](std::int64_t at, std::int64_t i) { to[i] = read<T>(data, x.type, at); });
        view = std::as_const(own).view();
    }
};

std::string spec_of(const std::string& a, const std::string& b, const std::string& d) { return a + "," + b + "->" + d; }

/// The bytes between the first and the last element.
std::pair<std::intptr_t, std::intptr_t> span_of(const Operand& x, const void* data) {
    const auto first = reinterpret_cast<std::intptr_t>(data);
    if (x.elements() == 0) return {first, first};
    std::int64_t low = 0, high = 0;
    for (int d = 0; d < x.extents.size(); ++d) (x.strides[d] < 0 ? low : high) += (x.extents[d] - 1) * x.strides[d];
    const auto size = bytes_of_type(x.type);
    return {first + low * size, first + (high + 1) * size};
}

template <Scalar T>
double run(const Product& p, const Resources& here, const void* alpha, const void* a, const void* b, const void* beta,
           const void* c, void* d) {
    T factor = read<T>(alpha, p.d.type, 0), keep = read<T>(beta, p.d.type, 0);
    const bool same_place = p.c.type == p.d.type && p.c.strides == p.d.strides;
    if (keep != T(0) && !c) {
        if (!same_place)
            throw Refusal{TAPP_TESSERA_C_IS_MISSING,
                          "C is a null pointer, beta is not zero, and C's strides are not D's"};
        c = d;
    }
    // conj(alpha A B + beta C) is the same of conjugates.
    const bool flip = p.d.conjugate;
    if (flip) factor = conjugate_if(factor, true), keep = conjugate_if(keep, true);
    const auto conjugates = [&](const Operand& x) { return x.complex() && x.conjugate != flip; };

    const Read<T> left(p.a, a), right(p.b, b);
    ContractOptions options;
    options.alpha = factor;
    options.conjugate_a = conjugates(p.a);
    options.conjugate_b = conjugates(p.b);
    const auto product = [&](const ArrayView<T>& to, T beta_now) {
        options.beta = beta_now;
        return contract_arrays<T>(spec_of(p.a.labels, p.b.labels, p.d.labels), {left.view, right.view}, to, here,
                                  options)
            .flops;
    };
    const bool as_stored = p.d.type == type_of<T>();
    const ArrayView<T> in_place(static_cast<T*>(as_stored ? d : nullptr), p.d.extents, p.d.strides);
    const bool c_is_d = c == d && same_place;
    if (as_stored && (keep == T(0) || (c_is_d && !conjugates(p.c)))) return product(in_place, keep);

    // C is read before D is written where the two may meet.
    const auto [c_begin, c_end] = span_of(p.c, c);
    const auto [d_begin, d_end] = span_of(p.d, d);
    const bool meet = keep != T(0) && c_begin < d_end && d_begin < c_end;
    if (as_stored && p.c.type == p.d.type && !meet) {
        const double flops = product(in_place, T(0));
        ContractOptions sum;
        sum.alpha = keep;
        sum.beta = 1.0;
        sum.conjugate_a = conjugates(p.c);
        contract_arrays<T>(p.c.labels + "->" + p.d.labels,
                           {ArrayView<const T>(static_cast<const T*>(c), p.c.extents, p.c.strides)}, in_place, here,
                           sum);
        return flops;
    }
    Array<T> own(p.d.extents);
    T* to = own.data();
    if (keep != T(0))
        each_element(p.c, [&](std::int64_t at, std::int64_t i) {
            to[i] = conjugate_if(read<T>(c, p.c.type, at), conjugates(p.c));
        });
    const double flops = product(own.view(), keep);
    each_element(p.d, [&](std::int64_t at, std::int64_t i) { write<T>(d, p.d.type, at, to[i]); });
    return flops;
}

double run(const Product& p, const Resources& here, const void* alpha, const void* a, const void* b, const void* beta,
           const void* c, void* d) {
    if (p.a.elements() > 0) not_null(a, "A");
    if (p.b.elements() > 0) not_null(b, "B");
    if (p.d.elements() > 0) not_null(d, "D");
    switch (p.arithmetic) {
        case ScalarKind::f32:
            return run<float>(p, here, alpha, a, b, beta, c, d);
        case ScalarKind::f64:
            return run<double>(p, here, alpha, a, b, beta, c, d);
        case ScalarKind::c64:
            return run<std::complex<float>>(p, here, alpha, a, b, beta, c, d);
        case ScalarKind::c128:
            return run<std::complex<double>>(p, here, alpha, a, b, beta, c, d);
    }
    return 0;
}

/// Below this many multiplications one thread does a product sooner than several.
constexpr double kSmall = 1e6;

double multiplications(const Product& p) {
    double n = 1;
    std::string seen;
    for (const auto* x : {&p.a, &p.b})
        for (std::size_t i = 0; i < x->labels.size(); ++i)
            if (seen.find(x->labels[i]) == std::string::npos) {
                seen += x->labels[i];
                n *= static_cast<double>(x->extents[static_cast<int>(i)]);
            }
    return n;
}

/// All products, side by side where there are many small ones. The first failure in their order is thrown.
double run_all(const Product& p, const Resources& here, int count, const void* alpha, const void** a, const void** b,
               const void* beta, const void** c, void** d) {
    const auto one = [&](int i, const Resources& with) {
        return run(p, with, alpha, a[i], b[i], beta, c ? c[i] : nullptr, d[i]);
    };
    double flops = 0;
    const int threads = here.threads > 0 ? here.threads : omp_get_max_threads();
    if (count < 2 || threads < 2 || multiplications(p) > kSmall) {
        for (int i = 0; i < count; ++i) flops += one(i, here);
        return flops;
    }
    Resources alone = here;
    alone.threads = 1;
    std::mutex failing;
    std::exception_ptr failure;
    int first = std::numeric_limits<int>::max();
#pragma omp parallel for num_threads(std::min(threads, count)) schedule(dynamic, 8) reduction(+ : flops)
    for (int i = 0; i < count; ++i) {
        try {
            flops += one(i, alone);
        } catch (...) {
            const std::lock_guard lock(failing);
            if (i < first) {
                first = i;
                failure = std::current_exception();
            }
        }
    }
    if (failure) std::rethrow_exception(failure);
    return flops;
}

TAPP_error execute(TAPP_tensor_product plan, TAPP_executor exec, TAPP_status* status, int count, const void* alpha,
                   const void** a, const void** b, const void* beta, const void** c, void** d) {
    return guarded([&] {
        if (status) *status = 0;
        const auto& p = object<Product>(plan, "plan");
        if (p.refusal) throw *p.refusal;
        Resources here;
        if (exec) {
            const auto& with = object<Executor>(exec, "exec");
            here.threads = with.threads;
            here.memory = with.memory;
        }
        if (count < 0) throw Refusal{TAPP_TESSERA_ARGUMENT, "num_batches is " + text_of(count)};
        not_null(alpha, "alpha");
        not_null(beta, "beta");
        if (count > 0) not_null(a, "A"), not_null(b, "B"), not_null(d, "D");
        auto made = status ? std::make_unique<Status>() : nullptr;
        const auto start = std::chrono::steady_clock::now();
        const double flops = run_all(p, here, count, alpha, a, b, beta, c, d);
        if (!made) return;
        made->flops = flops;
        made->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        *status = reinterpret_cast<std::intptr_t>(made.release());
    });
}

}  // namespace

}  // namespace tessera::tapp

using namespace tessera::tapp;

TAPP_error TAPP_create_tensor_product(TAPP_tensor_product* plan, TAPP_handle, TAPP_element_op op_A, TAPP_tensor_info A,
                                      const int64_t* idx_A, TAPP_element_op op_B, TAPP_tensor_info B,
                                      const int64_t* idx_B, TAPP_element_op op_C, TAPP_tensor_info C,
                                      const int64_t* idx_C, TAPP_element_op op_D, TAPP_tensor_info D,
                                      const int64_t* idx_D, TAPP_prectype prec) {
    return guarded([&] {
        not_null(plan, "plan");
        *plan = 0;
        auto made = std::make_unique<Product>();
        try {
            const Given a = given("A", A, idx_A, op_A), b = given("B", B, idx_B, op_B), c = given("C", C, idx_C, op_C),
                        d = given("D", D, idx_D, op_D);
            check(a, b, c, d);
            Letters letters;
            made->a = operand(a, op_A == TAPP_CONJUGATE, letters);
            made->b = operand(b, op_B == TAPP_CONJUGATE, letters);
            made->c = operand(c, op_C == TAPP_CONJUGATE, letters);
            made->d = operand(d, op_D == TAPP_CONJUGATE, letters);
            check_apart(made->d);
            made->arithmetic = arithmetic_of(*made, prec);
        } catch (const Refusal& refusal) {
            made->refusal = refusal;
        }
        const auto refusal = made->refusal;
        *plan = reinterpret_cast<std::intptr_t>(made.release());
        if (refusal) throw *refusal;
    });
}

TAPP_error TAPP_destroy_tensor_product(TAPP_tensor_product plan) {
    return guarded([&] { delete &object<Product>(plan, "plan"); });
}

TAPP_error TAPP_execute_product(TAPP_tensor_product plan, TAPP_executor exec, TAPP_status* status, const void* alpha,
                                const void* A, const void* B, const void* beta, const void* C, void* D) {
    return execute(plan, exec, status, 1, alpha, &A, &B, beta, &C, &D);
}

TAPP_error TAPP_execute_batched_product(TAPP_tensor_product plan, TAPP_executor exec, TAPP_status* status,
                                        int num_batches, const void* alpha, const void** A, const void** B,
                                        const void* beta, const void** C, void** D) {
    return execute(plan, exec, status, num_batches, alpha, A, B, beta, C, D);
}
