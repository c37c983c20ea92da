// Sign by Newton and Schulz: X <- X (3 - X X) / 2, as X + X (1 - X X) / 2: tiles of 1 - X X fall below the filter as X
// converges, and then cost nothing.
#include <algorithm>
#include <cmath>

#include "matrix/spectral_steps.hpp"
#include "tessera/tensor/matrix.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {

template <Scalar T>
MatrixResult<T> sign(const Tensor<T>& a, const MatrixOptions& options, const Resources& here) {
    if (a.on_devices())
        return through_host(a, here,
                            [&](const Tensor<T>& x, const Resources& there) { return sign(x, options, there); });
    const double start = now_seconds();
    require_options("sign", options);
    require_same_options("sign", a.communicator(), options);
    MatrixResult<T> out;
    auto& report = out.report;
    Tensor<T>& x = out.matrix = symmetric_part("sign", a);
    const Extremes range = interval_of(x, options, here.threads);
    report.lowest = range.lowest;
    report.highest = range.highest;
    const double scaled = std::max(std::abs(range.lowest), std::abs(range.highest));
    require(x.grid().element_total() == 0 || scaled > 0, "sign: the matrix is zero, and its sign is not defined");
    if (scaled > 0) scale(x, static_cast<T>(static_cast<RealOf<T>>(1 / scaled)));

    // X X is symmetric, and so is X (1 - X X) but for what was left out: a triangle of each is computed.
    const Symmetry symmetric = matrix_symmetry<T>();
    KeptProduct<T> square("ik,kj->ij", 1, false, symmetric), half("ik,kj->ij", 0.5, false, symmetric);
    const Convergence convergence("sign", options, 1);
    std::vector<SpectralStep> steps;
    std::vector<ErrorNorms> residuals;
    std::optional<Shape> kept_x, kept_y;
    for (double left_out = 0;;) {
        const double begin = now_seconds();
        MatrixStep step = step_of(x, left_out);
        auto y = square(x, x, here, report, step);
        const ErrorNorms rounded = square.rounding();
        subtract_from_identity(y, here.threads);
        const auto residual = norms_of(y.shape());
        step.residual = residual.frobenius;
        residuals.push_back(residual + rounded);
        step.seconds = now_seconds() - begin;
        if (convergence.done(report, step)) {
            report.error = sign_bound(steps, residuals);
            break;
        }
        const auto dropped_y = drop_small_tiles(y, options.filter, kept_y ? &*kept_y : nullptr, here.threads);
        kept_y = y.shape();
        y = desymmetrise(y, here.threads);
        const double size = spectral_bound(x.shape());
        auto next = half(x, y, here, report, step);
        y = {};
        // E is no larger than |X| |dropped of Y|, by magnitudes; of E and its transpose, triangles are taken.
        const ErrorNorms whole = 0.5 * size * (dropped_y + rounded) + half.rounding();
        combine_into(1, x, 1, next, here.threads);
        const auto dropped = drop_small_tiles(next, options.filter, kept_x ? &*kept_x : nullptr, here.threads);
        kept_x = next.shape();
        const ErrorNorms error = ErrorNorms{std::sqrt(2.0) * whole.frobenius, 2 * whole.spectral} + dropped;
        x = desymmetrise(next, here.threads);
        steps.push_back({SpectralStep::Map::newton_sign, error});
        left_out = dropped.frobenius + dropped_y.frobenius;
        complete_step(report, step, begin);
    }
    report.seconds = now_seconds() - start;
    return out;
}

#define TESSERA_INSTANTIATE(T) template MatrixResult<T> sign(const Tensor<T>&, const MatrixOptions&, const Resources&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
