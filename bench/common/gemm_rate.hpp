#pragma once
// The GEMM rates that results are held against: OpenBLAS's on cores, cuBLAS's on devices. Zeros where there is none.

#include <string>

#include "cublas_library.hpp"
#include "tessera/contract/resources.hpp"

namespace tessera {

/// In GFLOP/s: the best call, and the mean of calls one after another for some seconds.
struct GemmRate {
    double best_gflops = 0, mean_gflops = 0;
};

}  // namespace tessera

namespace tessera::bench {

/// OpenBLAS's DGEMM of 2000 on this many threads.
GemmRate openblas_dgemm_rate(int threads, double seconds = 0.5);
/// Why it would be zero, as in "OpenBLAS is not installed"; empty where it would not.
std::string why_no_openblas(int threads);

/// Square products of 4096 and 8192 on resident pseudo-random operands; the mean is of the larger one, for so many
/// seconds (0: none). Everything it takes (up to 1.8 GiB) is given back when it returns, but for cuBLAS's own; sizes
/// for which there is no `room` are left out.
GemmRate cublas_dgemm_rate(const CublasLibrary& cublas, double seconds, std::int64_t room = INT64_MAX);
inline double cublas_dgemm_gflops(const CublasLibrary& cublas) { return cublas_dgemm_rate(cublas, 0).best_gflops; }

}  // namespace tessera::bench

namespace tessera::app {

/// The rate that a result is held against: of all ranks together; on devices, of all GPUs that are named, each once
/// however many entries and ranks share it. A device that works hard lowers its clock to keep its power limit, and
/// cores are shared with others: the mean over `seconds` of calls says what they can keep up.
GemmRate gemm_rate(Communicator& ranks, const Resources& here, double seconds);

}  // namespace tessera::app
