// A matrix of a chain of atoms, assembled from what each charge adds to each pair of near atoms. Run it alone or on any
// number of ranks (mpirun -n 4 assemble): it prints the same.
#include <cstdio>
#include <cstdlib>
#include <tessera/comm/world.hpp>
#include <tessera/contract/contract.hpp>
#include <tessera/tensor/builder.hpp>
#include <tessera/tensor/matrix.hpp>
#include <tessera/tensor/slice.hpp>
#include <vector>

int main() {
    using namespace tessera;
    Communicator& ranks = mpi_world();
    return run_ranks_or_abort(ranks, [&] {
        constexpr int atoms = 12, each = 3;  // functions of an atom: a tile of the index
        const Tiling functions = Tiling::uniform(atoms * each, each);
        const TileGrid grid{functions, functions};
        TensorBuilder<double> builder(grid, {ranks, Distribution::even(grid, ranks.size())});

        // Charges are dealt to the ranks; each adds to blocks of any rank. The key says in which order they are summed.
        for (int charge = ranks.rank(); charge < atoms; charge += ranks.size())
            for (int a = 0; a < atoms; ++a)
                for (int b = 0; b < atoms; ++b) {
                    if (std::abs(a - b) > 2) continue;  // far pairs have no block
                    std::vector<double> block(each * each);
                    const double distance = std::abs(0.5 * (a + b) - charge);
                    for (int e = 0; e < each * each; ++e) block[e] = -1.0 / (1 + distance + e / each + e % each);
                    builder.add({a, b}, block, charge);
                }
        const Tensor<double> v = builder.finalize();  // every block goes to the rank of its tile

        const auto part = slice(v, {{0, 9}, {0, 9}});  // the first three atoms
        const auto [w, report] =
            contract("ik,kj->ij", v, v, {}, {.bounds = {{'k', 0, 18}}});  // a sum over the first six
        const double left = trace(v), all = trace(v, v), first = norm(part), bounded = norm(w);
        const auto bits = static_cast<unsigned long long>(checksum(w));
        if (ranks.rank() == 0)
            std::printf("%lld of %lld tiles, trace %.6f, of the square %.6f, part %.6f, bounded %.6f (%016llx)\n",
                        static_cast<long long>(v.tile_count()), static_cast<long long>(grid.tile_total()), left, all,
                        first, bounded, bits);
    });
}
