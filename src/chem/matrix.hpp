#pragma once
// Small dense matrices of the self-consistent field: overlap, Fock, orbital coefficients.

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Dense>

namespace tessera::chem {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;

}  // namespace tessera::chem
