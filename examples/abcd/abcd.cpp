#include <iostream>
#include <tessera/tessera.hpp>

int main() {
    using namespace tessera;
    const Tiling pairs{6, 6, 4}, orbitals = Tiling::uniform(24, 8);  // tiles of any sizes
    const Shape sparse(TileGrid{pairs, orbitals, orbitals},          // only these tiles of T are nonzero
                       {{TileOrdinal{0}, 1.0}, {TileOrdinal{4}, 1.0}, {TileOrdinal{13}, 1.0}, {TileOrdinal{26}, 1.0}});
    const auto t = Tensor<double>::generate(sparse, [](const TileInfo& tile, std::span<double> elements) {
        for (auto& x : elements) x = 1.0 / static_cast<double>(1 + tile.coordinates[0]);
    });
    const auto v = Tensor<double>::random(Shape::dense(TileGrid{orbitals, orbitals, orbitals, orbitals}), 42);
    const auto [r, report] = contract("pcd,cdab->pab", t, v, {.filter = 1e-10});
    std::cout << norm(r) << " +- " << report.left_out << "; of tile (2, 1, 0): " << r.tile({2, 1, 0})[0] << '\n';
}
