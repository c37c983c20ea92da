#pragma once
// What this machine reaches: the rate of tile products, and the copy rate that results are held against.

#include <cstdint>
#include <string>

namespace tessera {

/// Chains of tile products, each thread its own of this size, on this many threads: the best call, in GFLOP/s.
double measure_tile_gflops(std::int64_t size, int threads, double seconds);
/// The faster of memcpy and a streaming-store loop on this many threads, in GB/s (bytes read plus bytes written).
double measure_copy_gbs(int threads);

/// Touches this much fresh memory and gives it back. A virtual machine gets its memory from the host page by page on
/// first touch, which can take seconds per GiB; a timing should not depend on who touched it first.
void touch_memory(std::int64_t bytes, int threads);

std::string cpu_name();

}  // namespace tessera
