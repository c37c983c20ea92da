#include "gemm_rate.hpp"

#include <algorithm>

#include "cublas_library.hpp"
#include "execute/device/device_share.hpp"
#include "kernels/cuda/device.hpp"
#include "tessera/base/error.hpp"

namespace tessera::app {

namespace {

/// Of the devices whose turn it is on this rank. What this takes on a card is given back before it returns, cuBLAS's
/// handle included: the contraction has its whole budget. A card that is nearly full has no rate, and no error.
GemmRate device_gemm(const std::vector<int>& devices, const std::vector<bool>& mine, double seconds) {
    GemmRate rate;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        if (!mine[i]) continue;
        kernels::cuda::set_device(devices[i]);
        try {
            const bench::CublasLibrary cublas;  // its handle is of this device
            const auto one = bench::cublas_dgemm_rate(cublas, seconds, kernels::cuda::free_bytes(devices[i]));
            rate.best_gflops += one.best_gflops;
            rate.mean_gflops += one.mean_gflops;
        } catch (const MachineError&) {  // someone else took the memory meanwhile
        }
    }
    return rate;
}

}  // namespace

GemmRate gemm_rate(Communicator& ranks, const ContractOptions& options, double seconds) {
    const GemmRate rate = options.devices.empty()
                              ? measure_gemm(options.threads, seconds)
                              : device_gemm(options.devices, first_of_its_gpu(ranks, options.devices), seconds);
    double both[] = {rate.best_gflops, rate.mean_gflops};
    if (ranks.size() > 1) ranks.sum(std::span<double>(both));
    return {both[0], both[1]};
}

}  // namespace tessera::app
