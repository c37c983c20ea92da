// Inverse and root of the inverse, by Newton and Schulz. Their errors are known from what is left of the identity in
// the end, whatever was filtered on the way.
#include <algorithm>
#include <cmath>
#include <limits>

#include "matrix/inverse_factor.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {

namespace {

/// Z* S Z - 1, of S as it is. With its error: rounding and what the filter drops of S Z.
template <Scalar T>
class Defect {
  public:
    Tensor<T> operator()(const Tensor<T>& s, const Tensor<T>& z, double filter, const Resources& here,
                         MatrixReport& report, MatrixStep& step) {
        auto half = right_(s, z, here, report, step);
        const auto dropped = drop_small_tiles(half, filter, kept_ ? &*kept_ : nullptr, here.threads);
        kept_ = half.shape();
        auto t = left_(z, half, here, report, step);
        error_ = spectral_bound(z.shape()) * (right_.rounding() + dropped) + left_.rounding();
        add_on_diagonal(t, T(-1));
        return t;
    }
    const ErrorNorms& error() const { return error_; }

  private:
    KeptProduct<T> right_{"ik,kj->ij"}, left_{"ki,kj->ij", 1, is_complex<T>};
    std::optional<Shape> kept_;
    ErrorNorms error_;
};

}  // namespace

template <Scalar T>
InverseFactor<T> inverse_factor(const char* operation, const Tensor<T>& given, const MatrixOptions& options,
                                const Resources& here, MatrixReport& report) {
    const Tensor<T> s = symmetric_part(operation, given);
    InverseFactor<T> out;
    if (s.grid().element_total() == 0) {
        out.z = s;
        return out;
    }
    const Extremes discs = gershgorin_interval(s, here.threads),
                   found = extremal_eigenvalues(s, 1e-2, 60, here.threads);
    require(found.lowest > 0, "{}: the matrix is not positive definite: it has an eigenvalue of {:.6g} or below",
            operation, found.lowest);
    const double highest = std::min(discs.highest, found.highest + 2 * found.highest_error + 0.01 * found.highest);
    report.lowest = std::max(discs.lowest, found.lowest - found.lowest_error);
    report.highest = highest;
    // Any c below 3 / highest converges.
    out.z = identity_like(s, 1 / std::sqrt(0.6 * highest));

    Defect<T> defect;
    KeptProduct<T> half("ik,kj->ij", -0.5);
    const Convergence convergence(operation, options, 1);
    std::optional<Shape> kept;
    for (double left_out = 0;;) {
        const double begin = now_seconds();
        MatrixStep step = step_of(out.z, left_out);
        auto t = defect(s, out.z, options.filter, here, report, step);
        step.residual = norm(t);
        step.seconds = now_seconds() - begin;
        if (convergence.done(report, step)) {
            const double spectral = std::min(step.residual, spectral_bound(t.shape()));
            out.delta = ErrorNorms{step.residual, spectral} + defect.error();
            return out;
        }
        // Z (3 - T) / 2 = Z - Z (T - 1) / 2
        const auto dropped_t = drop_small_tiles(t, options.filter, kept ? &*kept : nullptr, here.threads);
        kept = t.shape();
        auto next = half(out.z, t, here, report, step);
        combine_into(1, out.z, 1, next, here.threads);
        const auto dropped = drop_small_tiles(next, options.filter, &out.z.shape(), here.threads);
        out.z = std::move(next);
        left_out = dropped.frobenius + dropped_t.frobenius;
        complete_step(report, step, begin);
    }
}

