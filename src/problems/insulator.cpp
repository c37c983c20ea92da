#include "tessera/problems/insulator.hpp"

#include <algorithm>
#include <cmath>

#include "base/hash.hpp"

namespace tessera {

double Insulator::stored_bytes() const {
    const auto side = static_cast<double>(std::min(tile, states));
    const auto rows = static_cast<double>((states + tile - 1) / tile),
               reach = static_cast<double>((bandwidth + tile - 1) / tile);
    return rows * std::min(rows, 2 * reach + 1) * side * side * 8;
}

TileGrid Insulator::grid() const {
    const Tiling t = Tiling::uniform(states, tile);
    return TileGrid({t, t});
}

Tensor<double> Insulator::hamiltonian(const Placement& where, int threads) const {
    const TileGrid g = grid();
    const std::int64_t rows = g.tiling(0).tile_count(), reach = (bandwidth + tile - 1) / tile;
    std::vector<std::int64_t> tiles;
    for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = std::max<std::int64_t>(0, i - reach); j <= std::min(rows - 1, i + reach); ++j)
            tiles.push_back(g.ordinal({i, j}).value);
    std::vector<double> norms(tiles.size(), 0.0);
    // Random couplings of variance c^2 / 3 have a semicircle of eigenvalues, of radius 2 c (2 bandwidth / 3)^(1/2);
    // levels at -1 and 1 move by no more than that.
    const double most = bandwidth == 0 ? 0 : (1 - gap / 2) / (2 * std::sqrt(2.0 * static_cast<double>(bandwidth) / 3));
    const auto state = mix64(seed);
    return Tensor<double>::generate(
        Shape::from_sorted(g, std::move(tiles), std::move(norms)),
        [&](const TileInfo& info, std::span<double> out) {
            for (std::int64_t i = 0; i < info.extents[0]; ++i)
                for (std::int64_t j = 0; j < info.extents[1]; ++j) {
                    const std::int64_t row = info.begin[0] + i, column = info.begin[1] + j;
                    const auto lo = static_cast<std::uint64_t>(std::min(row, column));
                    const auto hi = static_cast<std::uint64_t>(std::max(row, column));
                    double& e = out[static_cast<std::size_t>(i * info.extents[1] + j)];
                    if (row == column)
                        e = row % 2 == 0 ? -1 : 1;
                    else if (std::abs(row - column) <= bandwidth)
                        e = most * to_signed_unit(combine(combine(state, lo), hi));
                    else
                        e = 0;
                }
        },
        threads, where);
}

}  // namespace tessera
