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

/// Calls function(a on the host, resources), for a matrix that lives on devices: its products run there, and so does
/// what comes of it go there.
template <Scalar T, class Function>
MatrixResult<T> through_host(const Tensor<T>& a, const Resources& here, Function&& function) {
    Resources there = here;
    if (there.devices.empty()) there.devices = a.placement().devices;
    auto out = function(to_host(a), there);
    out.matrix = to_devices(out.matrix, a.placement().devices);
    return out;
}

}  // namespace tessera
