#include "chem/linear_algebra.hpp"

#include "chem/eigenvalues.hpp"

#include <Eigen/Dense>

#include <cmath>

namespace tessera::chem {

namespace {

SymmetricEigen pairs_of(const Eigen::SelfAdjointEigenSolver<ColumnMatrix>& solver) {
    return {solver.eigenvalues(), solver.eigenvectors()};
}

}  // namespace

SymmetricEigen symmetric_eigen(const ColumnMatrix& m) {
    return pairs_of(Eigen::SelfAdjointEigenSolver<ColumnMatrix>(m));
}

SymmetricEigen symmetric_eigen_within(const Matrix& x, const Matrix& m) {
    return pairs_of(Eigen::SelfAdjointEigenSolver<ColumnMatrix>(x.transpose() * m * x));
}

Matrix solve(const ColumnMatrix& a, const ColumnMatrix& b) { return a.fullPivHouseholderQr().solve(b); }

Matrix inverse_cholesky(const Matrix& a) {
    const Eigen::LLT<ColumnMatrix> llt(a);
    if (llt.info() != Eigen::Success) return {};
    ColumnMatrix inverse = ColumnMatrix::Identity(a.rows(), a.rows());
    llt.matrixL().solveInPlace(inverse);
    return inverse;
}

Matrix between(const Matrix& left, const Matrix& m, const Matrix& right) { return left.transpose() * m * right; }

double off_orthogonal(const Matrix& m) {
    return (m.transpose() * m - Matrix::Identity(m.cols(), m.cols())).cwiseAbs().maxCoeff();
}

std::vector<double> diis_weights(const ColumnMatrix& overlaps) {
    const auto n = overlaps.rows();
    const Vector length = overlaps.diagonal().cwiseMax(1e-300).cwiseSqrt();
    const Vector weight = length.minCoeff() * length.cwiseInverse();
    ColumnMatrix b = ColumnMatrix::Zero(n + 1, n + 1);
    b.topLeftCorner(n, n) = length.cwiseInverse().asDiagonal() * overlaps * length.cwiseInverse().asDiagonal();
    b.topRightCorner(n, 1) = weight;
    b.bottomLeftCorner(1, n) = weight.transpose();
    ColumnMatrix right = ColumnMatrix::Zero(n + 1, 1);
    right(n, 0) = 1;
    const Vector x = solve(b, right).col(0).head(n).cwiseProduct(weight);
    std::vector<double> out(static_cast<std::size_t>(n), 0.0);
    if (x.allFinite() && std::abs(x.sum() - 1) < 1e-6)
        for (Eigen::Index i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = x(i) / x.sum();
    else
        out.back() = 1;
    return out;
}

std::vector<double> symmetric_eigenvalues(const std::vector<double>& matrix, std::int64_t rows) {
    if (rows == 0) return {};
    const Eigen::Map<const ColumnMatrix> m(matrix.data(), rows, rows);
    const Eigen::SelfAdjointEigenSolver<ColumnMatrix> solved(m, Eigen::EigenvaluesOnly);
    return {solved.eigenvalues().begin(), solved.eigenvalues().end()};
}

}  // namespace tessera::chem
