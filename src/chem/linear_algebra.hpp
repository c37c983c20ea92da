#pragma once
// Eigen's solvers and products of small matrices, compiled once: their templates cost seconds in every file that calls
// them.

#include <vector>

#include "chem/matrix.hpp"

namespace tessera::chem {

using ColumnMatrix = Eigen::MatrixXd;  // what Eigen's solvers work on

/// Eigenvalues, ascending, and eigenvectors as columns.
struct SymmetricEigen {
    Vector values;
    ColumnMatrix vectors;
};
SymmetricEigen symmetric_eigen(const ColumnMatrix& m);
/// x with a x = b.
Matrix solve(const ColumnMatrix& a, const ColumnMatrix& b);

/// The inverse of l, lower triangular with l l^T = a; empty where a is not positive.
Matrix inverse_cholesky(const Matrix& a);

/// left^T m right
Matrix between(const Matrix& left, const Matrix& m, const Matrix& right);
/// Eigenvalues and eigenvectors of x^T m x.
SymmetricEigen symmetric_eigen_within(const Matrix& x, const Matrix& m);
/// The largest |(m^T m - 1)(i, j)|.
double off_orthogonal(const Matrix& m);

/// The weights of Pulay's extrapolation from the overlaps of the errors: they add up to one. Errors shrink by many
/// powers of ten, so each is scaled to length one and the condition with it: the smallest error has the weight one
/// there, and no rounding can take the condition for zero. Where that fails, the last one alone.
std::vector<double> diis_weights(const ColumnMatrix& overlaps);

}  // namespace tessera::chem
