// Exponential: halved until it is small, a polynomial of Taylor, squared as often as it was halved.
#include <algorithm>
#include <cmath>
#include <limits>

#include "matrix/iteration.hpp"
#include "tessera/tensor/matrix.hpp"

namespace tessera {

template <Scalar T>
MatrixResult<T> exponential(const Tensor<T>& a, const MatrixOptions& options, const Resources& here) {
    if (a.on_devices())
        return through_host(a, here,
                            [&](const Tensor<T>& x, const Resources& there) { return exponential(x, options, there); });
    const double start = now_seconds();
    require_options("exponential", options);
    require_same_options("exponential", a.communicator(), options);
    require_square_tiles("exponential", a);
    MatrixResult<T> out;
    auto& report = out.report;
    const auto transposed = permute(a, Permutation({1, 0}), here.threads);
    // The largest singular value is no larger than the root of both norms.
    const double size =
        std::min(spectral_bound(a.shape()), std::sqrt(gershgorin_norm(a) * gershgorin_norm(transposed)));
    require(size < 1e3,
            "exponential: the norm of the matrix is {:.3g}, and elements of the result may be as large as "
            "e to this power",
            size);
    const int halved = size > 0.5 ? static_cast<int>(std::ceil(std::log2(size / 0.5))) : 0;
    const double scaled = std::ldexp(size, -halved);
    Tensor<T> b = a;
    scale(b, static_cast<T>(static_cast<RealOf<T>>(std::ldexp(1.0, -halved))));

    // As many terms as single or double precision shows.
    const double precision = std::numeric_limits<RealOf<T>>::epsilon() / 4;
    int degree = 1;
    double term = scaled;
    while (term * scaled / (degree + 1) > precision) term *= scaled / ++degree;
    double error = std::sqrt(static_cast<double>(a.grid().tiling(0).extent())) * term * scaled / (degree + 1) * 2;

    MatrixStep step;
    const auto finish = [&](Tensor<T>& x, const ErrorNorms& dropped, double begin) {
        step.left_out = dropped.frobenius;
        step.tiles = x.tile_count();
        step.trace = real_trace(x);
        step.seconds = now_seconds() - begin;
        report.history.push_back(step);
        if (options.on_step) options.on_step(step);
        step = {};
    };
    // 1 + B (1 + B/2 (1 + B/3 ...)): what the n-th product leaves out comes in with B^(n-1) / (n-1)!.
    Tensor<T>& x = out.matrix = identity_like(a);
    KeptProduct<T> product("ik,kj->ij");
    double weight = 1;
    for (int n = 1; n < degree; ++n) weight *= scaled / n;
    for (int n = degree; n >= 1; --n) {
        const double begin = now_seconds();
        auto next = product(b, x, here, report, step);
        ErrorNorms here_error = (1.0 / n) * product.rounding();
        scale(next, static_cast<T>(static_cast<RealOf<T>>(1.0 / n)));
        add_on_diagonal(next, T(1));
        const auto dropped = drop_small_tiles(next, options.filter, &x.shape(), here.threads);
        error += weight * (here_error + dropped).frobenius;
        if (n > 1 && scaled > 0) weight *= (n - 1) / scaled;
        x = std::move(next);
        finish(x, dropped, begin);
    }
    KeptProduct<T> square("ik,kj->ij");
    for (int n = 0; n < halved; ++n) {
        const double begin = now_seconds(), norm_of_x = spectral_bound(x.shape());
        auto next = square(x, x, here, report, step);
        const auto dropped = drop_small_tiles(next, options.filter, &x.shape(), here.threads);
        // (X + E)^2 - X^2, where X is no larger than what is at hand plus E
        error = (2 * norm_of_x + error) * error + (square.rounding() + dropped).frobenius;
        x = std::move(next);
        finish(x, dropped, begin);
    }
    report.error = error;
    report.seconds = now_seconds() - start;
    return out;
}

#define TESSERA_INSTANTIATE(T) \
    template MatrixResult<T> exponential(const Tensor<T>&, const MatrixOptions&, const Resources&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
