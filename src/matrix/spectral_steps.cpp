#include "matrix/spectral_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();
using Map = SpectralStep::Map;

/// x in [0, 1] with x (3 - x^2) / 2 = y: the smallest root, from below.
double before_newton(double y) {
    if (y <= 0) return 0;
    if (y >= 1) return 1;
    // x = 2 sin(asin(y) / 3): 3 sin t - 4 sin^3 t = sin 3t.
    return 2 * std::sin(std::asin(y) / 3) * (1 - 1e-14);
}

}  // namespace

ProjectorBound projector_bound(const std::vector<SpectralStep>& steps, const ErrorNorms& first,
                               const std::vector<ErrorNorms>& residuals, double trace, std::int64_t electrons,
                               std::int64_t rows) {
    ProjectorBound out{kUnknown, 0, 0};
    // All eigenvalues x of an X have |x (1 - x)| <= residual, so they are no further than this from 0 or 1.
    const auto off = [&](std::size_t k) {
        const double r = residuals[k].spectral;
        return r < 0.25 ? r / (0.5 + std::sqrt(0.25 - r)) : 1.0;
    };
    const std::size_t last = steps.size();
    const double residual = residuals[last].frobenius, at_last = off(last);
    if (at_last >= 0.5) return out;
    const double rounded_away = std::sqrt(static_cast<double>(rows)) * residual / (1 - at_last);
    if (std::abs(trace - static_cast<double>(electrons)) + rounded_away >= 0.5) return out;

    // How far eigenvalues may lie below 0 and above 1, forward.
    std::vector<double> below(last + 1), above(last + 1);
    below[0] = above[0] = first.spectral;
    for (std::size_t k = 0; k < last; ++k) {
        const double e = steps[k].error.spectral, lo = below[k], hi = above[k];
        below[k + 1] = e + (steps[k].map == Map::square ? 0 : 2 * lo + lo * lo);
        above[k + 1] = e + (steps[k].map == Map::square ? 2 * hi + hi * hi : 0);
    }
    // The lowest occupied and the highest empty one, backwards; and closer, where the residual says so.
    std::vector<double> homo(last + 1), lumo(last + 1);
    homo[last] = 1 - at_last;
    lumo[last] = at_last;
    for (std::size_t k = last; k-- > 0;) {
        const double e = steps[k].error.spectral;
        const double h = std::min(1.0, homo[k + 1] - e), l = std::max(0.0, lumo[k + 1] + e);
        if (h <= l) return out;
        if (steps[k].map == Map::square) {
            if (std::sqrt(h) <= below[k]) return out;
            homo[k] = std::sqrt(h);
            lumo[k] = std::sqrt(l);
        } else {
            if (std::sqrt(1 - l) <= above[k]) return out;
            homo[k] = 1 - std::sqrt(1 - h);
            lumo[k] = 1 - std::sqrt(1 - l);
        }
        if (homo[k] <= lumo[k]) return out;
        const double near = off(k);
        const bool occupied = homo[k] > near, empty = lumo[k] < 1 - near;
        if (occupied) homo[k] = std::max(homo[k], 1 - near);
        if (empty) lumo[k] = std::min(lumo[k], near);
    }
    double turned = 0;
    const auto turn = [&](double h, double l, const ErrorNorms& e) {
        const double gap = h - e.spectral - l;
        turned = gap > 0 ? turned + e.frobenius / gap : kUnknown;
    };
    turn(homo[0], lumo[0], first);
    for (std::size_t k = 0; k < last; ++k) turn(homo[k + 1], lumo[k + 1], steps[k].error);
    out.error = std::sqrt(2.0) * turned + residual / (1 - at_last);
    out.homo = homo[0] - first.spectral;
    out.lumo = lumo[0] + first.spectral;
    return out;
}

double sign_bound(const std::vector<SpectralStep>& steps, const std::vector<ErrorNorms>& residuals) {
    const std::size_t last = steps.size();
    const auto from_zero = [&](std::size_t k) { return std::sqrt(std::max(0.0, 1 - residuals[k].spectral)); };
    // No eigenvalue of X(k) is closer to zero than this. (None is so far beyond 1 that the map turns back.)
    std::vector<double> near(last + 1);
    near[last] = from_zero(last);
    for (std::size_t k = last; k-- > 0;) {
        const double y = std::min(1.0, near[k + 1] - steps[k].error.spectral);
        if (y <= 0 || steps[k].error.spectral > 0.5) return kUnknown;
        near[k] = std::max(before_newton(y), from_zero(k));
    }
    if (near[last] == 0) return kUnknown;
    double turned = 0;
    for (std::size_t k = 0; k < last; ++k) {
        const double gap = 2 * near[k + 1] - steps[k].error.spectral;
        if (gap <= 0) return kUnknown;
        turned += steps[k].error.frobenius / gap;
    }
    // |x - sign x| = |1 - x^2| / (1 + |x|)
    return 2 * std::sqrt(2.0) * turned + residuals[last].frobenius / (1 + near[last]);
}

}  // namespace tessera
