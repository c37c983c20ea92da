#include "probe/cuda/device_rates.hpp"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/hash.hpp"
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/grouped_gemm.hpp"

namespace tessera {

namespace {

namespace cuda = kernels::cuda;
using cuda::check;

/// Least time of a few runs, after one that is not counted.
double seconds_of(const std::function<void()>& work, int runs = 3) {
    cuda::Event begin, end;
    double best = 1e30;
    for (int i = 0; i <= runs; ++i) {
        begin.record();
        work();
        end.record();
        const double t = end.seconds_since(begin);
        if (i > 0) best = std::min(best, t);
    }
    return best;
}

/// Mean time of runs over half a second, after a second of runs that do not count: a device that works hard lowers its
/// clock to keep its power limit, and contractions are long.
double sustained_seconds_of(const std::function<void()>& work) {
    cuda::Event begin, end;
    const auto timed = [&] {
        begin.record();
        work();
        end.record();
        return end.seconds_since(begin);
    };
    for (double warm = 0; warm < 1;) warm += timed();
    double total = 0;
    int runs = 0;
    for (; total < 0.5; ++runs) total += timed();
    return total / runs;
}

/// Products whose extents are spread evenly around `size`, in chains, on operands that are not all in the caches: real
/// tiles are of no round size.
double gemm_rate(std::int64_t size, std::int64_t tiles, std::int64_t chain, int multiprocessors) {
    constexpr std::int64_t kOperands = 64;
    const std::int64_t most = (size + size * 2 / 5) / 2 * 2, ld = most;
    const auto tile_bytes = most * most * static_cast<std::int64_t>(sizeof(double));
    cuda::DeviceBuffer memory(static_cast<std::size_t>((tiles + 2 * kOperands) * tile_bytes));
    auto* at = static_cast<std::byte*>(memory.data());
    const auto side = static_cast<std::int32_t>(most);
    cuda::HashList values(ScalarKind::f64);
    for (std::int64_t i = 0; i < 2 * kOperands; ++i)
        values.add(
            {cuda::address_of(at + (tiles + i) * tile_bytes), static_cast<std::uint64_t>(i), 1.0, side, side, side, 0});
    const auto with_image = [](auto& list, const auto& launch, const auto& use) {
        std::vector<std::byte> host(static_cast<std::size_t>(launch.bytes));
        list.write_image(host.data());
        cuda::DeviceBuffer image(host.size());
        cuda::copy_to_device(image.data(), host.data(), host.size());
        use(image.data());
        cuda::synchronize();
    };
    const auto make = values.plan();
    with_image(values, make, [&](void* image) { cuda::run_hash(make, image); });

    std::uint64_t state = 1;
    const auto extent = [&] {
        state = mix64(state);
        const auto least = size - size * 2 / 5;
        return least + static_cast<std::int64_t>(state % static_cast<std::uint64_t>(most - least + 1));
    };
    cuda::GroupedList products(ScalarKind::f64);
    for (std::int64_t t = 0; t < tiles; ++t) {
        products.add_tile(cuda::address_of(at + t * tile_bytes), extent(), extent(), ld, false);
        for (std::int64_t k = 0; k < chain; ++k) {
            const auto a = (t / 8 * chain + k) % kOperands, b = (t % 8 * chain + k) % kOperands;
            products.add_product(cuda::address_of(at + (tiles + a) * tile_bytes), ld,
                                 cuda::address_of(at + (tiles + kOperands + b) * tile_bytes), ld, extent());
        }
    }
    const auto launch = products.plan(multiprocessors);
    double seconds = 0;
    with_image(products, launch,
               [&](void* image) { seconds = sustained_seconds_of([&] { cuda::run_grouped(launch, image); }); });
    return launch.flops / seconds;
}

/// peak and half size from the rates of two sizes.
GemmModel fit(double small, double small_rate, double large, double large_rate) {
    const double slope = (1 / small_rate - 1 / large_rate) / (1 / small - 1 / large);
    if (slope <= 0) return {std::max(small_rate, large_rate), 0};
    const double peak = 1 / (1 / large_rate - slope / large);
    return {peak, slope * peak};
}

double make_rate() {
    constexpr std::int32_t rows = 512, columns = 1024, tiles = 64;
    cuda::DeviceBuffer memory(std::size_t{tiles} * rows * columns * sizeof(double));
    cuda::HashList list(ScalarKind::f64);
    for (std::int32_t i = 0; i < tiles; ++i)
        list.add({cuda::address_of(static_cast<double*>(memory.data()) + std::int64_t{i} * rows * columns),
                  static_cast<std::uint64_t>(i), 1.0, rows, columns, columns, 0});
    const auto launch = list.plan();
    std::vector<std::byte> host(static_cast<std::size_t>(launch.bytes));
    list.write_image(host.data());
    cuda::DeviceBuffer image(host.size());
    cuda::copy_to_device(image.data(), host.data(), host.size());
    return static_cast<double>(memory.bytes()) / seconds_of([&] { cuda::run_hash(launch, image.data()); });
}

/// Pinned memory while it lives.
struct PinnedBuffer {
    explicit PinnedBuffer(std::size_t bytes) { check(cudaHostAlloc(&data, bytes, 0), "pinned memory"); }
    ~PinnedBuffer() { cudaFreeHost(data); }
    PinnedBuffer(const PinnedBuffer&) = delete;
    PinnedBuffer& operator=(const PinnedBuffer&) = delete;
    void* data = nullptr;
};

}  // namespace

DeviceRates measure_device_rates(int device) {
    cuda::set_device(device);
    const auto info = cuda::device_info(device);
    DeviceRates out;
    out.device.memory = info.memory_bytes;
    out.device.gemm =
        fit(100, gemm_rate(100, 4096, 8, info.multiprocessors), 700, gemm_rate(700, 400, 4, info.multiprocessors));
    out.device.make_bytes_per_second = make_rate();
    out.device.launch_seconds = 1e-5;

    constexpr std::size_t kBytes = std::size_t{64} << 20;
    const PinnedBuffer host(kBytes);
    const cuda::DeviceBuffer here(kBytes), there(kBytes);
    const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) -> LinkModel {
        const double t = seconds_of([&] { check(cudaMemcpyAsync(to, from, kBytes, kind, nullptr), "copy"); });
        return {static_cast<double>(kBytes) / t, 1e-5};
    };
    out.host_to_device = copy(here.data(), host.data, cudaMemcpyHostToDevice);
    out.device_to_host = copy(host.data, here.data(), cudaMemcpyDeviceToHost);
    out.device_to_device = copy(there.data(), here.data(), cudaMemcpyDeviceToDevice);
    return out;
}

}  // namespace tessera
