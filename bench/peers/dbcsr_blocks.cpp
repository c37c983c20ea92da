// Times DBCSR on the problem blocks:nb,bs,occ,seed: the peer of `tessera bench sparse --peers`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "dbcsr_common.hpp"

namespace {

/// The tiles of this operand.
void fill(const DbcsrRun& run, dbcsr_matrix matrix, double occupancy, unsigned long long seed, int stream) {
    const std::uint64_t choice = tessera::combine(seed, 2 + stream);
    std::uint64_t tile = 0;
    std::vector<double> block;
    for (int row = 0; row < run.blocks(); ++row)
        for (int column = 0; column < run.blocks(); ++column, ++tile) {
            if (!(tessera::to_unit(tessera::combine(choice, tile)) < occupancy)) continue;
            if (!run.mine(matrix, row, column)) continue;
            const std::uint64_t state = tessera::tile_state(seed, stream, tile);
            block.resize(static_cast<std::size_t>(run.size(row)) * static_cast<std::size_t>(run.size(column)));
            for (std::size_t e = 0; e < block.size(); ++e)
                block[e] = tessera::to_signed_unit(tessera::combine(state, e));
            run.put(matrix, row, column, block);
        }
    c_dbcsr_finalize(matrix);
}

bool to_number(const char* text, double least, double most, double* out) {
    char* end = nullptr;
    *out = std::strtod(text, &end);
    return end != text && *end == '\0' && *out >= least && *out <= most;
}

}  // namespace

int main(int argc, char** argv) {
    double v[5];
    const double least[] = {1, 1, 0, 0, 1}, most[] = {100000, 10000, 1, 9e15, 1000000};
    bool good = argc == 6;
    for (int i = 0; good && i < 5; ++i) good = to_number(argv[i + 1], least[i], most[i], &v[i]);
    if (!good) {
        std::fprintf(stderr, "usage: dbcsr_blocks nb bs occ seed repetitions     (threads: OMP_NUM_THREADS)\n");
        return 2;
    }
    const int blocks = static_cast<int>(v[0]), size = static_cast<int>(v[1]), repetitions = static_cast<int>(v[4]);
    const double occupancy = v[2];
    const auto seed = static_cast<unsigned long long>(v[3]);
    const DbcsrRun run(argc, argv, std::vector<int>(static_cast<std::size_t>(blocks), size));
    dbcsr_matrix a = run.start("a"), b = run.start("b"), c = run.empty("c");
    fill(run, a, occupancy, seed, 0);
    fill(run, b, occupancy, seed, 1);

    double best = 1e300;
    long long flops = 0;
    for (int r = 0; r <= repetitions; ++r) {
        long long flop = 0;
        const double seconds = DbcsrRun::timed([&] {
            c_dbcsr_multiply_d('N', 'N', 1.0, a, b, 0.0, c, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                               nullptr, nullptr, &flop);
        });
        MPI_Allreduce(MPI_IN_PLACE, &flop, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);  // each reports its share
        if (r == 0) continue;  // a first round fills memory pools and caches
        best = std::min(best, seconds);
        flops = flop;
    }
    if (run.rank == 0)
        std::printf(
            "{\"peer\": \"dbcsr\", \"nb\": %d, \"bs\": %d, \"occ\": %g, \"seed\": %llu, \"seconds\": %.6g, "
            "\"gflops\": %.6g, \"flops\": %lld, \"threads\": %d, \"ranks\": %d}\n",
            blocks, size, occupancy, seed, best, static_cast<double>(flops) / best * 1e-9, flops, omp_get_max_threads(),
            run.ranks);
    for (auto* matrix : {&a, &b, &c}) c_dbcsr_release(matrix);
    return 0;
}
