#pragma once
// Pulay's extrapolation: the combination of the last iterates whose errors cancel best.

#include <deque>
#include <functional>

#include "chem/matrix.hpp"

namespace tessera::chem {

template <class Iterate>
class Diis {
  public:
    using Dot = std::function<double(const Iterate& a, const Iterate& b)>;
    Diis(int most, Dot dot) : most_(most), dot_(std::move(dot)) {}

    /// Takes an iterate and its error. Combine then takes the coefficients, one for each kept iterate, oldest first.
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

    std::vector<double> coefficients() const {
        const auto n = static_cast<Eigen::Index>(errors_.size());
        Eigen::MatrixXd b = Eigen::MatrixXd::Constant(n + 1, n + 1, -1.0);
        // Errors shrink by many powers of ten: scaled, or the newest would drown.
        const double scale = std::max(overlaps_.diagonal().minCoeff(), 1e-300);
        b.topLeftCorner(n, n) = overlaps_ / scale;
        b(n, n) = 0;
        Eigen::VectorXd right = Eigen::VectorXd::Zero(n + 1);
        right(n) = -1;
        const Eigen::VectorXd x = b.fullPivHouseholderQr().solve(right);
        std::vector<double> out(x.data(), x.data() + n);
        if (!x.allFinite()) {
            out.assign(static_cast<std::size_t>(n), 0.0);
            out.back() = 1;
        }
        return out;
    }

  private:
    int most_;
    Dot dot_;
    std::deque<Iterate> iterates_, errors_;
    Eigen::MatrixXd overlaps_;
};

}  // namespace tessera::chem
