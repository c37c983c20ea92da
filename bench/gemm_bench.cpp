// Rates of the tile product next to OpenBLAS and LIBXSMM, in one run: large tiles, chains of tiles drawn from operands
// far larger than the caches, small tiles, permuted layouts, other element types.
//
//   gemm_bench [--threads N] [--seconds S] [--axis E] [--cpu-time] [--only TEXT] [case ...]     cases: large chains
//   small layouts types

#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gemm_rate.hpp"
#include "kernels/gemm.hpp"
#include "openblas_library.hpp"
#include "tessera/base/cpu.hpp"
#ifdef TESSERA_HAVE_LIBXSMM
#include <libxsmm.h>
#endif

namespace {

using namespace tessera;
using namespace tessera::kernels;

int threads = 2;
double seconds = 2;      // of each contest
std::int64_t axis = 60;  // extent of an index of a rank-4 tile
bool cpu_time = false;
std::string only;  // contenders with this in their name

// Seconds gone by, or seconds of work per thread: on a machine that others use as well, only the second means much.
double now() {
    timespec t{};
    clock_gettime(cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)) / (cpu_time ? threads : 1);
}

template <class T>
std::vector<T> filled(std::int64_t n) {
    std::vector<T> x(static_cast<std::size_t>(n));
    const int team = threads;
#pragma omp parallel for num_threads(team)
    for (std::int64_t i = 0; i < n; ++i) x[i] = T(static_cast<float>(i % 97) / 97.0F - 0.5F);
    return x;
}

MatrixLayout row_major(std::int64_t rows, std::int64_t cols) {
    MatrixLayout out;
    out.rows.push_back({rows, cols});
    out.cols.push_back({cols, 1});
    return out;
}

void dgemm(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, const double* b, double beta, double* c) {
    bench::openblas().dgemm(n, m, k, b, n, a, k, beta, c, n);  // row-major C = A B is column-major C' = B' A'
}

struct Contender {
    std::string name;
    double flops;
    std::function<void()> body;
};

// Runs the contenders in turn, again and again, with OpenBLAS of 2000 among them: the machine is seldom quiet, and what
// disturbs one disturbs all. Prints the best and the median rate, and their ratios to those of OpenBLAS of 2000.
void contest(std::vector<Contender> contenders) {
    std::erase_if(contenders, [](const Contender& x) { return x.name.find(only) == std::string::npos; });
    if (contenders.empty()) return;
    constexpr std::int64_t n = 2000;
    static const std::vector<double> a = filled<double>(n * n), b = filled<double>(n * n);
    static std::vector<double> c = filled<double>(n * n);
    contenders.insert(contenders.begin(),
                      {fmt::format("OpenBLAS dgemm 2000, {} threads of its own", threads), 2.0 * n * n * n, [] {
                           bench::openblas().set_threads(threads);
                           dgemm(n, n, n, a.data(), b.data(), 1.0, c.data());
                           bench::openblas().set_threads(1);
                       }});
    std::vector<std::vector<double>> rates(contenders.size());
    const double start = now();
    for (int runs = 0; runs < 3 || now() - start < seconds; ++runs) {
        for (std::size_t i = 0; i < contenders.size(); ++i) {
            const double t = now();
            contenders[i].body();
            if (runs > 0) rates[i].push_back(contenders[i].flops / (now() - t) / 1e9);
        }
    }
    for (std::vector<double>& r : rates) std::sort(r.begin(), r.end());
    for (std::size_t i = 0; i < contenders.size(); ++i) {
        const double best = rates[i].back(), median = rates[i][rates[i].size() / 2];
        fmt::print("  {:<56} {:7.1f} best {:7.1f} median GFLOP/s, {:6.3f} {:6.3f} of it\n", contenders[i].name, best,
                   median, best / rates[0].back(), median / rates[0][rates[0].size() / 2]);
    }
    std::fflush(stdout);
}

// A block-sparse product of equal tiles: the work as the executor hands it out, row by row of C.
struct Blocks {
    std::int64_t m, n, k, grid;
    std::vector<double> a, b, c;
    std::vector<std::vector<ChainLink<double>>> links;  // by tile of C
    MatrixLayout la, lb, lc;
    double flops = 0;

