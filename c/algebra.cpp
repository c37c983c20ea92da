// Sums, norms and functions of matrices.

#include <algorithm>

#include "object.hpp"
#include "tessera/tensor/matrix.hpp"

using namespace tessera;
using namespace tessera::c;

namespace {

template <class Work>
int visit(tessera_tensor tensor, const Work& work) {
    return guarded([&] { std::visit(work, any(tensor, "tensor")); });
}

/// As many values as the matrix has rows or columns.
template <Scalar T>
std::span<const T> values_of(const Tensor<T>& a, int index, const void* values) {
    if (a.rank() != 2) refuse("a tensor of rank " + std::to_string(a.rank()) + " is no matrix");
    return {static_cast<const T*>(given(values, "values")), static_cast<std::size_t>(a.grid().tiling(index).extent())};
}

}  // namespace

int tessera_scale(tessera_tensor x, const double factor[2]) {
    return visit(x, [&]<class T>(Tensor<T>& t) { scale(t, number<T>(factor, "factor")); });
}

int tessera_axpy(const double alpha[2], tessera_tensor x, tessera_tensor y) {
    return visit(x, [&]<class T>(const Tensor<T>& t) { axpy(number<T>(alpha, "alpha"), t, of_type<T>(y, "y")); });
}

int tessera_dot(tessera_tensor x, tessera_tensor y, double result[2]) {
    return visit(x,
                 [&]<class T>(const Tensor<T>& t) { number_out(given(result, "result"), dot(t, of_type<T>(y, "y"))); });
}

int tessera_norm(tessera_tensor x, double* result) {
    return visit(x, [&](const auto& t) { *given(result, "norm") = norm(t); });
}

int tessera_max_abs(tessera_tensor x, double* largest) {
    return visit(x, [&](const auto& t) { *given(largest, "largest") = max_abs(t); });
}

int tessera_filter(tessera_tensor x, double threshold, tessera_tensor* y) {
    return visit(x, [&](const auto& t) {
        given(y, "y");
        give(y, filter(t, threshold));
    });
}

int tessera_hadamard(tessera_tensor x, tessera_tensor y, tessera_tensor* z) {
    return visit(x, [&]<class T>(const Tensor<T>& t) {
        given(z, "z");
        give(z, hadamard(t, of_type<T>(y, "y")));
    });
}

int tessera_checksum(tessera_tensor x, uint64_t* result) {
    return visit(x, [&](const auto& t) { *given(result, "checksum") = checksum(t); });
}

int tessera_trace(tessera_tensor a, double result[2]) {
    return visit(a, [&](const auto& t) { number_out(given(result, "result"), trace(t)); });
}

int tessera_trace_product(tessera_tensor a, tessera_tensor b, double result[2]) {
    return visit(
        a, [&]<class T>(const Tensor<T>& t) { number_out(given(result, "result"), trace(t, of_type<T>(b, "b"))); });
}

int tessera_diagonal(tessera_tensor a, void* values) {
    return visit(a, [&]<class T>(const Tensor<T>& t) {
        given(values, "values");
        const auto all = diagonal(t);
        std::copy(all.begin(), all.end(), static_cast<T*>(values));
    });
}

int tessera_set_diagonal(tessera_tensor a, const void* values) {
    return visit(a, [&](auto& t) { set_diagonal(t, values_of(t, 0, values)); });
}

int tessera_add_on_diagonal(tessera_tensor a, const double alpha[2]) {
    return visit(a, [&]<class T>(Tensor<T>& t) { add_on_diagonal(t, number<T>(alpha, "alpha")); });
}

int tessera_triangle(tessera_tensor a, int upper, tessera_tensor* part) {
    return visit(a, [&](const auto& t) {
        given(part, "part");
        give(part, triangle(t, upper ? Triangle::upper : Triangle::lower));
    });
}

int tessera_scale_rows(tessera_tensor a, const void* values) {
    return visit(a, [&](auto& t) { scale_rows(t, values_of(t, 0, values)); });
}

int tessera_scale_columns(tessera_tensor a, const void* values) {
    return visit(a, [&](auto& t) { scale_columns(t, values_of(t, 1, values)); });
}

int tessera_gershgorin_norm(tessera_tensor a, double* result) {
    return visit(a, [&](const auto& t) { *given(result, "norm") = gershgorin_norm(t); });
}

int tessera_column_norms(tessera_tensor a, double* norms) {
    return visit(a, [&](const auto& t) {
        given(norms, "norms");
        const auto all = column_norms(t);
        std::copy(all.begin(), all.end(), norms);
    });
}
