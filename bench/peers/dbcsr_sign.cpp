// Times DBCSR on the sign of a model insulator's Hamiltonian: the peer of `tessera bench sign --peers`.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "dbcsr_common.hpp"

namespace {

struct Model {
    int tile;
    long bandwidth;
    double gap;
};

/// As src/problems/insulator.cpp has it.
void fill(const DbcsrRun& run, dbcsr_matrix matrix, const Model& model, double scale) {
    const double most = (1 - model.gap / 2) / (2 * std::sqrt(2.0 * static_cast<double>(model.bandwidth) / 3));
    const auto state = tessera::mix64(1);
    const int reach = static_cast<int>((model.bandwidth + model.tile - 1) / model.tile);
    std::vector<double> block;
    for (int i = 0; i < run.blocks(); ++i)
        for (int j = std::max(0, i - reach); j <= std::min(run.blocks() - 1, i + reach); ++j) {
            if (!run.mine(matrix, i, j)) continue;
            const long rows = run.size(i), columns = run.size(j);
            block.assign(static_cast<std::size_t>(rows * columns), 0);
            for (long r = 0; r < rows; ++r)
                for (long c = 0; c < columns; ++c) {
                    const long row = static_cast<long>(i) * model.tile + r,
                               column = static_cast<long>(j) * model.tile + c;
                    const auto lo = static_cast<std::uint64_t>(std::min(row, column));
                    const auto hi = static_cast<std::uint64_t>(std::max(row, column));
                    double e = 0;
                    if (row == column)
                        e = row % 2 == 0 ? -1 : 1;
                    else if (std::abs(row - column) <= model.bandwidth)
                        e = most * tessera::to_signed_unit(tessera::combine(tessera::combine(state, lo), hi));
                    block[static_cast<std::size_t>(c * rows + r)] = scale * e;
                }
            run.put(matrix, i, j, block);
        }
    c_dbcsr_finalize(matrix);
}

void multiply(double alpha, dbcsr_matrix a, dbcsr_matrix b, dbcsr_matrix c, double filter) {
    c_dbcsr_multiply_d('N', 'N', alpha, a, b, 0.0, c, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                       &filter, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 8) {
        std::fprintf(stderr,
                     "usage: dbcsr_sign n tile bandwidth gap filter scale iterations (threads: OMP_NUM_THREADS)\n");
        return 2;
    }
    const int n = std::atoi(argv[1]), iterations = std::atoi(argv[7]);
    const Model model{std::atoi(argv[2]), std::atoi(argv[3]), std::atof(argv[4])};
    const double filter = std::atof(argv[5]), scale = std::atof(argv[6]);
    if (n < 1 || model.tile < 1 || model.bandwidth < 1 || iterations < 1 || !(scale > 0)) {
        std::fprintf(stderr, "dbcsr_sign: n, tile, bandwidth, scale and iterations must be above 0\n");
        return 2;
    }
    std::vector<int> sizes;
    for (int left = n; left > 0; left -= model.tile) sizes.push_back(std::min(left, model.tile));
    const DbcsrRun run(argc, argv, sizes);

    dbcsr_matrix x = nullptr, h = run.start("h");
    fill(run, h, model, 1);
    // As a matrix of its own: c_dbcsr_add_on_diag_d of 2.5 crashes.
    dbcsr_matrix one = run.start("one");
    for (int i = 0; i < run.blocks(); ++i) {
        if (!run.mine(one, i, i)) continue;
        const auto size = static_cast<std::size_t>(run.size(i));
        std::vector<double> block(size * size, 0.0);
        for (std::size_t d = 0; d < size; ++d) block[d * (size + 1)] = 1;
        run.put(one, i, i, block);
    }
    c_dbcsr_finalize(one);

    const bool everywhere = false;
    double best = 1e300, residual = 0, energy = 0;
    for (int round = 0; round < 2; ++round) {  // the first fills memory pools and caches
        if (x) c_dbcsr_release(&x);
        x = run.start("x");
        fill(run, x, model, scale);
        const double seconds = DbcsrRun::timed([&] {
            for (int k = 0; k <= iterations; ++k) {
                dbcsr_matrix y = run.empty("y");
                multiply(1, x, x, y, filter);
                c_dbcsr_add_d(y, one, 1.0, -1.0);
                residual = c_dbcsr_frobenius_norm(y, &everywhere);
                if (k < iterations) {
                    c_dbcsr_add_d(y, one, -1.0, 2.0);
                    dbcsr_matrix next = run.empty("next");
                    multiply(0.5, x, y, next, filter);
                    c_dbcsr_release(&x);
                    x = next;
                }
                c_dbcsr_release(&y);
            }
        });
        best = std::min(best, seconds);
        c_dbcsr_dot_d(x, h, &energy);
    }
    if (run.rank == 0)
        std::printf(
            "{\"peer\": \"dbcsr\", \"n\": %d, \"tile\": %d, \"iterations\": %d, \"seconds\": %.6g, "
            "\"residual\": %.6g, \"dot\": %.15g, \"threads\": %d, \"ranks\": %d}\n",
            n, model.tile, iterations, best, residual, energy, omp_get_max_threads(), run.ranks);
    for (auto* matrix : {&x, &h, &one}) c_dbcsr_release(matrix);
    return 0;
}
