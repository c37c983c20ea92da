#pragma once
// How errors travel through an iteration of a symmetric matrix, rigorously, as Rubensson, Rudberg and Salek do it:
// X(k+1) = p(X(k)) + E(k). What a polynomial does not do is turn eigenvectors, so only the E do: each by no more than
// its norm over the gap there (Davis and Kahan). The gap of each X(k) is not known before the last one is; then it
// follows backwards (Rubensson and Niklasson, "Interior eigenvalues").

#include <cstdint>
#include <vector>

#include "matrix/iteration.hpp"

namespace tessera {

struct SpectralStep {
    enum class Map : std::uint8_t { square, mirrored_square, newton_sign } map;  // x^2, 2x - x^2, x(3 - x^2)/2
    ErrorNorms error;
};

/// A bound of the Frobenius distance between the last X and the exact projector; infinite where nothing can be said.
/// homo and lumo: bounds of the inner eigenvalues of the first X, from below and from above.
struct ProjectorBound {
    double error = 0, homo = 0, lumo = 0;
};
/// X(0) has eigenvalues within [0, 1] and is off by `first`. Residuals are bounds of X - X X, one more than steps. The
/// last X, of `rows` rows, has this trace where that of the projector is `electrons`.
ProjectorBound projector_bound(const std::vector<SpectralStep>& steps, const ErrorNorms& first,
                               const std::vector<ErrorNorms>& residuals, double trace, std::int64_t electrons,
                               std::int64_t rows);

/// Likewise for the sign, from residuals 1 - X X; X(0) has eigenvalues within [-1, 1].
double sign_bound(const std::vector<SpectralStep>& steps, const std::vector<ErrorNorms>& residuals);

}  // namespace tessera
