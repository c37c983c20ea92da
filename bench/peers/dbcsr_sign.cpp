// Times DBCSR on the sign of a model insulator's Hamiltonian: the peer of `tessera bench sign --peers`.
//
// This source is under Tessera's BSD-3-Clause licence. DBCSR is under the GPL (version 2 or later), so the program made
// by linking the two may only be passed on under the terms of the GPL. It is therefore separate from everything else
// here: nothing of Tessera's library is linked into it, and it is never installed.

#include <dbcsr.h>
#include <mpi.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/hash.hpp"  // header only: the same elements as those of tessera::Insulator

// There when BLAS is OpenBLAS. DBCSR calls BLAS for each tile product from its own threads: one thread there.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

namespace {

dbcsr_matrix make_empty(const char* name, dbcsr_distribution distribution, const std::vector<int>& sizes) {
    const int real8 = dbcsr_type_real_8, blocks = static_cast<int>(sizes.size());
    dbcsr_matrix matrix = nullptr;
    c_dbcsr_create_new(&matrix, name, distribution, dbcsr_type_no_symmetry, const_cast<int*>(sizes.data()), blocks,
                       const_cast<int*>(sizes.data()), blocks, nullptr, &real8, nullptr, nullptr, nullptr, nullptr);
    c_dbcsr_finalize(matrix);
    return matrix;
}

/// As src/problems/insulator.cpp has it.
void fill(dbcsr_matrix matrix, const std::vector<int>& sizes, int tile, long bandwidth, double gap, double scale) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const double most = (1 - gap / 2) / (2 * std::sqrt(2.0 * static_cast<double>(bandwidth) / 3));
    const auto state = tessera::mix64(1);
    const long reach = (bandwidth + tile - 1) / tile, blocks = static_cast<long>(sizes.size());
    std::vector<double> block;
    for (long i = 0; i < blocks; ++i)
        for (long j = std::max(0L, i - reach); j <= std::min(blocks - 1, i + reach); ++j) {
            int owner = 0;
            c_dbcsr_get_stored_coordinates(matrix, static_cast<int>(i), static_cast<int>(j), &owner);
            if (owner != rank) continue;
            const int rows = sizes[static_cast<std::size_t>(i)], columns = sizes[static_cast<std::size_t>(j)];
            block.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns), 0);
            for (long r = 0; r < rows; ++r)
                for (long c = 0; c < columns; ++c) {
                    const long row = i * tile + r, column = j * tile + c;
                    const auto lo = static_cast<std::uint64_t>(std::min(row, column));
                    const auto hi = static_cast<std::uint64_t>(std::max(row, column));
                    double e = 0;
                    if (row == column)
                        e = row % 2 == 0 ? -1 : 1;
                    else if (std::abs(row - column) <= bandwidth)
                        e = most * tessera::to_signed_unit(tessera::combine(tessera::combine(state, lo), hi));
                    block[static_cast<std::size_t>(c * rows + r)] = scale * e;  // blocks stand by columns
                }
            c_dbcsr_put_block2d_d(matrix, static_cast<int>(i), static_cast<int>(j), block.data(), rows, columns,
                                  nullptr, nullptr);
        }
    c_dbcsr_finalize(matrix);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 8) {
        std::fprintf(stderr,
                     "usage: dbcsr_sign n tile bandwidth gap filter scale iterations (threads: OMP_NUM_THREADS)\n");
        return 2;
    }
    const int n = std::atoi(argv[1]), tile = std::atoi(argv[2]), bandwidth = std::atoi(argv[3]);
    const double gap = std::atof(argv[4]), filter = std::atof(argv[5]), scale = std::atof(argv[6]);
    const int iterations = std::atoi(argv[7]);
    if (n < 1 || tile < 1 || bandwidth < 1 || iterations < 1 || !(scale > 0)) {
        std::fprintf(stderr, "dbcsr_sign: n, tile, bandwidth, scale and iterations must be above 0\n");
        return 2;
    }
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

    std::vector<int> sizes;
    for (int left = n; left > 0; left -= tile) sizes.push_back(std::min(left, tile));
    const int blocks = static_cast<int>(sizes.size());
    std::vector<int> row_owner(sizes.size()), column_owner(sizes.size());
    for (int i = 0; i < blocks; ++i) {
        row_owner[static_cast<std::size_t>(i)] = i % dims[0];
        column_owner[static_cast<std::size_t>(i)] = i % dims[1];
    }
    dbcsr_distribution distribution = nullptr;
    c_dbcsr_distribution_new(&distribution, grid, row_owner.data(), blocks, column_owner.data(), blocks);
    dbcsr_matrix x = nullptr, h = make_empty("h", distribution, sizes);
    fill(h, sizes, tile, bandwidth, gap, 1);
    // As a matrix of its own: c_dbcsr_add_on_diag_d of 2.5 crashes.
    dbcsr_matrix one = make_empty("one", distribution, sizes);
    for (int i = 0; i < blocks; ++i) {
        int owner = 0;
        c_dbcsr_get_stored_coordinates(one, i, i, &owner);
        if (owner != rank) continue;
        const int size = sizes[static_cast<std::size_t>(i)];
        std::vector<double> block(static_cast<std::size_t>(size) * static_cast<std::size_t>(size), 0.0);
        for (int d = 0; d < size; ++d) block[static_cast<std::size_t>(d) * static_cast<std::size_t>(size + 1)] = 1;
        c_dbcsr_put_block2d_d(one, i, i, block.data(), size, size, nullptr, nullptr);
    }
    c_dbcsr_finalize(one);

    const bool everywhere = false;
    double best = 1e300, residual = 0, energy = 0;
    for (int round = 0; round < 2; ++round) {  // the first fills memory pools and caches
        if (x) c_dbcsr_release(&x);
        x = make_empty("x", distribution, sizes);
        fill(x, sizes, tile, bandwidth, gap, scale);
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = std::chrono::steady_clock::now();
        for (int k = 0; k <= iterations; ++k) {
            dbcsr_matrix y = make_empty("y", distribution, sizes);
            c_dbcsr_multiply_d('N', 'N', 1.0, x, x, 0.0, y, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                               nullptr, &filter, nullptr);
            c_dbcsr_add_d(y, one, 1.0, -1.0);
            residual = c_dbcsr_frobenius_norm(y, &everywhere);
            if (k < iterations) {
                c_dbcsr_add_d(y, one, -1.0, 2.0);
                dbcsr_matrix next = make_empty("next", distribution, sizes);
                c_dbcsr_multiply_d('N', 'N', 0.5, x, y, 0.0, next, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                   nullptr, &filter, nullptr);
                c_dbcsr_release(&x);
                x = next;
            }
            c_dbcsr_release(&y);
        }
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best = std::min(best, seconds);
        c_dbcsr_dot_d(x, h, &energy);
    }
    if (rank == 0)
        std::printf(
            "{\"peer\": \"dbcsr\", \"n\": %d, \"tile\": %d, \"iterations\": %d, \"seconds\": %.6g, "
            "\"residual\": %.6g, \"dot\": %.15g, \"threads\": %d, \"ranks\": %d}\n",
            n, tile, iterations, best, residual, energy, omp_get_max_threads(), ranks);
    c_dbcsr_release(&x);
    c_dbcsr_release(&h);
    c_dbcsr_release(&one);
    c_dbcsr_distribution_release(&distribution);
    c_dbcsr_finalize_lib();
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
