#pragma once
// Z with Z* S Z = 1.

#include "matrix/iteration.hpp"

namespace tessera {

template <Scalar T>
struct InverseFactor {
    Tensor<T> z;       // nearly the symmetric one
    ErrorNorms delta;  // of Z* S Z - 1
};
/// By Newton and Schulz in the form that rounding and filters do not upset (Niklasson): Z <- Z (3 - Z* S Z) / 2.
template <Scalar T>
InverseFactor<T> inverse_factor(const char* operation, const Tensor<T>& s, const MatrixOptions& options,
                                const Resources& here, MatrixReport& report);

}  // namespace tessera
