// Whether orbitals can be rotated to a lower energy: the lowest eigenvalue of the Hessian, by Davidson's method. A
// product with the Hessian is a Fock matrix of a changed density.
#include <algorithm>
#include <cmath>

#include "chem/linear_algebra.hpp"
#include "chem/uhf.hpp"

namespace tessera::chem {

namespace {

constexpr double kResidual = 1e-4;  // the eigenvalue is then good to its square over the gap
constexpr int kMostVectors = 60;
constexpr std::int64_t kTile = 64;

/// Occupied and virtual orbitals of a spin.
struct Side {
    std::int64_t o = 0, v = 0;
    Eigen::Index at = 0;  // in the vector of rotations
    RealTensor occupied, virtuals;
    Tiling rows, columns;
};

}  // namespace

LowestRotation lowest_rotation(const UhfResult& scf, Field& field, TensorWork& work) {
    const Tiling& functions = field.functions();
    std::array<Side, 2> sides;
    Eigen::Index size = 0;
    for (std::size_t s = 0; s < 2; ++s) {
        const RhfResult& r = scf.spin[s];
        Side& side = sides[s];
        side = {r.occupied, r.coefficients.cols() - r.occupied, size, {}, {}, {}, {}};
        if (side.o == 0 || side.v == 0) continue;
        side.rows = even_tiling(side.o, kTile);
        side.columns = even_tiling(side.v, kTile);
        side.occupied = to_tensor(r.coefficients.leftCols(side.o), functions, side.rows);
        side.virtuals = to_tensor(r.coefficients.rightCols(side.v), functions, side.columns);
        size += side.o * side.v;
    }
    LowestRotation out;
    out.direction = Vector::Zero(size);
    if (size == 0) return out;
    Vector gaps(size);
    for (std::size_t s = 0; s < 2; ++s)
        if (const auto& [o, v, at, co, cv, rows, columns] = sides[s]; o > 0)
            for (std::int64_t i = 0; i < o; ++i)
                for (std::int64_t a = 0; a < v; ++a)
                    gaps(at + i * v + a) = scf.spin[s].orbital_energies(o + a) - scf.spin[s].orbital_energies(i);

    const auto times = [&](const Vector& x) {
        std::array<RealTensor, 2> closed, change;
        for (std::size_t s = 0; s < 2; ++s) {
            const Side& side = sides[s];
            if (side.o == 0 || side.v == 0) {
                closed[s] = change[s] = RealTensor(Shape::dense(TileGrid{functions, functions}, 0));
                continue;
            }
            const Matrix m = Eigen::Map<const Matrix>(x.data() + side.at, side.o, side.v);
            const RealTensor right = work.product("ma,ia->mi", side.virtuals, to_tensor(m, side.rows, side.columns));
            closed[s] = field.of_pair(side.occupied, right, work);
            change[s] = work.product("mi,ni->mn", side.occupied, right);
            work.add_product("mi,ni->mn", right, side.occupied, change[s]);
        }
        const auto f = spin_fields(std::move(closed), field.coulomb(add(1.0, change[0], -1.0, change[1]), work));
        Vector y = gaps.cwiseProduct(x);
        for (std::size_t s = 0; s < 2; ++s) {
            const Side& side = sides[s];
            if (side.o == 0 || side.v == 0) continue;
            const Matrix part =
                to_matrix(work.product("mi,ma->ia", side.occupied, work.product("mn,na->ma", f[s], side.virtuals)));
            y.segment(side.at, side.o * side.v) += Eigen::Map<const Vector>(part.data(), part.size());
        }
        return y;
    };

    // The smallest gaps of each spin, and one vector that no symmetry of the molecule leaves alone.
    std::vector<Vector> basis, products;
    ColumnMatrix small;
    const auto take = [&](Vector x) {
        for (int pass = 0; pass < 2; ++pass)
            for (const auto& b : basis) x -= b.dot(x) * b;
        const double length = x.norm();
        if (!(length > 1e-8)) return false;
        x /= length;
        products.push_back(times(x));
        basis.push_back(std::move(x));
        const auto n = static_cast<Eigen::Index>(basis.size());
        small.conservativeResize(n, n);
        for (Eigen::Index i = 0; i < n; ++i)
            small(i, n - 1) = small(n - 1, i) = basis[static_cast<std::size_t>(i)].dot(products.back());
        return true;
    };
    Vector odd(size);
    for (Eigen::Index k = 0; k < size; ++k) odd(k) = std::sin(1.7 * static_cast<double>(k + 1)) / (gaps(k) + 0.1);
    for (const auto& side : sides) {
        if (side.o == 0 || side.v == 0) continue;
        Vector unit = Vector::Zero(size);
        Eigen::Index lowest = side.at;
        for (auto k = side.at; k < side.at + side.o * side.v; ++k)
            if (gaps(k) < gaps(lowest)) lowest = k;
        unit(lowest) = 1;
        take(unit + 0.05 * odd.normalized());
    }
    take(odd);
    for (;;) {
        const auto inner = symmetric_eigen(small);
        out.value = inner.values(0);
        out.direction.setZero();
        Vector residual = Vector::Zero(size);
        for (std::size_t n = 0; n < basis.size(); ++n) {
            out.direction += inner.vectors(static_cast<Eigen::Index>(n), 0) * basis[n];
            residual += inner.vectors(static_cast<Eigen::Index>(n), 0) * products[n];
        }
        residual -= out.value * out.direction;
        out.residual = residual.norm();
        if (out.residual < kResidual || basis.size() >= kMostVectors) return out;
        for (Eigen::Index k = 0; k < size; ++k) {
            const double d = gaps(k) - out.value;
            residual(k) /= std::abs(d) > 0.05 ? d : 0.05;
        }
        if (!take(std::move(residual))) return out;
    }
}

}  // namespace tessera::chem
