#pragma once
// What the DBCSR peers share: MPI and DBCSR started on a grid of ranks, matrices dealt in turn, the slowest rank's
// time.
//
// This source is under Tessera's BSD-3-Clause licence. DBCSR is under the GPL (version 2 or later), so the programs
// made by linking the two may only be passed on under the terms of the GPL. They are therefore separate from everything
// else here: nothing of Tessera's library is linked into them, and they are never installed.

#include <dbcsr.h>
#include <mpi.h>
#include <omp.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "base/hash.hpp"  // header only: the same elements as Tessera's problems have

// There when BLAS is OpenBLAS. DBCSR calls BLAS for each tile product from its own threads: one thread there.
extern "C" void openblas_set_num_threads(int threads) __attribute__((weak));

/// Square matrices with blocks of these sizes along rows and columns.
class DbcsrRun {
  public:
    DbcsrRun(int argc, char** argv, std::vector<int> sizes) : sizes_(std::move(sizes)) {
        int provided = 0, dims[2] = {0, 0}, periods[2] = {1, 1};
        MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
        if (openblas_set_num_threads) openblas_set_num_threads(1);
        MPI_Comm_size(MPI_COMM_WORLD, &ranks);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Dims_create(ranks, 2, dims);
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid_);
        c_dbcsr_init_lib(MPI_COMM_WORLD, nullptr);
        std::vector<int> row_owner, column_owner;
        for (int i = 0; i < blocks(); ++i) {
            row_owner.push_back(i % dims[0]);
            column_owner.push_back(i % dims[1]);
        }
        c_dbcsr_distribution_new(&distribution_, grid_, row_owner.data(), blocks(), column_owner.data(), blocks());
    }
    ~DbcsrRun() {
        c_dbcsr_distribution_release(&distribution_);
        c_dbcsr_finalize_lib();
        MPI_Comm_free(&grid_);
        MPI_Finalize();
    }
    DbcsrRun(const DbcsrRun&) = delete;
    DbcsrRun& operator=(const DbcsrRun&) = delete;

    int rank = 0, ranks = 1;
    int blocks() const { return static_cast<int>(sizes_.size()); }
    int size(int block) const { return sizes_[static_cast<std::size_t>(block)]; }

    /// Without a block; blocks are put, then it is finalized.
    dbcsr_matrix start(const char* name) const {
        const int real8 = dbcsr_type_real_8;
        auto* sizes = const_cast<int*>(sizes_.data());
        dbcsr_matrix matrix = nullptr;
        c_dbcsr_create_new(&matrix, name, distribution_, dbcsr_type_no_symmetry, sizes, blocks(), sizes, blocks(),
                           nullptr, &real8, nullptr, nullptr, nullptr, nullptr);
        return matrix;
    }
    dbcsr_matrix empty(const char* name) const {
        dbcsr_matrix matrix = start(name);
        c_dbcsr_finalize(matrix);
        return matrix;
    }
    bool mine(dbcsr_matrix matrix, int row, int column) const {
        int owner = 0;
        c_dbcsr_get_stored_coordinates(matrix, row, column, &owner);
        return owner == rank;
    }
    /// The elements stand by columns.
    void put(dbcsr_matrix matrix, int row, int column, std::vector<double>& block) const {
        c_dbcsr_put_block2d_d(matrix, row, column, block.data(), size(row), size(column), nullptr, nullptr);
    }
    /// Seconds of the slowest rank.
    template <class Work>
    static double timed(Work&& work) {
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = std::chrono::steady_clock::now();
        work();
        double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        return seconds;
    }

  private:
    std::vector<int> sizes_;
    MPI_Comm grid_ = MPI_COMM_NULL;
    dbcsr_distribution distribution_ = nullptr;
};
