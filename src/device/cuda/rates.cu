#include "device/rates.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/grouped_gemm.hpp"
#include "kernels/tile_math.hpp"
#include "storage/buffer.hpp"

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

struct Stream {
    Stream() { check(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), "stream"); }
    ~Stream() { cudaStreamDestroy(handle); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    void wait() const { check(cudaStreamSynchronize(handle), "copies"); }
    cudaStream_t handle = nullptr;
};

/// Bytes per second in and out while both go on: every thread fills and empties pieces of its own.
double staged_rate(int device, int threads) {
    constexpr std::int64_t kPiece = 2 << 20, kHost = 512 << 20;
    constexpr int kPieces = 2;  // of a thread, each way
    constexpr double kWarm = 0.1, kSeconds = 0.3;
    Buffer from(kHost), to(kHost);
    for (auto* b : {&from, &to}) touch_pages({b->data(), static_cast<std::size_t>(kHost)}, threads);
    const cuda::DeviceBuffer here(static_cast<std::size_t>(threads * 2 * kPiece));
    const PinnedBuffer pinned(static_cast<std::size_t>(threads * 2 * kPieces * kPiece));
    std::atomic<std::int64_t> next{0}, moved{0};
    std::exception_ptr failure;
    std::atomic<bool> failed{false};
    const double start = now_seconds();
    const auto work = [&](int t) {
        try {
            device::set_current(device);
            const Stream in[kPieces], out[kPieces];
            auto* staging = static_cast<std::byte*>(pinned.data) + t * 2 * kPieces * kPiece;
            auto* there = static_cast<std::byte*>(here.data()) + t * 2 * kPiece;
            for (int i = 0; !failed && now_seconds() - start < kWarm + kSeconds; ++i) {
                const auto turn = i % kPieces;
                auto *send = staging + 2 * turn * kPiece, *got = send + kPiece;
                const auto at = next.fetch_add(kPiece) % kHost;
                in[turn].wait();
                std::memcpy(send, from.data() + at, kPiece);
                check(cudaMemcpyAsync(there, send, kPiece, cudaMemcpyHostToDevice, in[turn].handle), "copy in");
                out[turn].wait();
                if (i >= kPieces) copy_past_caches(to.data() + at, got, kPiece);
                check(cudaMemcpyAsync(got, there + kPiece, kPiece, cudaMemcpyDeviceToHost, out[turn].handle),
                      "copy out");
                if (now_seconds() - start > kWarm) moved += kPiece;
            }
            for (const auto& s : in) s.wait();
            for (const auto& s : out) s.wait();
        } catch (...) {
            if (!failed.exchange(true)) failure = std::current_exception();
        }
    };
    {
        std::vector<std::jthread> team;  // joined where starting one of them fails, too
        try {
            for (int t = 0; t < threads; ++t) team.emplace_back(work, t);
        } catch (...) {
            failed = true;
            throw;
        }
    }
    if (failure) std::rethrow_exception(failure);
    return static_cast<double>(moved) / kSeconds;
}

}  // namespace

DeviceRates measure_device_rates(int device, int threads) {
    device::set_current(device);
    const auto info = device::info(device);
    DeviceRates out;
    out.device.memory = info.memory_bytes;
    out.device.gemm =
        fit(100, gemm_rate(100, 4096, 8, info.multiprocessors), 1000, gemm_rate(1000, 96, 4, info.multiprocessors));
    out.device.make_bytes_per_second = make_rate();
    out.device.launch_seconds = 1e-5;

    const double staged = staged_rate(device, std::max(1, threads));
    out.host_to_device = out.device_to_host = {staged, 1e-5};
    constexpr std::size_t kBytes = std::size_t{64} << 20;
    const cuda::DeviceBuffer here(kBytes), there(kBytes);
    const double t = seconds_of(
        [&] { check(cudaMemcpyAsync(there.data(), here.data(), kBytes, cudaMemcpyDeviceToDevice, nullptr), "copy"); });
    out.device_to_device = {static_cast<double>(kBytes) / t, 1e-5};
    return out;
}

}  // namespace tessera
