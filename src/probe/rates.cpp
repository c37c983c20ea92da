#include "probe/rates.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <vector>

#include "base/clock.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "kernels/gemm.hpp"
#include "kernels/tile_math.hpp"
#include "storage/buffer.hpp"

namespace tessera {

double measure_tile_gflops(std::int64_t size, int threads, double seconds) {
    constexpr int kLinks = 4;
    const int team = resolve_threads(threads);
    kernels::MatrixLayout layout;
    layout.rows.push_back({size, size});
    layout.cols.push_back({size, 1});
    // Per thread: A and B of each link, then C.
    const std::int64_t tile = size * size, each = (2 * kLinks + 1) * tile;
    Buffer buffer(each * team * static_cast<std::int64_t>(sizeof(double)));
    auto* data = reinterpret_cast<double*>(buffer.data());
    std::vector<kernels::GemmWorkspace> workspaces(static_cast<std::size_t>(team));
    parallel_region(team, [&](int t, int) {
        hash_fill<double>(static_cast<std::uint64_t>(t), 1.0,
                          std::span(data + t * each, static_cast<std::size_t>(each)));
    });
    double best = 1e30;
    const double begin = now_seconds();
    for (int calls = 0; calls < 3 || now_seconds() < begin + seconds; ++calls) {
        const double start = now_seconds();
        parallel_region(team, [&](int t, int) {
            const double* at = data + t * each;
            std::array<kernels::ChainLink<double>, kLinks> links;
            for (auto& link : links) {
                link = {at, at + tile, &layout, &layout};
                at += 2 * tile;
            }
            const kernels::Chain<double> chain{data + (t + 1) * each - tile, &layout, links, true};
            kernels::multiply_chains<double>({&chain, 1}, {}, workspaces[static_cast<std::size_t>(t)]);
        });
        best = std::min(best, now_seconds() - start);
    }
    return 2e-9 * static_cast<double>(tile * size * kLinks * team) / best;
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

std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

}  // namespace tessera
