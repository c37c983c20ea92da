#pragma once
// Small dense matrices of the self-consistent field: overlap, Fock, orbital coefficients. Solvers and products of them
// are in linear_algebra.hpp.

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

namespace tessera::chem {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

}  // namespace tessera::chem
