#pragma once
// What the iterations share: products whose plans are kept, filters, norms that bound, and the history.

#include <optional>

#include "base/clock.hpp"
#include "matrix/checks.hpp"
#include "tessera/contract/planned_contraction.hpp"

namespace tessera {

/// Bounds of an error matrix: its Frobenius norm and its largest singular value.
struct ErrorNorms {
    double frobenius = 0, spectral = 0;
};
inline ErrorNorms operator+(const ErrorNorms& x, const ErrorNorms& y) {
    return {x.frobenius + y.frobenius, x.spectral + y.spectral};
}
inline ErrorNorms operator*(double f, const ErrorNorms& x) { return {f * x.frobenius, f * x.spectral}; }

/// The largest singular value is no larger, and neither is that of the magnitudes of the elements: by the norms of
/// tiles.
double spectral_bound(const Shape& a);

/// A bound of the rounding of a product, to first order.
template <Scalar T>
ErrorNorms rounding_of_product(const Shape& a, const Shape& b, const std::string& spec);

/// Products of one kind, one after the other: the plan stays while the operands have the same tiles.
template <Scalar T>
class KeptProduct {
  public:
    KeptProduct(std::string spec, double alpha = 1, bool conjugate_a = false)
        : spec_(std::move(spec)), alpha_(alpha), conjugate_a_(conjugate_a) {}
    /// Adds to the report, and to the step.
    Tensor<T> operator()(const Tensor<T>& a, const Tensor<T>& b, const Resources& here, MatrixReport& report,
                         MatrixStep& step);
    /// Of the last product's rounding; alpha included.
    const ErrorNorms& rounding() const { return rounding_; }

  private:
    std::string spec_;
    double alpha_;
    bool conjugate_a_;
    std::optional<PlannedContraction> planned_;
    ErrorNorms rounding_;
};

/// Drops tiles whose norm is below the filter and whose mirror image's is too. Where `before` has all tiles that are to
/// stay, and few more, its tiles are kept: the next product then needs no new plan.
template <Scalar T>
ErrorNorms drop_small_tiles(Tensor<T>& x, double filter, const Shape* before);

/// Of x - y, which is not made.
template <Scalar T>
ErrorNorms distance(const Tensor<T>& x, const Tensor<T>& y, int threads);

/// Makes y alpha x + beta y, with x's tiles where y has none.
template <Scalar T>
void combine_into(double alpha, const Tensor<T>& x, double beta, Tensor<T>& y, int threads);

/// Makes x the identity minus x.
template <Scalar T>
void subtract_from_identity(Tensor<T>& x, int threads);

/// The identity, with the tiles, the tilings and the place of a matrix's diagonal.
template <Scalar T>
Tensor<T> identity_like(const Tensor<T>& a, double value = 1);

/// The interval that holds all eigenvalues, or is taken to.
Extremes widened(const Extremes& found);
template <Scalar T>
Extremes interval_of(const Tensor<T>& symmetric, const MatrixOptions& options, int threads);

/// Follows residuals: when an iteration with quadratic convergence is done, and when it never will be.
class Convergence {
  public:
    /// `lag`: over so many steps residuals are squared.
    Convergence(const char* operation, const MatrixOptions& options, int lag)
        : operation_(operation), options_(&options), lag_(static_cast<std::size_t>(lag)) {}
    /// Adds the step; true where it is the last. Throws MatrixNotConverged.
    bool done(MatrixReport& report, const MatrixStep& step) const;
    [[noreturn]] void fail(MatrixReport& report, const std::string& why) const;

  private:
    const char* operation_;
    const MatrixOptions* options_;
    std::size_t lag_;
};

}  // namespace tessera