template <Scalar T>
MatrixResult<T> sqrt_inverse(const Tensor<T>& a, const MatrixOptions& options, const Resources& here) {
    if (a.on_devices())
        return through_host(
            a, here, [&](const Tensor<T>& x, const Resources& there) { return sqrt_inverse(x, options, there); });
    const double start = now_seconds();
    require_options("sqrt_inverse", options);
    require_same_options("sqrt_inverse", a.communicator(), options);
    MatrixResult<T> out;
    auto& report = out.report;
    auto factor = inverse_factor("sqrt_inverse", a, options, here, report);
    out.matrix = symmetrised(std::move(factor.z), here.threads);
    // What that has changed is seen in the defect. Z = A^(-1/2) M^(1/2) A^(-1/2) with M = A^(1/2) (1 + delta) A^(1/2).
    MatrixStep step;
    Defect<T> defect;
    const auto s = symmetric_part("sqrt_inverse", a);
    const auto t = defect(s, out.matrix, options.filter, here, report, step);
    const double delta = norm(t) + defect.error().frobenius;
    report.residual = norm(t);
    report.error = std::numeric_limits<double>::infinity();
    if (delta < 1) {
        const double size = spectral_bound(out.matrix.shape()), lowest = (1 - delta) / (size * size);
        report.error = std::min(spectral_bound(s.shape()), report.highest) * delta /
                       (lowest * std::sqrt(lowest) * (1 + std::sqrt(1 - delta)));
    }
    report.seconds = now_seconds() - start;
    return out;
}

template <Scalar T>
MatrixResult<T> inverse(const Tensor<T>& a, const MatrixOptions& options, const Resources& here) {
    if (a.on_devices())
        return through_host(a, here,
                            [&](const Tensor<T>& x, const Resources& there) { return inverse(x, options, there); });
    const double start = now_seconds();
    require_options("inverse", options);
    require_same_options("inverse", a.communicator(), options);
    require_square_tiles("inverse", a);
    MatrixResult<T> out;
    auto& report = out.report;
    Tensor<T>& x = out.matrix;
    const double rows = gershgorin_norm(a);
    if (a.grid().element_total() == 0) {
        x = a;
        return out;
    }
    require(rows > 0, "inverse: the matrix is zero, and has no inverse");
    x = permute(a, Permutation({1, 0}), here.threads);
    const double columns = gershgorin_norm(x);
    x.update_tiles(
        [&](const TileInfo&, std::span<T> tile) {
            for (T& e : tile) {
                if constexpr (is_complex<T>) e = std::conj(e);
                e *= static_cast<RealOf<T>>(1 / (rows * columns));
            }
        },
        here.threads);
    if (!(x.distribution() == a.distribution())) x = redistribute(x, a.distribution());

    KeptProduct<T> product("ik,kj->ij", -1), correction("ik,kj->ij");
    const Convergence convergence("inverse", options, 1);
    std::optional<Shape> kept;
    for (double left_out = 0;;) {
        const double begin = now_seconds();
        MatrixStep step = step_of(x, left_out);
        auto r = product(a, x, here, report, step);
        add_on_diagonal(r, T(1));
        step.residual = norm(r);
        step.seconds = now_seconds() - begin;
        if (convergence.done(report, step)) {
            // 1 - A X = R: A^-1 - X = A^-1 R = X (1 - R)^-1 R
            const double rest = step.residual + product.rounding().frobenius;
            report.error =
                rest < 1 ? spectral_bound(x.shape()) * rest / (1 - rest) : std::numeric_limits<double>::infinity();
            break;
        }
        const auto dropped_r = drop_small_tiles(r, options.filter, kept ? &*kept : nullptr, here.threads);
        kept = r.shape();
        auto next = correction(x, r, here, report, step);
        combine_into(1, x, 1, next, here.threads);
        const auto dropped = drop_small_tiles(next, options.filter, &x.shape(), here.threads);
        x = std::move(next);
        left_out = dropped.frobenius + dropped_r.frobenius;
        complete_step(report, step, begin);
    }
    report.seconds = now_seconds() - start;
    return out;
}

#define TESSERA_INSTANTIATE(T)                                                                                      \
    template InverseFactor<T> inverse_factor(const char*, const Tensor<T>&, const MatrixOptions&, const Resources&, \
                                             MatrixReport&);                                                        \
    template MatrixResult<T> sqrt_inverse(const Tensor<T>&, const MatrixOptions&, const Resources&);                \
    template MatrixResult<T> inverse(const Tensor<T>&, const MatrixOptions&, const Resources&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
