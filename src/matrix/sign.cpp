// Sign by Newton and Schulz: X <- X (3 - X X) / 2, as X + X (1 - X X) / 2: tiles of 1 - X X fall below the filter as X
// converges, and then cost nothing.
#include <algorithm>
#include <cmath>

#include "matrix/spectral_steps.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {

template <Scalar T>
MatrixResult<T> sign(const Tensor<T>& a, const MatrixOptions& options, const Resources& here) {
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

    KeptProduct<T> square("ik,kj->ij"), half("ik,kj->ij", 0.5);
    const Convergence convergence("sign", options, 1);
    std::vector<SpectralStep> steps;
    std::vector<ErrorNorms> residuals;
    std::optional<Shape> kept_y;
    for (double left_out = 0;;) {
        const double begin = now_seconds();
        MatrixStep step;
        step.left_out = left_out;
        step.tiles = x.tile_count();
        step.trace = static_cast<double>(std::real(trace(x)));
        auto y = square(x, x, here, report, step);
        const ErrorNorms rounded = square.rounding();
        subtract_from_identity(y, here.threads);
        step.residual = norm(y);
        residuals.push_back(ErrorNorms{step.residual, spectral_bound(y.shape())} + rounded);
        step.seconds = now_seconds() - begin;
        if (convergence.done(report, step)) {
            report.error = sign_bound(steps, residuals);
            break;
        }
        const auto dropped_y = drop_small_tiles(y, options.filter, kept_y ? &*kept_y : nullptr);
        kept_y = y.shape();
        const double size = spectral_bound(x.shape());
        auto next = half(x, y, here, report, step);
        ErrorNorms error = 0.5 * size * (dropped_y + rounded) + half.rounding();
        combine_into(1, x, 1, next, here.threads);
        if (options.filter > 0 || is_complex<T>) next = symmetrised(std::move(next), here.threads);
        const auto dropped = drop_small_tiles(next, options.filter, &x.shape());
        error = error + dropped;
        x = std::move(next);
        steps.push_back({SpectralStep::Map::newton_sign, error});
        left_out = dropped.frobenius + dropped_y.frobenius;
        report.history.back().planned |= step.planned;
        report.history.back().plan_seconds = step.plan_seconds;
        report.history.back().seconds = now_seconds() - begin;
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
