#include "probe/rates.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "storage/buffer.hpp"
#include "tessera/base/cpu.hpp"

// OpenBLAS's C entry points, declared here so that no BLAS header is needed.
extern "C" {
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
            const double*, const int*, const double*, double*, const int*);
void openblas_set_num_threads(int);
int openblas_get_num_threads(void);
char* openblas_get_config(void);
char* openblas_get_corename(void);
}

namespace tessera {

GemmRate measure_gemm(int threads, double seconds) {
    constexpr int n = 2000;
    const int team = resolve_threads(threads), before = openblas_get_num_threads();
    openblas_set_num_threads(team);
    std::vector<double> a(n * n, 0.5), b(n * n, 0.25), c(n * n, 0.0);
    const double one = 1, zero = 0;
    double best = 1e30, all = 0;
    int calls = 0;
    for (; calls < 3 || all < seconds; ++calls) {
        const double t = now_seconds();
        dgemm_("N", "N", &n, &n, &n, &one, a.data(), &n, b.data(), &n, &zero, c.data(), &n);
        const double took = now_seconds() - t;
        best = std::min(best, took);
        all += took;
    }
    openblas_set_num_threads(before);
    const double gflop = 2e-9 * n * n * n;
    return {gflop / best, gflop * calls / all};
}

double measure_copy_gbs(int threads) {
    constexpr std::int64_t bytes = 512LL << 20;
    const int team = resolve_threads(threads);
    Buffer from(bytes), to(bytes);
    parallel_region(team, [&](int t, int n) {
        const std::int64_t begin = bytes / n * t, size = bytes / n;
        std::memset(from.data() + begin, t + 1, static_cast<std::size_t>(size));
        std::memset(to.data() + begin, 0, static_cast<std::size_t>(size));
    });
    double best = 1e30;
    for (int trial = 0; trial < 8; ++trial) {
        const double t0 = now_seconds();
        parallel_region(team, [&](int t, int n) {
            const std::int64_t begin = bytes / n / 64 * 64 * t, size = bytes / n / 64 * 64;
            if (trial % 2)
                std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(size));
            else
                copy_past_caches(to.data() + begin, from.data() + begin, static_cast<std::size_t>(size));
        });
        best = std::min(best, now_seconds() - t0);
    }
    return 2.0 * static_cast<double>(bytes) / best * 1e-9;
}

void touch_memory(std::int64_t bytes, int threads) {
    if (bytes <= 0) return;
    Buffer buffer(bytes);
    touch_pages({buffer.data(), static_cast<std::size_t>(bytes)}, threads);
}

const char* better_blas_core() {
    const std::string_view core = openblas_get_corename();
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
        return std::find(names.begin(), names.end(), core) != names.end();
    };
    const bool wide = is_one_of({"SkylakeX", "Cooperlake", "Sapphirerapids"});
    if (detected_isa() == Isa::avx512 && !wide) return "SkylakeX";
    if (detected_isa() == Isa::avx2 && !wide && !is_one_of({"Haswell", "Zen"})) return "Haswell";
    return nullptr;
}

std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

std::string blas_name() { return std::string(openblas_get_config()) + " core " + openblas_get_corename(); }

}  // namespace tessera
