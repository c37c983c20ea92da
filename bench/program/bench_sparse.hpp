#pragma once
// `tessera bench sparse`: small tiles at 10% occupancy against DBCSR, and what a permuted layout costs.

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tessera {

struct SparseBenchOptions {
    bool peers = false;
    bool quiet = false;
    bool blocks = true, permuted = true;  // which of the two tables
    int threads = 0;
    int repeats = 3;  // best of these, after one that is not counted
    /// Where the peers' programs are: the folder bench/ next to the running program unless given.
    std::filesystem::path peer_folder;
};

/// `cases`: tile, problem, seconds, gflops, flops, metadata_fraction and, with peers, peer_gflops and ratio.
/// `permuted`: spec, gemm_ready, gflops, gemm_ready_gflops, ratio. Summary: worst_ratio (null without the peer),
/// two_ranks (with peers: gflops, peer_gflops, ratio of tiles of 23 on two ranks), permuted_geomean, metadata_fraction
/// (tiles of 32), threads. Progress goes to stderr.
nlohmann::json bench_sparse(const SparseBenchOptions& options);

/// The same as a table for people.
void print_bench_sparse(const nlohmann::json& result);

}  // namespace tessera
