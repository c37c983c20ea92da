#include "probe/machine.hpp"

#include <algorithm>
#include <span>

#include "base/clock.hpp"
#include "base/hash_fill.hpp"
#include "base/parallel.hpp"
#include "device/discovery.hpp"
#include "device/rates.hpp"
#include "probe/rates.hpp"
#include "storage/buffer.hpp"
#include "tessera/base/cpu.hpp"

namespace tessera {

namespace {

/// Bytes per second of the generator that the named problems use, on all threads.
double measure_make_rate(int threads) {
    constexpr std::int64_t count = 1 << 20;
    double best = 1e30;
    Buffer buffer(count * static_cast<std::int64_t>(sizeof(double)) * threads);
    auto* data = reinterpret_cast<double*>(buffer.data());
    // For a while: threads of a library that has just been measured may still be looking for work.
    const double begin = now_seconds();
    do {
        const double start = now_seconds();
        parallel_region(threads, [&](int t, int) {
            hash_fill<double>(static_cast<std::uint64_t>(t), 1.0, std::span(data + t * count, count));
        });
        best = std::min(best, now_seconds() - start);
    } while (now_seconds() < begin + 0.2);
    return static_cast<double>(count * static_cast<std::int64_t>(sizeof(double)) * threads) / best;
}

}  // namespace

MachineModel probe_machine(int threads, int ranks) {
    // Tiles of 23 and of 256 against a large GEMM on AVX-512 (README): both say that half of the rate is reached near
    // 45. The peak is that of tiles of 512 without what they lose by their size.
    constexpr double kHalfSize = 45;
    constexpr std::int64_t kTile = 512;
    const int cores = resolve_threads(threads);
    const double share = 1.0 / std::max(1, ranks);
    MachineModel m;
    m.name = "this";
    m.ranks = m.ranks_per_node = std::max(1, ranks);
    m.threads_per_rank = std::max(1, cores / m.ranks);
    m.gemm = {measure_tile_gflops(kTile, cores, 0.3) * 1e9 * (1 + kHalfSize / kTile) * share, kHalfSize};
    m.host_memory = static_cast<std::int64_t>(static_cast<double>(memory_bytes()) * share);
    m.make_bytes_per_second = measure_make_rate(cores) * share;
    m.copy_bytes_per_second = measure_copy_gbs(cores) * 1e9 * share;
    // A message between ranks is a copy through memory: read once, written once.
    m.network = m.node_link = {measure_copy_gbs(1) * 1e9 / 2, 1e-6};
    if (const int devices = device::count(); devices > 0) {
        const auto rates = measure_device_rates(0, cores);
        m.devices_per_rank = std::max(1, devices / m.ranks);
        m.device = rates.device;
        m.host_to_device = rates.host_to_device;
        m.device_to_host = rates.device_to_host;
        m.device_to_device = rates.device_to_device;
    }
    return m;
}

}  // namespace tessera
