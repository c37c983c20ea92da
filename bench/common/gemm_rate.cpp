#include "gemm_rate.hpp"

#include <algorithm>
#include <vector>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "device/discovery.hpp"
#include "device/memory.hpp"
#include "device/sharing.hpp"
#include "openblas_library.hpp"
#include "tessera/base/error.hpp"

namespace tessera::bench {

std::string why_no_openblas(int threads) {
    if (!openblas().available()) return openblas().missing();
    return OpenblasLibrary::has_room(resolve_threads(threads))
               ? ""
               : "the limit on the address space (ulimit -v) leaves no room for OpenBLAS's threads";
}

GemmRate openblas_dgemm_rate(int threads, double seconds) {
    if (!why_no_openblas(threads).empty()) return {};
    constexpr int n = 2000;
    const auto& blas = openblas();
    blas.set_threads(resolve_threads(threads));
    std::vector<double> a(n * n, 0.5), b(n * n, 0.25), c(n * n, 0.0);
    double best = 1e30, all = 0;
    int calls = 0;
    for (; calls < 3 || all < seconds; ++calls) {
        const double t = now_seconds();
        blas.dgemm(n, n, n, a.data(), n, b.data(), n, 0, c.data(), n);
        const double took = now_seconds() - t;
        best = std::min(best, took);
        all += took;
    }
    blas.set_threads(1);
    const double gflop = 2e-9 * n * n * n;
    return {gflop / best, gflop * calls / all};
}

namespace {

constexpr std::int64_t kSizes[] = {4096, 8192};
constexpr std::int64_t kBeside = std::int64_t{256} << 20;  // for cuBLAS's workspace and code
std::int64_t bytes_of_three(std::int64_t n) { return 3 * n * n * 8; }

}  // namespace

GemmRate cublas_dgemm_rate(const CublasLibrary& cublas, double seconds, std::int64_t room) {
    if (!cublas.available()) return {};
    GemmRate rate;
    std::int64_t largest = 0;
    for (const auto n : kSizes)
        if (bytes_of_three(n) + kBeside <= room) largest = n;
    for (const auto n : kSizes) {
        if (n > largest) break;
        std::vector<double> host(static_cast<std::size_t>(n * n));
        for (std::size_t x = 0; x < host.size(); ++x)
            host[x] = static_cast<double>(mix64(x) >> 11) * 0x1p-52 - 1;  // all bits in use, as in real operands
        const std::size_t bytes = host.size() * sizeof(double);
        const device::DeviceBuffer a(bytes), b(bytes), c(bytes);
        device::copy_to_device(a.data(), host.data(), bytes);
        std::ranges::reverse(host);
        device::copy_to_device(b.data(), host.data(), bytes);
        const double size = static_cast<double>(n), flops = 2 * size * size * size;
        const auto timed = [&] {
            device::Event start, stop;
            start.record();
            cublas.dgemm(false, false, n, n, n, 1, static_cast<const double*>(a.data()), n,
                         static_cast<const double*>(b.data()), n, 0, static_cast<double*>(c.data()), n);
            stop.record();
            return stop.seconds_since(start);
        };
        for (int run = 0; run < 6; ++run) {
            const double t = timed();
            if (run > 0) rate.best_gflops = std::max(rate.best_gflops, flops / t * 1e-9);
        }
        if (n != largest || seconds <= 0) continue;
        double total = 0;
        int calls = 0;
        for (; total < seconds; ++calls) total += timed();
        rate.mean_gflops = flops * calls / total * 1e-9;
    }
    return rate;
}

}  // namespace tessera::bench

namespace tessera::app {

namespace {

/// Of the devices whose turn it is on this rank. What this takes on a card is given back before it returns, cuBLAS's
/// handle included: the contraction has its whole budget. A card that is nearly full has no rate, and no error.
GemmRate device_gemm(const std::vector<int>& devices, const std::vector<bool>& mine, double seconds) {
    GemmRate rate;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        if (!mine[i]) continue;
        device::set_current(devices[i]);
        try {
            const bench::CublasLibrary cublas;  // its handle is of this device
            const auto one = bench::cublas_dgemm_rate(cublas, seconds, device::free_bytes(devices[i]));
            rate.best_gflops += one.best_gflops;
            rate.mean_gflops += one.mean_gflops;
        } catch (const MachineError&) {  // someone else took the memory meanwhile
        }
    }
    return rate;
}

}  // namespace

GemmRate gemm_rate(Communicator& ranks, const Resources& here, double seconds) {
    const GemmRate rate = here.devices.empty()
                              ? bench::openblas_dgemm_rate(here.threads, seconds)
                              : device_gemm(here.devices, first_of_its_gpu(ranks, here.devices), seconds);
    double both[] = {rate.best_gflops, rate.mean_gflops};
    if (ranks.size() > 1) ranks.sum(std::span<double>(both));
    return {both[0], both[1]};
}

}  // namespace tessera::app
