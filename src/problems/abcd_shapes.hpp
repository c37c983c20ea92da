#pragma once
// Shapes of the ABCD term of coupled cluster over atomic orbitals, R[p,ab] = sum over cd of T[p,cd] V[cd,ab], from
// factors of norms. A tile is kept where its norm is above `least` times its elements.

#include <cstdint>
#include <vector>

#include "tessera/shape/shape.hpp"

namespace tessera {

/// A row-major table of doubles.
struct Table {
    std::int64_t columns = 0;
    std::vector<double> values;
    Table(std::int64_t r, std::int64_t c) : columns(c), values(r * c) {}
    double& operator()(std::int64_t r, std::int64_t c) { return values[r * columns + c]; }
    double operator()(std::int64_t r, std::int64_t c) const { return values[r * columns + c]; }
};

/// A candidate is ruled out ahead of the comparison itself only where rounding cannot be what decides.
inline constexpr double kRoundingSlack = 1 - 1e-9;

/// |V_CD,AB| = q_CA q_DB
TESSERA_API Shape shape_of_v(const Tiling& ao, const Table& q, double least);
/// |R_p,AB| <= the sum over CD of |T||V| over kept tiles.
TESSERA_API Shape shape_of_r(const Tiling& rows, const Shape& t, const Shape& v, double least);

}  // namespace tessera
