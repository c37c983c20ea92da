#pragma once
// A matrix whose elements fall off from the diagonal, as those of an insulator do.

#include <algorithm>
#include <cmath>

#include "base/hash.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::testing {

/// Levels in turn below and above `middle`, with a gap: by 1 around zero, else by 0.3.
template <class T>
Tensor<T> insulator(std::int64_t n, const Tiling& t, const Placement& where, double middle) {
    return Tensor<T>::generate(
        Shape::dense(TileGrid{t, t}),
        [&](const TileInfo& info, std::span<T> tile) {
            for (std::int64_t i = 0; i < info.extents[0]; ++i)
                for (std::int64_t j = 0; j < info.extents[1]; ++j) {
                    const auto row = info.begin[0] + i, column = info.begin[1] + j;
                    const auto lo = std::min(row, column), hi = std::max(row, column);
                    double e =
                        0.3 *
                        to_signed_unit(combine(static_cast<std::uint64_t>(n + lo), static_cast<std::uint64_t>(hi))) *
                        std::exp(-1.0 * static_cast<double>(hi - lo));
                    if (row == column) e += middle + (row % 2 == 0 ? -1 : 1) * (middle == 0 ? 1 : 0.3);
                    tile[static_cast<std::size_t>(i * info.extents[1] + j)] = static_cast<RealOf<T>>(e);
                }
        },
        0, where);
}

}  // namespace tessera::testing
