#include "probe/roofline.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "kernels/tile_math.hpp"
#include "storage/buffer.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera {

namespace {

/// Reads a word of each line. What the sum is does not matter, but the compiler must not know.
std::uint64_t sum_of_lines(const std::uint64_t* x, std::int64_t n) {
    std::uint64_t s[8] = {};
    for (std::int64_t i = 0; i + 64 <= n; i += 64)
        for (int j = 0; j < 8; ++j) {
            __builtin_prefetch(x + i + 8 * j + 512);
            s[j] += x[i + 8 * j];
        }
    return ((s[0] ^ s[1]) ^ (s[2] ^ s[3])) ^ ((s[4] ^ s[5]) ^ (s[6] ^ s[7]));
}

}  // namespace

double Roofline::flops_seconds(double flops, ScalarKind scalar) const {
    const bool single = scalar == ScalarKind::f32 || scalar == ScalarKind::c64;
    return gemm_gflops > 0 ? flops / (gemm_gflops * (single ? 2e9 : 1e9)) : 0;
}

double Roofline::bytes_seconds(double read, double written) const {
    const auto seconds = [](double bytes, double gbs) { return gbs > 0 ? bytes / (gbs * 1e9) : 0; };
    return std::max({seconds(read, read_gbs), seconds(written, store_gbs), seconds(read + written, copy_gbs)});
}

double Roofline::floor_seconds(double flops, ScalarKind scalar, double read, double written) const {
    return std::max(flops_seconds(flops, scalar), bytes_seconds(read, written));
}

void measure_memory_rates(int threads, Roofline& into) {
    const int team = resolve_threads(threads);
    // Well beyond the last cache. Stores come from a source that stays near.
    constexpr std::int64_t kPiece = 16 << 10;
    const auto each = std::clamp<std::int64_t>(3 * cache_sizes().l3, 96 << 20, 512 << 20) / team / kPiece * kPiece;
    Buffer memory(2 * each * team), source(kPiece * team);
    touch_pages({memory.data(), static_cast<std::size_t>(memory.bytes())}, team);
    touch_pages({source.data(), static_cast<std::size_t>(source.bytes())}, team);
    std::byte* const other = memory.data() + each * team;
    std::atomic<std::uint64_t> sum{0};
    const auto best = [&](auto&& work) {
        double least = 1e30;
        for (int trial = 0; trial < 6; ++trial) {
            const double start = now_seconds();
            parallel_region(team, [&](int t, int n) {
                for (int part = t; part < team; part += n) work(part, memory.data() + part * each);
            });
            least = std::min(least, now_seconds() - start);
        }
        return 1e-9 * static_cast<double>(each) * team / least;
    };
    into.store_gbs = best([&](int part, std::byte* to) {
        for (std::int64_t at = 0; at < each; at += kPiece)
            copy_past_caches(to + at, source.data() + part * kPiece, kPiece);
    });
    into.copy_gbs = 2 * best([&](int part, std::byte* to) {
                        copy_past_caches(to, other + part * each, static_cast<std::size_t>(each));
                    });
    into.read_gbs = best([&](int, const std::byte* from) {
        sum += sum_of_lines(reinterpret_cast<const std::uint64_t*>(from), each / 8);
    });
    // Whoever copies also reads and stores.
    into.read_gbs = std::max(into.read_gbs, into.copy_gbs / 2);
    into.store_gbs = std::max(into.store_gbs, into.copy_gbs / 2);
}

}  // namespace tessera
