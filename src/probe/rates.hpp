#pragma once
// What this machine reaches: the GEMM rate and the copy rate that results are held against.

#include <cstdint>
#include <string>

namespace tessera {

/// Best OpenBLAS DGEMM of 2000 on this many threads, in GFLOP/s; at least `seconds` of trying.
double measure_gemm_gflops(int threads, double seconds = 0.5);
/// The faster of memcpy and a streaming-store loop on this many threads, in GB/s (bytes read plus bytes written).
double measure_copy_gbs(int threads);

/// OpenBLAS chooses its kernels while it loads, and releases older than a processor may take it for a very old one.
/// The core name that OPENBLAS_CORETYPE should have had in the environment, or null where the choice was right.
const char* better_blas_core();

std::string cpu_name();
std::int64_t memory_bytes();
std::string blas_name();

}  // namespace tessera
