#pragma once
// `tessera bench dense`: a large dense product on ranks of one thread, against ScaLAPACK's pdgemm.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace tessera {

struct DenseBenchOptions {
    bool peers = false, quiet = false;
    int ranks = 2, threads = 1;  // threads of each rank
    std::int64_t size = 6000, tile = 500;
    int repeats = 3;
    std::filesystem::path peer_folder;  // as in SparseBenchOptions
};

/// size, tile, ranks, threads, seconds, gflops, algorithm, overlap and, with peers, peer_gflops and ratio (null
/// without).
nlohmann::json bench_dense(const DenseBenchOptions& options);

}  // namespace tessera
