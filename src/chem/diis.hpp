#pragma once
// Pulay's extrapolation: the combination of the last iterates whose errors cancel best.

#include <cmath>
#include <deque>
#include <functional>
#include <vector>

#include "chem/matrix.hpp"

namespace tessera::chem {

template <class Iterate>
class Diis {
  public:
    using Dot = std::function<double(const Iterate& a, const Iterate& b)>;
    Diis(int most, Dot dot) : most_(most), dot_(std::move(dot)) {}

    /// Takes an iterate and its error.
    void add(Iterate iterate, Iterate error) {
        iterates_.push_back(std::move(iterate));
        errors_.push_back(std::move(error));
        if (static_cast<int>(iterates_.size()) > most_) {
            iterates_.pop_front();
            errors_.pop_front();
            overlaps_ = overlaps_.bottomRightCorner(most_ - 1, most_ - 1).eval();
        }
        const auto n = static_cast<Eigen::Index>(errors_.size());
        overlaps_.conservativeResize(n, n);
        for (Eigen::Index i = 0; i < n; ++i)
            overlaps_(i, n - 1) = overlaps_(n - 1, i) = dot_(errors_[static_cast<std::size_t>(i)], errors_.back());
    }
    std::size_t size() const { return iterates_.size(); }
    const Iterate& iterate(std::size_t i) const { return iterates_[i]; }

    /// The iterates in that mixture; scale(x, c) and axpy(c, x, y) are found by their type.
    Iterate combination() const {
        const auto c = coefficients();
        Iterate sum = iterates_[0];
        scale(sum, c[0]);
        for (std::size_t i = 1; i < c.size(); ++i) axpy(c[i], iterates_[i], sum);
        return sum;
    }

    /// One for each kept iterate, oldest first; they add up to one. Errors shrink by many powers of ten, so each is
    /// scaled to length one and the condition with it: the smallest error has the weight one there, and no rounding can
    /// take the condition for zero.
    std::vector<double> coefficients() const {
        const auto n = static_cast<Eigen::Index>(errors_.size());
        const Eigen::VectorXd length = overlaps_.diagonal().cwiseMax(1e-300).cwiseSqrt();
        const Eigen::VectorXd weight = length.minCoeff() * length.cwiseInverse();
        Eigen::MatrixXd b = Eigen::MatrixXd::Zero(n + 1, n + 1);
        b.topLeftCorner(n, n) = length.cwiseInverse().asDiagonal() * overlaps_ * length.cwiseInverse().asDiagonal();
        b.topRightCorner(n, 1) = weight;
        b.bottomLeftCorner(1, n) = weight.transpose();
        Eigen::VectorXd right = Eigen::VectorXd::Zero(n + 1);
        right(n) = 1;
        const Eigen::VectorXd x = b.fullPivHouseholderQr().solve(right).head(n).cwiseProduct(weight);
        std::vector<double> out(static_cast<std::size_t>(n), 0.0);
        if (x.allFinite() && std::abs(x.sum() - 1) < 1e-6)
            for (Eigen::Index i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = x(i) / x.sum();
        else
            out.back() = 1;
        return out;
    }

  private:
    int most_;
    Dot dot_;
    std::deque<Iterate> iterates_, errors_;
    Eigen::MatrixXd overlaps_;
};

}  // namespace tessera::chem
