#pragma once
// Pulay's extrapolation: the combination of the last iterates whose errors cancel best.

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "chem/linear_algebra.hpp"

namespace tessera::chem {

template <class Iterate>
class Diis {
  public:
    using Dot = std::function<double(const Iterate& a, const Iterate& b)>;
    /// What was put away, each time it is needed; put away by whom knows where.
    using Kept = std::function<std::shared_ptr<const Iterate>()>;
    using Keep = std::function<Kept(Iterate x)>;
    /// keep: in memory, where nothing is said.
    Diis(int most, Dot dot, Keep keep = {}) : most_(most), dot_(std::move(dot)), keep_(std::move(keep)) {
        if (!keep_)
            keep_ = [](Iterate x) { return [here = std::make_shared<const Iterate>(std::move(x))] { return here; }; };
    }

    /// Takes an iterate and its error.
    void add(Iterate iterate, Iterate error) {
        iterates_.push_back(keep_(std::move(iterate)));
        if (static_cast<int>(iterates_.size()) > most_) {
            iterates_.pop_front();
            errors_.pop_front();
            overlaps_ = overlaps_.bottomRightCorner(most_ - 1, most_ - 1).eval();
        }
        const auto n = static_cast<Eigen::Index>(iterates_.size());
        overlaps_.conservativeResize(n, n);
        for (Eigen::Index i = 0; i + 1 < n; ++i)
            overlaps_(i, n - 1) = overlaps_(n - 1, i) = dot_(*errors_[static_cast<std::size_t>(i)](), error);
        overlaps_(n - 1, n - 1) = dot_(error, error);
        errors_.push_back(keep_(std::move(error)));
    }
    std::size_t size() const { return iterates_.size(); }
    std::shared_ptr<const Iterate> iterate(std::size_t i) const { return iterates_[i](); }

    /// The iterates in that mixture; scale(x, c) and axpy(c, x, y) are found by their type.
    Iterate combination() const {
        const auto c = coefficients();
        Iterate sum = *iterate(0);
        scale(sum, c[0]);
        for (std::size_t i = 1; i < c.size(); ++i) axpy(c[i], *iterate(i), sum);
        return sum;
    }

    /// One for each kept iterate, oldest first.
    std::vector<double> coefficients() const { return diis_weights(overlaps_); }

  private:
    int most_;
    Dot dot_;
    Keep keep_;
    std::deque<Kept> iterates_, errors_;
    ColumnMatrix overlaps_;
};

}  // namespace tessera::chem
