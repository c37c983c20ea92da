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

/// The Frobenius norm; and what the largest singular value is no larger than, and neither is that of the magnitudes of
/// the elements: by the norms of tiles. A tile with symmetry counts for its mirror image too.
ErrorNorms norms_of(const Shape& a);
inline double spectral_bound(const Shape& a) { return norms_of(a).spectral; }

/// A bound of the rounding of a product, to first order.
template <Scalar T>
ErrorNorms rounding_of_product(const Shape& a, const Shape& b, const std::string& spec);

/// Of a symmetric matrix, hermitian where elements are complex.
template <Scalar T>
Symmetry matrix_symmetry() {
    return is_complex<T> ? "ij=ji*" : "ij=ji";
}

template <Scalar T>
double real_trace(const Tensor<T>& x);

/// A step that begins with x, from which the last one left this out; and its end, after it was entered into the
/// history.
template <Scalar T>
MatrixStep step_of(const Tensor<T>& x, double left_out);
void complete_step(MatrixReport& report, const MatrixStep& step, double begin);

/// Products of one kind, one after the other: the plan stays while the operands have the same tiles.
template <Scalar T>
class KeptProduct {
  public:
    KeptProduct(std::string spec, double alpha = 1, bool conjugate_a = false, Symmetry result = {})
        : spec_(std::move(spec)), alpha_(alpha), conjugate_a_(conjugate_a), result_(std::move(result)) {}
    /// Adds to the report, and to the step.
    Tensor<T> operator()(const Tensor<T>& a, const Tensor<T>& b, const Resources& here, MatrixReport& report,
                         MatrixStep& step);
    /// Of the last product's rounding; alpha included.
    const ErrorNorms& rounding() const { return rounding_; }

  private:
    std::string spec_;
    double alpha_;
    bool conjugate_a_;
    Symmetry result_;  // with one, a triangle of tiles is computed
    std::optional<PlannedContraction> planned_;
    ErrorNorms rounding_;
};

/// Drops tiles whose norm is below the filter and whose mirror image's is too. Where `before` has all tiles that are to
/// stay, and few more, its tiles are kept: the next product then needs no new plan.
template <Scalar T>
ErrorNorms drop_small_tiles(Tensor<T>& x, double filter, const Shape* before, int threads);

/// Of x - y, which is not made. Of an x with symmetry y is the whole.
template <Scalar T>
ErrorNorms distance(const Tensor<T>& x, const Tensor<T>& y, int threads);

/// Makes y alpha x + beta y, with x's tiles where y has none. Of a y with symmetry x is the whole, and tiles of the
/// diagonal become symmetric to the bit.
template <Scalar T>
void combine_into(double alpha, const Tensor<T>& x, double beta, Tensor<T>& y, int threads);

/// Makes x the identity minus x. With symmetry, tiles of the diagonal become symmetric to the bit.
template <Scalar T>
void subtract_from_identity(Tensor<T>& x, int threads);

/// Makes the tiles of a symmetric matrix's diagonal symmetric to the bit, as products of real numbers are.
template <Scalar T>
void symmetrise_diagonal(Tensor<T>& x, int threads);

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
