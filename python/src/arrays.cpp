// Contractions of NumPy arrays where they lie. What NumPy's einsum does besides (implicit results, ellipsis, more than
// two operands) is written in terms of these in tessera/_einsum.py.

#include <nanobind/nanobind.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>

#include "module.hpp"
#include "python_array.hpp"
#include "tessera/base/error.hpp"
#include "tessera/contract/arrays.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::python {

using namespace nb::literals;

namespace {

/// Below this many multiply-adds other Python threads wait: handing over the GIL costs as much as the work.
constexpr double kShortWork = 1e5;

struct Factors {
    std::complex<double> alpha, beta;
    bool conjugate_a = false, conjugate_b = false;
    int threads = 0;
};

/// The labels of "ij,jk->ik"; canonical text, without spaces.
struct Labels {
    std::string_view a, b, c;
    explicit Labels(std::string_view spec) {
        const auto arrow = spec.find("->"), comma = std::min(spec.find(','), arrow);
        a = spec.substr(0, comma);
        if (comma < arrow) b = spec.substr(comma + 1, arrow - comma - 1);
        c = arrow < spec.size() ? spec.substr(arrow + 2) : std::string_view();
    }
};

using Extents = std::array<std::int64_t, 256>;  // by label

/// Notes the extent of each label; one of 1 gives way to a larger one.
void note(Extents& known, std::string_view labels, const IndexVector& extents) {
    if (static_cast<int>(labels.size()) != extents.size()) return;  // contract() says so
    for (int d = 0; d < extents.size(); ++d) {
        auto& n = known[static_cast<unsigned char>(labels[d])];
        if (n == 0 || n == 1) n = std::max(n, extents[d] == 0 ? -1 : extents[d]);
        if (extents[d] == 0) n = -1;
    }
}

/// NumPy's broadcasting: an index of one element is repeated as often as the other operand's index has elements.
void broadcast(const Extents& known, std::string_view labels, PythonArray& x) {
    if (static_cast<int>(labels.size()) != x.extents.size()) return;
    for (int d = 0; d < x.extents.size(); ++d) {
        const auto n = known[static_cast<unsigned char>(labels[d])];
        if (x.extents[d] != 1 || n == 1 || labels.find(labels[d]) != labels.rfind(labels[d])) continue;
        x.extents[d] = std::max<std::int64_t>(n, 0);
        x.strides[d] = 0;
    }
}

double multiply_adds(const Extents& known, const Labels& labels) {
    double n = 1;
    std::array<bool, 256> seen{};
    for (const auto group : {labels.a, labels.b})
        for (const char l : group)
            if (!std::exchange(seen[static_cast<unsigned char>(l)], true))
                n *= static_cast<double>(std::max<std::int64_t>(known[static_cast<unsigned char>(l)], 0));
    return n;
}

/// An array of no index is handed over as a NumPy scalar, as by NumPy.
nb::object handed_over(nb::object array, bool is_new, const IndexVector& extents) {
    return is_new && extents.size() == 0 ? nb::object(array[nb::tuple()]) : array;
}

/// The result: the caller's array, or a new one.
PythonArray result_array(nb::object out, const IndexVector& extents, ScalarKind kind) {
    if (out.is_none()) return PythonArray::result(empty_array(extents, kind), "the result");
    auto c = PythonArray::result(std::move(out), "out");
    if (c.kind() != kind)
        throw UserError("out has elements of type " + std::string(name(c.kind())) + ", the result has " +
                        std::string(name(kind)));
    if (!(c.extents == extents))
        throw UserError("out has shape " + to_string(c.extents) + ", the result has " + to_string(extents));
    return c;
}

template <Scalar T>
void contract_views(std::string_view spec, const ArrayView<const T>& a, const ArrayView<const T>& b,
                    const ArrayView<T>& c, const Factors& by, bool long_work) {
    Resources here;
    here.threads = by.threads;
    ContractOptions options;
    options.alpha = by.alpha;
    options.beta = by.beta;
    options.conjugate_a = by.conjugate_a;
    options.conjugate_b = by.conjugate_b;
    std::optional<nb::gil_scoped_release> others_run;
    if (long_work) others_run.emplace();
    contract_into(spec, a, b, c, here, options);
}

nb::object contract_two(const std::string& spec, nb::object a_in, nb::object b_in, nb::object out,
                        std::complex<double> alpha, std::complex<double> beta, bool conjugate_a, bool conjugate_b,
                        int threads) {
    const bool is_new = out.is_none();
    PythonArray a(std::move(a_in), "A"), b(std::move(b_in), "B");
    const auto kind = common_kind(a.kind(), b.kind());
    if (a.kind() != kind) a = std::move(a).as(kind);
    if (b.kind() != kind) b = std::move(b).as(kind);
    const Labels labels(spec);
    Extents known{};
    note(known, labels.a, a.extents);
    note(known, labels.b, b.extents);
    broadcast(known, labels.a, a);
    broadcast(known, labels.b, b);
    const PythonArray c = result_array(std::move(out), result_extents(spec, a.extents, b.extents), kind);
    const Factors by{alpha, beta, conjugate_a, conjugate_b, threads};
    const bool long_work = multiply_adds(known, labels) > kShortWork;
    with_scalar(kind, [&](auto type) {
        using T = decltype(type);
        contract_views<T>(spec, a.view<const T>(), b.view<const T>(), c.view<T>(), by, long_work);
    });
    return handed_over(c.object(), is_new, c.extents);
}

/// One operand: permuted, its diagonal, or sums of it.
nb::object contract_one(const std::string& spec, nb::object a_in, nb::object out, std::complex<double> alpha,
                        std::complex<double> beta, bool conjugate, int threads) {
    const bool is_new = out.is_none();
    const PythonArray a(std::move(a_in), "A");
    const Labels labels(spec);
    // What is summed is contracted with ones; a permutation is an outer product with a one.
    std::string summed;
    for (const char l : labels.a)
        if (labels.c.find(l) == std::string_view::npos && summed.find(l) == std::string::npos) summed += l;
    const std::string text = std::string(labels.a) + "," + summed + "->" + std::string(labels.c);
    IndexVector ones, steps;
    for (const char l : summed) {
        const auto d = static_cast<int>(labels.a.find(l));
        ones.push_back(d < a.extents.size() ? a.extents[d] : 0);
        steps.push_back(0);
    }
    const PythonArray c = result_array(std::move(out), result_extents(text, a.extents, ones), a.kind());
    const Factors by{alpha, beta, conjugate, false, threads};
    with_scalar(a.kind(), [&](auto type) {
        using T = decltype(type);
        const T one(1);
        const bool long_work = static_cast<double>(a.extents.product()) > kShortWork;
        const ArrayView<const T> b{&one, ones, steps};
        contract_views<T>(text, a.view<const T>(), b, c.view<T>(), by, long_work);
    });
    return handed_over(c.object(), is_new, c.extents);
}

/// Any number of operands, the pairs in the order that counts of work give.
nb::object contract_many(const std::string& spec, const nb::list& objects, nb::object out, int threads) {
    const bool is_new = out.is_none();
    std::vector<PythonArray> arrays;
    for (std::size_t i = 0; i < objects.size(); ++i) arrays.emplace_back(objects[i], "operand " + std::to_string(i));
    auto kind = arrays.at(0).kind();
    for (const auto& x : arrays) kind = common_kind(kind, x.kind());
    std::vector<std::string_view> labels;
    for (std::string_view left = std::string_view(spec).substr(0, spec.find("->")); labels.size() < arrays.size();) {
        labels.push_back(left.substr(0, left.find(',')));
        left.remove_prefix(std::min(left.size(), labels.back().size() + 1));
    }
    Extents known{};
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        if (arrays[i].kind() != kind) arrays[i] = std::move(arrays[i]).as(kind);
        note(known, labels[i], arrays[i].extents);
    }
    std::vector<IndexVector> extents;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        broadcast(known, labels[i], arrays[i]);
        extents.push_back(arrays[i].extents);
    }
    const PythonArray c = result_array(std::move(out), result_extents(spec, extents), kind);
    with_scalar(kind, [&](auto type) {
        using T = decltype(type);
        std::vector<ArrayView<const T>> views;
        for (const auto& x : arrays) views.push_back(x.view<const T>());
        Resources here;
        here.threads = threads;
        const nb::gil_scoped_release others_run;
        contract_arrays<T>(spec, views, c.view<T>(), here);
    });
    return handed_over(c.object(), is_new, c.extents);
}

