#pragma once
// The least time that work can take on these cores: its arithmetic at the rate of tile products, what it reads at the
// rate of reading, what it writes at that of streaming stores, both at that of a copy, whichever is longest. What the
// caches still hold from before can be faster.

#include <cstdint>

#include "tessera/base/scalar.hpp"

namespace tessera {

/// Rates of so many threads of this machine; zeros: not known.
struct Roofline {
    double gemm_gflops = 0;                            // of doubles; floats are twice as fast
    double read_gbs = 0, store_gbs = 0, copy_gbs = 0;  // of memory; of a copy what is read and what is written

    double flops_seconds(double flops, ScalarKind scalar) const;
    double bytes_seconds(double read, double written) const;
    double floor_seconds(double flops, ScalarKind scalar, double read, double written) const;
};

/// Reads, streaming stores and copies of memory larger than the caches, in GB/s, each the best of a few rounds.
void measure_memory_rates(int threads, Roofline& into);

}  // namespace tessera
