#include <cstdio>
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

    std::printf("%ld result tiles, norm %.6f, %.0f flops, left out at most %.1e\n", static_cast<long>(r.tile_count()),
                norm(r), report.flops, report.left_out);
    std::printf("first element of tile (2, 1, 0): %.6f\n", r.tile({2, 1, 0})[0]);
}