    Blocks(std::int64_t tile_m, std::int64_t tile_n, std::int64_t tile_k, std::int64_t tiles, double occupancy,
           std::int64_t rows)
        : m(tile_m), n(tile_n), k(tile_k), grid(tiles), la(row_major(m, k)), lb(row_major(k, n)), lc(row_major(m, n)) {
        std::mt19937 rng(7);
        std::bernoulli_distribution there(occupancy);
        std::vector<std::int64_t> at_a(grid * grid, -1), at_b(grid * grid, -1);
        std::int64_t count_a = 0, count_b = 0;
        for (std::int64_t i = 0; i < grid * grid; ++i) {
            if (there(rng)) at_a[i] = count_a++;
            if (there(rng)) at_b[i] = count_b++;
        }
        a = filled<double>(count_a * m * k);
        b = filled<double>(count_b * k * n);
        rows_ = std::min(rows, grid);
        c = filled<double>(rows_ * grid * m * n);
        links.resize(static_cast<std::size_t>(rows_ * grid));
        for (std::int64_t i = 0; i < rows_; ++i)
            for (std::int64_t j = 0; j < grid; ++j)
                for (std::int64_t p = 0; p < grid; ++p)
                    if (at_a[i * grid + p] >= 0 && at_b[p * grid + j] >= 0) {
                        links[i * grid + j].push_back(
                            {&a[at_a[i * grid + p] * m * k], &b[at_b[p * grid + j] * k * n], &la, &lb});
                        flops += 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
                    }
    }

    double average() const {
        return flops / (2.0 * static_cast<double>(m * n * k)) / static_cast<double>(rows_ * grid);
    }

    void ours(std::int64_t group) {
        const int team = threads;
#pragma omp parallel num_threads(team)
        {
            static thread_local GemmWorkspace workspace;
            std::vector<Chain<double>> chains;
#pragma omp for schedule(dynamic, 1)
            for (std::int64_t i = 0; i < rows_ * grid; i += group) {
                chains.clear();
                for (std::int64_t j = i; j < std::min(i + group, rows_ * grid); ++j)
                    chains.push_back({&c[j * m * n], &lc, links[j], true});
                multiply_chains<double>(chains, {}, workspace);
            }
        }
    }

    void openblas() {
        const int team = threads;
#pragma omp parallel for num_threads(team) schedule(dynamic, 16)
        for (std::int64_t i = 0; i < rows_ * grid; ++i) {
            double beta = 0;
            for (const auto& link : links[i]) {
                dgemm(m, n, k, link.a, link.b, beta, &c[i * m * n]);
                beta = 1;
            }
        }
    }

#ifdef TESSERA_HAVE_LIBXSMM
    void libxsmm() {
        // Column-major: the transposed product, with the operands exchanged.
        const double zero = 0, one = 1;
        const auto first =
            libxsmm_dmmdispatch(int(n), int(m), int(k), nullptr, nullptr, nullptr, &one, &zero, nullptr, nullptr);
        const auto more =
            libxsmm_dmmdispatch(int(n), int(m), int(k), nullptr, nullptr, nullptr, &one, &one, nullptr, nullptr);
        if (!first || !more) return;
        const int team = threads;
#pragma omp parallel for num_threads(team) schedule(dynamic, 16)
        for (std::int64_t i = 0; i < rows_ * grid; ++i) {
            bool start = true;
            for (const auto& link : links[i]) {
                (start ? first : more)(link.b, link.a, &c[i * m * n]);
                start = false;
            }
        }
    }
#endif

  private:
    std::int64_t rows_ = 0;
};

