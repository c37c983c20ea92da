#include "chem/localise.hpp"

#include <cmath>

#include "chem/linear_algebra.hpp"

namespace tessera::chem {

Localised foster_boys(const Matrix& orbitals, const std::array<Matrix, 3>& dipole) {
    const auto n = orbitals.cols();
    std::array<Matrix, 3> r;
    for (std::size_t x = 0; x < 3; ++x) r[x] = between(orbitals, dipole[x], orbitals);
    Matrix u = Matrix::Identity(n, n);
    const auto rotate = [&](Eigen::Index i, Eigen::Index j, double angle) {
        const double c = std::cos(angle), s = std::sin(angle);
        const auto turn_columns = [&](Matrix& m) {
            const Vector a = m.col(i), b = m.col(j);
            m.col(i) = c * a + s * b;
            m.col(j) = c * b - s * a;
        };
        turn_columns(u);
        for (auto& m : r) {
            turn_columns(m);
            const Eigen::RowVectorXd a = m.row(i), b = m.row(j);
            m.row(i) = c * a + s * b;
            m.row(j) = c * b - s * a;
        }
    };
    // Symmetry can leave canonical orbitals at a point where no rotation of two helps: begin a little off it.
    for (Eigen::Index i = 0; i + 1 < n; ++i) rotate(i, i + 1, 0.1 + 0.01 * static_cast<double>(i % 7));
    for (int sweep = 0; sweep < 500; ++sweep) {
        double largest = 0;
        for (Eigen::Index i = 0; i < n; ++i)
            for (Eigen::Index j = i + 1; j < n; ++j) {
                // The sum of squared centres as a function of the angle is a cosine of four times the angle.
                double a = 0, b = 0;
                for (const auto& m : r) {
                    const double half = 0.5 * (m(i, i) - m(j, j));
                    a += m(i, j) * m(i, j) - half * half;
                    b += 2 * m(i, j) * half;
                }
                if (std::hypot(a, b) < 1e-14) continue;
                const double angle = 0.25 * std::atan2(b, -a);
                if (std::abs(angle) < 1e-10) continue;
                largest = std::max(largest, std::abs(angle));
                rotate(i, j, angle);
            }
        if (largest < 1e-7) break;
    }
    Localised out;
    out.rotation = u;
    for (Eigen::Index i = 0; i < n; ++i) out.centres.push_back({r[0](i, i), r[1](i, i), r[2](i, i)});
    return out;
}

}  // namespace tessera::chem