bool all_positive(const IndexVector& extents, const IndexVector& strides) {
    for (int d = 0; d < extents.size(); ++d)
        if (extents[d] > 1 && strides[d] <= 0) return false;
    return true;
}

nb::object transpose(nb::object a_in, const std::vector<int>& axes, nb::object out, int threads) {
    const PythonArray a(std::move(a_in), "a");
    const int rank = a.extents.size();
    std::uint32_t seen = 0;
    for (const int axis : axes) {
        if (axis < 0 || axis >= rank || (seen >> axis & 1) || static_cast<int>(axes.size()) != rank)
            throw UserError("axes are no permutation of 0.." + std::to_string(rank - 1));
        seen |= 1u << axis;
    }
    if (static_cast<int>(axes.size()) != rank)
        throw UserError("axes are no permutation of 0.." + std::to_string(rank - 1));
    IndexVector extents;
    for (const int axis : axes) extents.push_back(a.extents[axis]);
    const PythonArray c = result_array(std::move(out), extents, a.kind());
    if (a.extents.product() == 0) return c.object();
    if (!all_positive(a.extents, a.strides) || !all_positive(c.extents, c.strides)) {
        std::string from, to;
        for (int d = 0; d < rank; ++d) from += static_cast<char>('a' + d);
        for (const int axis : axes) to += from[axis];
        return contract_one(from + "->" + to, a.object(), c.object(), 1.0, 0.0, false, threads);
    }
    with_scalar(a.kind(), [&](auto type) {
        using T = decltype(type);
        kernels::TransposeArguments<T> how;
        how.threads = threads;
        std::optional<nb::gil_scoped_release> others_run;
        if (static_cast<double>(a.extents.product()) > kShortWork) others_run.emplace();
        const auto plan = kernels::plan_transpose(a.extents, axes, static_cast<int>(sizeof(T)), a.strides, c.strides);
        kernels::transpose<T>(plan, a.view<const T>().data, c.view<T>().data, how);
    });
    return c.object();
}

}  // namespace

void bind_arrays(nb::module_& module) {
    module.def("contract_two", &contract_two, "spec"_a, "a"_a, "b"_a, "out"_a.none() = nb::none(), "alpha"_a = 1.0,
               "beta"_a = 0.0, "conjugate_a"_a = false, "conjugate_b"_a = false, "threads"_a = 0,
               "out = alpha a b + beta out for arrays, by a spec in canonical form.");
    module.def("contract_one", &contract_one, "spec"_a, "a"_a, "out"_a.none() = nb::none(), "alpha"_a = 1.0,
               "beta"_a = 0.0, "conjugate"_a = false, "threads"_a = 0,
               "out = alpha a + beta out for one array: permuted, its diagonal, or sums of it.");
    module.def("contract_many", &contract_many, "spec"_a, "operands"_a, "out"_a.none() = nb::none(), "threads"_a = 0,
               "Any number of arrays, by a spec in canonical form.");
    module.def("transpose", &transpose, "a"_a, "axes"_a, "out"_a.none() = nb::none(), "threads"_a = 0,
               "A new array whose index d is index axes[d] of a.");
    module.def("described", &described, "object"_a.none());
}

}  // namespace tessera::python
