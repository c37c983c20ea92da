// Something of each component: a contraction, a file, an energy. usage: consumer FOLDER
#include <cstdio>
#include <tessera/tessera.hpp>

int main(int, char** argv) {
    using namespace tessera;
    const auto a = Tensor<double>::random(Shape::dense(TileGrid{Tiling{3, 2}, Tiling{4}}), 1);
    const auto [c, report] = contract("ik,jk->ij", a, a);
    const std::string path = std::string(argv[1]) + "/c.h5";
    write_tensor(path, c);
    std::printf("same %d\n", checksum(read_tensor<double>(path)) == checksum(c));
    const auto h2 = chem::parse_xyz("2\n\nH 0 0 0\nH 0 0 0.74\n", "h2");
    std::printf("rhf %.6f\n", chem::energy(h2, {.method = chem::Method::rhf, .basis = "def2-svp"}).rhf);
}
