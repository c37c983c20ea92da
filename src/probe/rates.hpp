#pragma once
// What this machine reaches: the GEMM rate and the copy rate that results are held against.

#include <cstdint>
#include <string>

namespace tessera {

/// OpenBLAS's DGEMM of 2000 on this many threads, in GFLOP/s: the best call and the mean of all within `seconds`.
struct GemmRate {
    double best_gflops = 0, mean_gflops = 0;
};
GemmRate measure_gemm(int threads, double seconds = 0.5);
inline double measure_gemm_gflops(int threads, double seconds = 0.5) {
    return measure_gemm(threads, seconds).best_gflops;
}
/// The faster of memcpy and a streaming-store loop on this many threads, in GB/s (bytes read plus bytes written).
double measure_copy_gbs(int threads);

/// Touches this much fresh memory and gives it back. A virtual machine gets its memory from the host page by page on
/// first touch, which can take seconds per GiB; a timing should not depend on who touched it first.
void touch_memory(std::int64_t bytes, int threads);

/// OpenBLAS chooses its kernels while it loads, and releases older than a processor may take it for a very old one.
/// The core name that OPENBLAS_CORETYPE should have had in the environment, or null where the choice was right.
const char* better_blas_core();

std::string cpu_name();
std::string blas_name();

}  // namespace tessera
