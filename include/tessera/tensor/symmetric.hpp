#pragma once
// Tensors with symmetry (shape/symmetry.hpp): of tiles that follow from each other one is stored, the first of them.
// They are contracted, added, scaled, filtered, converted, redistributed and written as they are; norm, dot, to_dense
// and operands of an einsum are those of the whole tensor. What knows no symmetry (slices, other tiles, functions of
// matrices, batches, bounds, sums and permutations of one operand) refuses it and says so: desymmetrise first.

#include "tessera/base/api.hpp"
#include "tessera/tensor/tensor.hpp"

namespace TESSERA_API tessera {

/// All tiles of x, without symmetry; dealt as x is. Collective.
template <Scalar T>
TESSERA_API Tensor<T> desymmetrise(const Tensor<T>& x, int threads = 0);

/// The tiles of x that are stored with this symmetry: with_symmetry(x, "ij=ji"). UserError naming a tile where x does
/// not have it: a tile differs from what it follows from by a norm of more than tolerance times norm(x). Collective.
template <Scalar T>
TESSERA_API Tensor<T> with_symmetry(const Tensor<T>& x, const Symmetry& symmetry, double tolerance = 0);

/// Tiles that were made as those that are stored, one triangle of a matrix: from now on they stand for the others.
/// Tiles that are exchanged with themselves, as those on the diagonal of a matrix, are taken whole, as they are.
/// UserError naming a tile of x that another one stands for.
template <Scalar T>
TESSERA_API Tensor<T> from_stored(Tensor<T> x, const Symmetry& symmetry);

}  // namespace tessera
