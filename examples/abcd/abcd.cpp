#include <iostream>
#include <tessera/tessera.hpp>

int main() {
    using namespace tessera;
    const Tiling pairs{6, 6, 4}, orbitals = Tiling::uniform(24, 8);  // tiles of any sizes
    const auto sparse =                                              // only these tiles of T are nonzero
        Shape::from_coordinates({pairs, orbitals, orbitals}, {{0, 0, 0}, {0, 1, 1}, {1, 1, 1}, {2, 2, 2}});
    const auto t = Tensor<double>::random(sparse, 1);
    const auto v = Tensor<double>::random(Shape::dense({orbitals, orbitals, orbitals, orbitals}), 2);
    const auto planned = plan("pcd,cdab->pab", t, v, {.memory = 8_GiB}, {.filter = 1e-10});  // computes nothing yet
    std::cout << explain(planned);
    const auto [r, report] = execute(planned, t, v);
    std::cout << norm(r) << " +- " << report.left_out << "; of tile (2, 1, 0): " << r.tile({2, 1, 0})[0] << '\n';
}
