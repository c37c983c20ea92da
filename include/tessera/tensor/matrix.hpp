#pragma once
// Functions of block-sparse matrices (tensors of rank 2), and products element by element. All are collective, and give
// the bits of one rank. Where a matrix must be square, its rows and columns may still be cut into different tiles.

#include <span>
#include <type_traits>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// Sum of the diagonal of a square matrix.
template <Scalar T>
TESSERA_API T trace(const Tensor<T>& a);
/// The trace of the matrix product a b, which is not computed. B moves to a's tiles where it is not dealt as
/// a.distribution().permuted({1, 0}).
template <Scalar T>
TESSERA_API T trace(const Tensor<T>& a, const Tensor<T>& b);

/// The diagonal of a square matrix, on every rank.
template <Scalar T>
TESSERA_API std::vector<T> diagonal(const Tensor<T>& a);
/// Makes these values (the same on all ranks) the diagonal; tiles that meet it are stored from then on.
template <Scalar T>
TESSERA_API void set_diagonal(Tensor<T>& a, std::span<const std::type_identity_t<T>> values);
/// a + alpha times the identity; likewise.
template <Scalar T>
TESSERA_API void add_on_diagonal(Tensor<T>& a, std::type_identity_t<T> alpha);

enum class Triangle { upper, lower };
/// The elements on and above the diagonal (upper: column >= row), or on and below it; the others are zero.
template <Scalar T>
TESSERA_API Tensor<T> triangle(const Tensor<T>& a, Triangle which);

/// Row i times values[i], and column j times values[j]. The values are the same on all ranks.
template <Scalar T>
TESSERA_API void scale_rows(Tensor<T>& a, std::span<const std::type_identity_t<T>> values);
template <Scalar T>
TESSERA_API void scale_columns(Tensor<T>& a, std::span<const std::type_identity_t<T>> values);

/// Root of the sum of the squares of the elements: norm(a).
template <Scalar T>
TESSERA_API double frobenius(const Tensor<T>& a);
/// The largest sum of magnitudes along a row: no eigenvalue of a square matrix is larger.
template <Scalar T>
TESSERA_API double gershgorin_norm(const Tensor<T>& a);
/// The Euclidean norm of each column, on every rank.
template <Scalar T>
TESSERA_API std::vector<double> column_norms(const Tensor<T>& a);

/// Element times element, of tensors of any rank with the same tilings; nonzero where both have a tile. Dealt as a.
template <Scalar T>
TESSERA_API Tensor<T> hadamard(const Tensor<T>& a, const Tensor<T>& b);

}  // namespace tessera
