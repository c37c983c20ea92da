// Times DBCSR on the problem blocks:nb,bs,occ,seed: the peer of `tessera bench sparse --peers`.
//
// This source is under Tessera's BSD-3-Clause licence. DBCSR is under the GPL (version 2 or later), so the program made
// by linking the two may only be passed on under the terms of the GPL. It is therefore separate from everything else
// here: nothing of Tessera's library is linked into it, and it is never installed.

#include <dbcsr.h>
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/hash.hpp"  // header only: the same tiles are there as in the problem of the same name

// There when BLAS is OpenBLAS. DBCSR calls BLAS for each tile product from its own threads: one thread there.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

namespace {

struct Pattern {
    int blocks, size;
    double occupancy;
    unsigned long long seed;
};

dbcsr_matrix make_matrix(const char* name, dbcsr_distribution distribution, const Pattern& pattern, int stream) {
    std::vector<int> sizes(pattern.blocks, pattern.size);
    const int real8 = dbcsr_type_real_8;
    dbcsr_matrix matrix = nullptr;
    c_dbcsr_create_new(&matrix, name, distribution, dbcsr_type_no_symmetry, sizes.data(), pattern.blocks, sizes.data(),
                       pattern.blocks, nullptr, &real8, nullptr, nullptr, nullptr, nullptr);
    if (stream >= 0) {
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        const std::uint64_t choice = tessera::combine(pattern.seed, 2 + stream);
        std::vector<double> block(static_cast<std::size_t>(pattern.size) * pattern.size);
        std::uint64_t tile = 0;
        for (int row = 0; row < pattern.blocks; ++row)
            for (int column = 0; column < pattern.blocks; ++column, ++tile) {
                if (!(tessera::to_unit(tessera::combine(choice, tile)) < pattern.occupancy)) continue;
                int owner = 0;
                c_dbcsr_get_stored_coordinates(matrix, row, column, &owner);
                if (owner != rank) continue;
                const std::uint64_t state = tessera::tile_state(pattern.seed, stream, tile);
                for (std::size_t e = 0; e < block.size(); ++e)
                    block[e] = tessera::to_signed_unit(tessera::combine(state, e));
                c_dbcsr_put_block2d_d(matrix, row, column, block.data(), pattern.size, pattern.size, nullptr, nullptr);
            }
    }
    c_dbcsr_finalize(matrix);
    return matrix;
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
    const Pattern pattern{static_cast<int>(v[0]), static_cast<int>(v[1]), v[2], static_cast<unsigned long long>(v[3])};
    const int repetitions = static_cast<int>(v[4]);

    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    int ranks = 1, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int dims[2] = {0, 0}, periods[2] = {1, 1};
    MPI_Dims_create(ranks, 2, dims);
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
    c_dbcsr_init_lib(MPI_COMM_WORLD, nullptr);

    std::vector<int> row_owner(pattern.blocks), column_owner(pattern.blocks);
    for (int i = 0; i < pattern.blocks; ++i) {
        row_owner[i] = i % dims[0];
        column_owner[i] = i % dims[1];
    }
    dbcsr_distribution distribution = nullptr;
    c_dbcsr_distribution_new(&distribution, grid, row_owner.data(), pattern.blocks, column_owner.data(),
                             pattern.blocks);
    dbcsr_matrix a = make_matrix("a", distribution, pattern, 0), b = make_matrix("b", distribution, pattern, 1);
    dbcsr_matrix c = make_matrix("c", distribution, pattern, -1);

    double best = 1e300;
    long long flops = 0;
    for (int r = 0; r <= repetitions; ++r) {
        long long flop = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = std::chrono::steady_clock::now();
        c_dbcsr_multiply_d('N', 'N', 1.0, a, b, 0.0, c, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                           nullptr, &flop);
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &flop, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);  // each reports its share
        if (r == 0) continue;  // a first round fills memory pools and caches
        best = std::min(best, seconds);
        flops = flop;
    }
    if (rank == 0)
        std::printf(
            "{\"peer\": \"dbcsr\", \"nb\": %d, \"bs\": %d, \"occ\": %g, \"seed\": %llu, \"seconds\": %.6g, "
            "\"gflops\": %.6g, \"flops\": %lld, \"threads\": %d, \"ranks\": %d}\n",
            pattern.blocks, pattern.size, pattern.occupancy, pattern.seed, best,
            static_cast<double>(flops) / best * 1e-9, flops, omp_get_max_threads(), ranks);

    c_dbcsr_release(&a);
    c_dbcsr_release(&b);
    c_dbcsr_release(&c);
    c_dbcsr_distribution_release(&distribution);
    c_dbcsr_finalize_lib();
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