// Each thread multiplies its own square tiles again and again.
void bench_large() {
    for (const std::int64_t n : {128, 256, 270, 640, 1152}) {
        std::vector<std::vector<double>> a, b, c;
        for (int t = 0; t < threads; ++t) {
            a.push_back(filled<double>(n * n));
            b.push_back(filled<double>(n * n));
            c.push_back(filled<double>(n * n));
        }
        const MatrixLayout plain = row_major(n, n);
        const std::int64_t repeat = std::max<std::int64_t>(1, 1600000000 / (n * n * n));
        const double flops = 2.0 * static_cast<double>(n * n * n * repeat * threads);
        const int team = threads;
        const auto openblas = [&] {
#pragma omp parallel num_threads(team)
            for (std::int64_t r = 0; r < repeat; ++r) {
                const int t = omp_get_thread_num();
                dgemm(n, n, n, a[t].data(), b[t].data(), 1.0, c[t].data());
            }
        };
        const auto ours = [&] {
#pragma omp parallel num_threads(team)
            {
                const int t = omp_get_thread_num();
                static thread_local GemmWorkspace workspace;
                const ChainLink<double> link{a[t].data(), b[t].data(), &plain, &plain};
                const Chain<double> chain{c[t].data(), &plain, {&link, 1}, false};
                for (std::int64_t r = 0; r < repeat; ++r) multiply_chains<double>({&chain, 1}, {}, workspace);
            }
        };
        contest({{fmt::format("one tile {0}x{0}x{0}: OpenBLAS", n), flops, openblas},
                 {fmt::format("one tile {0}x{0}x{0}: Tessera", n), flops, ours}});
    }
}

void contest_blocks(Blocks& blocks, std::int64_t group, bool small) {
    const std::string what = fmt::format("{}x{}x{}, chains of {:.1f}", blocks.m, blocks.n, blocks.k, blocks.average());
    std::vector<Contender> contenders{{what + ": OpenBLAS", blocks.flops, [&] { blocks.openblas(); }},
                                      {what + ": Tessera", blocks.flops, [&] { blocks.ours(group); }}};
#ifdef TESSERA_HAVE_LIBXSMM
    if (small) contenders.push_back({what + ": LIBXSMM", blocks.flops, [&] { blocks.libxsmm(); }});
#else
    (void)small;
#endif
    contest(std::move(contenders));
}

// A thread works along a row of C; operands of some 560 MB.
void bench_chains() {
    struct {
        std::int64_t m, n, k, grid, rows;
        double occupancy;
    } cases[] = {{256, 256, 256, 60, 2, 0.3},
                 {270, 270, 270, 56, 2, 0.3},
                 {576, 576, 576, 26, 2, 0.4},
                 {576, 576, 1152, 18, 2, 0.5}};
    for (const auto& x : cases) {
        Blocks blocks(x.m, x.n, x.k, x.grid, x.occupancy, x.rows);
        contest_blocks(blocks, std::max<std::int64_t>(1, x.grid / 4), false);
    }
}

// Operands of some 60 MB, a dense C of some 400 MB.
void bench_small() {
    struct {
        std::int64_t tile, grid;
        double occupancy;
    } cases[] = {{13, 560, 0.1}, {23, 330, 0.125}, {32, 240, 0.145}, {64, 120, 0.2}};
    for (const auto& x : cases) {
        Blocks blocks(x.tile, x.tile, x.tile, x.grid, x.occupancy, x.grid);
        contest_blocks(blocks, 32, true);
    }
}

