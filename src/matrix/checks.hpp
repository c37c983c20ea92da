#pragma once
// What functions of matrices ask of them.

#include "base/check.hpp"
#include "tessera/matrix/functions.hpp"

namespace tessera {

/// UserError unless it is a matrix with the same tiles along rows and columns.
template <Scalar T>
void require_square_tiles(const char* operation, const Tensor<T>& a);

/// The matrix itself where it is symmetric to the bit, else half the sum with its (conjugate) transpose. UserError
/// where that is further away than rounding.
template <Scalar T>
Tensor<T> symmetric_part(const char* operation, const Tensor<T>& a);

/// (a + its conjugate transpose) / 2
template <Scalar T>
Tensor<T> symmetrised(Tensor<T> a, int threads);

void require_options(const char* operation, const MatrixOptions& options);

/// Ranks that ask for different things would wait for each other.
void require_same_options(const char* operation, Communicator& ranks, const MatrixOptions& options);

}  // namespace tessera
