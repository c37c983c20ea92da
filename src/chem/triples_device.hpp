#pragma once
// The (T) correction on devices.

#include <span>
#include <vector>

#include "chem/triples_energy.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::chem {

/// A block of occupied orbitals that stands for several orders of i, j, k.
struct TripleBlock {
    struct Range {
        std::int64_t begin, extent;
    } k, j, i;
    double orders;
};
/// Blocks for tiles of the device's kernel: every triple is in exactly one of them, up to its order. At most
/// `longest_k` of k at a time.
std::vector<TripleBlock> device_blocks(std::int64_t occupied, std::int64_t longest_k);

/// Bytes on a device for the tensors and any one of the blocks, at most.
double device_triples_bytes(std::int64_t occupied, std::int64_t virtuals, std::int64_t longest_k, int multiprocessors);

/// This rank's share of (T), on each of the devices with at most `memory` bytes (the same on all ranks); nothing where
/// that is too little.
TriplesResult device_triples(const kernels::ClosedShellTensors& host, std::span<const int> devices, std::int64_t memory,
                             Communicator& ranks, const TriplesProgress& progress);

}  // namespace tessera::chem