// One product split among the threads by rows of C, in several memory orders of rank-4 tiles.
void bench_layouts() {
    const std::int64_t e = axis;  // m, n and k are e * e
    const std::vector<double> a = filled<double>(e * e * e * e), b = filled<double>(e * e * e * e);
    std::vector<double> c = filled<double>(e * e * e * e);
    // Letters: A(i j p q), B(p q r s), C(i j r s); each name gives the memory order, slowest first.
    struct {
        const char *name, *a, *b, *c;
    } cases[] = {{"matrices", "ijpq", "pqrs", "ijrs"},      {"A transposed", "pqij", "pqrs", "ijrs"},
                 {"B transposed", "ijpq", "rspq", "ijrs"},  {"C transposed", "ijpq", "pqrs", "rsij"},
                 {"interleaved", "ipjq", "prqs", "irjs"},   {"interleaved, k inside", "ipjq", "rpsq", "irjs"},
                 {"reversed", "qpji", "srqp", "srji"},      {"mixed", "jpiq", "qrps", "risj"},
                 {"C interleaved", "ijpq", "pqrs", "irjs"}, {"C mixed", "ijpq", "pqrs", "risj"}};
    const auto axes = [&](const std::string& order, const char* group) {
        Axes out;
        for (const char* g = group; *g; ++g) {
            std::int64_t stride = 1;
            for (std::size_t i = order.find(*g) + 1; i < order.size(); ++i) stride *= e;
            if (out.count > 0 && out.axis[out.count - 1].stride == e * stride)
                out.axis[out.count - 1] = {out.axis[out.count - 1].extent * e, stride};
            else
                out.push_back({e, stride});
        }
        return out;
    };
    std::vector<Contender> contenders;
    for (const auto& x : cases) {
        const int team = threads;
        const double flops = 2.0 * static_cast<double>(e * e) * static_cast<double>(e * e) * static_cast<double>(e * e);
        contenders.push_back(
            {fmt::format("{} cubed, {}: A {} B {} C {}", e * e, x.name, x.a, x.b, x.c), flops, [&, x, team] {
#pragma omp parallel num_threads(team)
                 {
                     const int t = omp_get_thread_num();
                     static thread_local GemmWorkspace workspace;
                     // A thread takes part of the slowest row index.
                     const std::int64_t from = e * t / team, to = e * (t + 1) / team;
                     MatrixLayout la{axes(x.a, "ij"), axes(x.a, "pq")}, lb{axes(x.b, "pq"), axes(x.b, "rs")},
                         lc{axes(x.c, "ij"), axes(x.c, "rs")};
                     const auto part = [&](Axes& rows) {
                         const std::int64_t stride = rows.axis[0].stride * (rows.count == 1 ? e : 1);
                         rows.axis[0].extent = rows.axis[0].extent / e * (to - from);
                         return from * stride;
                     };
                     const std::int64_t at_a = part(la.rows), at_c = part(lc.rows);
                     const ChainLink<double> link{a.data() + at_a, b.data(), &la, &lb};
                     const Chain<double> chain{c.data() + at_c, &lc, {&link, 1}, true};
                     multiply_chains<double>({&chain, 1}, {}, workspace);
                 }
             }});
    }
    contest(std::move(contenders));
}

template <class T>
void bench_type(const char* type, double flops_per_step) {
    for (const std::int64_t n : {32, 256}) {
        const int team = threads;
        const std::vector<T> a = filled<T>(n * n), b = filled<T>(n * n);
        const MatrixLayout plain = row_major(n, n);
        const std::int64_t repeat = std::max<std::int64_t>(1, 400000000 / (n * n * n));
        const double flops = flops_per_step * static_cast<double>(n * n * n * repeat * team);
        contest({{fmt::format("{0}x{0}x{0} {1}", n, type), flops, [&] {
#pragma omp parallel num_threads(team)
                      {
                          GemmWorkspace workspace;
                          std::vector<T> c(static_cast<std::size_t>(n * n));
                          const std::vector<ChainLink<T>> links(4, {a.data(), b.data(), &plain, &plain});
                          const Chain<T> chain{c.data(), &plain, links, false};
                          for (std::int64_t r = 0; r < repeat; r += 4) multiply_chains<T>({&chain, 1}, {}, workspace);
                      }
                  }}});
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (const std::string missing = bench::why_no_openblas(threads); !missing.empty()) {
        fmt::print(stderr, "gemm_bench: {}\n", missing);
        return 3;
    }
    std::vector<std::string> cases;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--threads" && i + 1 < argc)
            threads = std::atoi(argv[++i]);
        else if (word == "--axis" && i + 1 < argc)
            axis = std::atoi(argv[++i]);
        else if (word == "--only" && i + 1 < argc)
            only = argv[++i];
        else if (word == "--cpu-time")
            cpu_time = true;
        else if (word == "--seconds" && i + 1 < argc)
            seconds = std::atof(argv[++i]);
        else
            cases.push_back(word);
    }
    const auto wanted = [&](const char* name) {
        return cases.empty() || std::find(cases.begin(), cases.end(), name) != cases.end();
    };
    fmt::print("{} threads, {}, OpenBLAS core {}\n", threads, name(detected_isa()), bench::openblas().core());
    if (wanted("large")) bench_large();
    if (wanted("chains")) bench_chains();
    if (wanted("small")) bench_small();
    if (wanted("layouts")) bench_layouts();
    if (wanted("types")) {
        bench_type<float>("float", 2);
        bench_type<double>("double", 2);
        bench_type<std::complex<float>>("complex<float>", 8);
        bench_type<std::complex<double>>("complex<double>", 8);
    }
}
