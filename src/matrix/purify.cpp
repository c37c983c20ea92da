// Density matrices by trace-correcting purification (Niklasson): X <- X X or 2 X - X X, whichever brings the trace
// closer to the number of electrons.
#include <algorithm>
#include <cmath>

#include "matrix/inverse_factor.hpp"
#include "matrix/spectral_steps.hpp"
#include "tessera/tensor/matrix.hpp"
#include "tessera/tensor/symmetric.hpp"

namespace tessera {

namespace {

/// `first`: how far F is from what it stands for.
template <Scalar T>
MatrixResult<T> project(const Tensor<T>& f, std::int64_t electrons, const MatrixOptions& options, const Resources& here,
                        const ErrorNorms& first) {
    MatrixResult<T> out;
    auto& report = out.report;
    const std::int64_t rows = f.grid().tiling(0).extent();
    require(electrons >= 0 && electrons <= rows, "purify: {} electrons in {} states", electrons, rows);
    Tensor<T>& x = out.matrix = symmetric_part("purify", f);
    const Extremes range = interval_of(x, options, here.threads);
    report.lowest = range.lowest;
    report.highest = range.highest;
    const double width = range.highest - range.lowest;
    if (width == 0 || electrons == 0 || electrons == rows) {  // nothing to find out
        require(electrons == 0 || electrons == rows, "purify: all eigenvalues are {}, so no {} of them are lowest",
                range.lowest, electrons);
        x = electrons == 0 ? Tensor<T>(Shape(f.grid()), f.placement()) : identity_like(f);
        return out;
    }
    // The lowest eigenvalues of F are the highest of X.
    scale(x, static_cast<T>(static_cast<RealOf<T>>(-1 / width)));
    add_on_diagonal(x, static_cast<T>(static_cast<RealOf<T>>(range.highest / width)));

    KeptProduct<T> square("ik,kj->ij", 1, false, matrix_symmetry<T>());  // a triangle of X X
    const Convergence convergence("purify", options, 2);
    std::optional<Shape> kept;
    std::vector<SpectralStep> steps;
    std::vector<ErrorNorms> residuals;
    const auto wanted = static_cast<double>(electrons);
    for (double left_out = 0;;) {
        const double begin = now_seconds();
        MatrixStep step = step_of(x, left_out);
        auto next = square(x, x, here, report, step);
        const ErrorNorms rounded = square.rounding();
        const double squared = real_trace(next);
        const ErrorNorms residual = distance(next, x, here.threads);
        residuals.push_back(residual + rounded);
        step.residual = residual.frobenius;
        step.seconds = now_seconds() - begin;
        if (convergence.done(report, step)) {
            if (std::abs(step.trace - wanted) > 0.5)
                convergence.fail(report,
                                 fmt::format("the trace is {:.3f}, not {}: there is no gap", step.trace, electrons));
            const auto bound = projector_bound(steps, (1 / width) * first, residuals, step.trace, electrons, rows);
            report.error = bound.error;
            if (std::isfinite(bound.error)) {
                report.homo = range.highest - width * bound.homo;
                report.lumo = range.highest - width * bound.lumo;
            }
            break;
        }
        const bool squares = std::abs(squared - wanted) < std::abs(2 * step.trace - squared - wanted);
        if (squares)
            symmetrise_diagonal(next, here.threads);
        else
            combine_into(2, x, -1, next, here.threads);
        const auto dropped = drop_small_tiles(next, options.filter, kept ? &*kept : nullptr, here.threads);
        kept = next.shape();
        x = desymmetrise(next, here.threads);
        steps.push_back({squares ? SpectralStep::Map::square : SpectralStep::Map::mirrored_square, dropped + rounded});
        left_out = dropped.frobenius;
        complete_step(report, step, begin);
    }
    return out;
}

}  // namespace

template <Scalar T>
MatrixResult<T> purify(const Tensor<T>& f, std::int64_t electrons, const MatrixOptions& options,
                       const Resources& here) {
    if (f.on_devices())
        return through_host(
            f, here, [&](const Tensor<T>& x, const Resources& there) { return purify(x, electrons, options, there); });
    const double start = now_seconds();
    require_options("purify", options);
    require_same_options("purify", f.communicator(), options);
    auto out = project(f, electrons, options, here, {});
    out.report.seconds = now_seconds() - start;
    return out;
}

template <Scalar T>
MatrixResult<T> purify(const Tensor<T>& f, const Tensor<T>& s, std::int64_t electrons, const MatrixOptions& options,
                       const Resources& here) {
    if (f.on_devices() || s.on_devices())
        return through_host(f.on_devices() ? f : s, here, [&](const Tensor<T>&, const Resources& there) {
            return purify(to_host(f), to_host(s), electrons, options, there);
        });
    const double start = now_seconds();
    require_options("purify", options);
    require_same_options("purify", f.communicator(), options);
    require_square_tiles("purify", f);
    require_square_tiles("purify", s);
    require(f.grid() == s.grid(), "purify: F has tiles {}, and S {}: {}", to_string(f.grid().tiling(0)),
            to_string(s.grid().tiling(0)), first_difference(f.grid().tiling(0), s.grid().tiling(0)));
    MatrixReport before;
    auto factor = inverse_factor("purify", s, options, here, before);
    const Tensor<T>& z = factor.z;
    MatrixStep step;
    const double size = spectral_bound(z.shape());
    // F in the basis that Z makes orthonormal, or nearly so.
    const Tensor<T> symmetric = symmetric_part("purify", f);
    KeptProduct<T> right("ik,kj->ij"), left("ki,kj->ij", 1, is_complex<T>);
    auto half = right(symmetric, z, here, before, step);
    ErrorNorms error = size * (right.rounding() + drop_small_tiles(half, options.filter, nullptr, here.threads));
    auto inner = symmetrised(left(z, half, here, before, step), here.threads);
    error = error + left.rounding() + drop_small_tiles(inner, options.filter, nullptr, here.threads);
    // Z* S Z = 1 + delta: (1 + delta)^(-1/2) F (1 + delta)^(-1/2) is what F stands for.
    const double d = factor.delta.spectral;
    const double inner_size = spectral_bound(inner.shape()) + error.spectral;
    error = error + inner_size * (2 + d) * factor.delta;
    auto out = project(inner, electrons, options, here, error);

    auto& report = out.report;
    KeptProduct<T> again("ik,kj->ij"), back("ik,jk->ij");
    auto first = again(z, out.matrix, here, report, step);
    ErrorNorms last = size * (again.rounding() + drop_small_tiles(first, options.filter, nullptr, here.threads));
    if constexpr (is_complex<T>) {
        Tensor<T> other = z;
        other.update_tiles([](const TileInfo&, std::span<T> tile) {
            for (T& e : tile) e = std::conj(e);
        });
        out.matrix = back(first, other, here, report, step);
    } else {
        out.matrix = back(first, z, here, report, step);
    }
    last = last + back.rounding();
    out.matrix = symmetrised(std::move(out.matrix), here.threads);
    last = last + drop_small_tiles(out.matrix, options.filter, nullptr, here.threads);
    report.error = size * size * (report.error + (2 + d) * factor.delta.frobenius) + last.frobenius;
    report.products += before.products;
    report.plans += before.plans;
    report.device_products += before.device_products;
    report.flops += before.flops;
    report.plan_seconds += before.plan_seconds;
    report.product_seconds += before.product_seconds;
    report.seconds = now_seconds() - start;
    return out;
}

#define TESSERA_INSTANTIATE(T)                                                                               \
    template MatrixResult<T> purify(const Tensor<T>&, std::int64_t, const MatrixOptions&, const Resources&); \
    template MatrixResult<T> purify(const Tensor<T>&, const Tensor<T>&, std::int64_t, const MatrixOptions&,  \
                                    const Resources&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
