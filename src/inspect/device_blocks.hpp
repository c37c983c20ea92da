#pragma once
// How one rank's sums are cut into blocks of C that its devices hold one after another, and each block into chunks of
// tiles of A and B that pass by.

#include <cstdint>
#include <vector>

#include "inspect/inspection.hpp"

namespace tessera {

struct ChunkTile {
    Operand operand;
    std::int32_t slot;
    std::int64_t bytes;
    std::int64_t offset;  // in the chunk's buffer, in the block (B that stays) or in the resident region
    bool resident;        // stays for all blocks
};
struct ChunkChain {
    std::int32_t sum, products;
};
struct Chunk {
    std::vector<ChunkTile> tiles;
    std::vector<ChunkChain> chains;
};
struct Block {
    std::vector<std::int32_t> sums;
    std::vector<std::int64_t> offsets;  // of each sum in the block's region
    std::vector<ChunkTile> held;        // tiles of B that stay for the block
    std::vector<Chunk> chunks;
    std::int64_t bytes = 0;
    double flops = 0;
    int device = 0;
    std::int64_t region = 0;    // where it lies on the device
    std::int32_t follows = -1;  // the block that has to leave this place before; -1: none
};
/// The memory of one device, in this order: regions of C, resident tiles of A (and B), chunk buffers.
struct DeviceLayout {
    int c_regions = 1, buffers = 1;  // regions of one size that blocks take in turn; 0: the blocks have been placed
    std::int64_t c_bytes = 0, resident_bytes = 0, chunk_bytes = 0;  // c_bytes: of all regions
    std::vector<Block> blocks;
    std::int64_t total() const { return c_bytes + resident_bytes + buffers * chunk_bytes; }
};

struct DeviceCut {
    std::string how;  // worst_fit or patches
    std::vector<DeviceLayout> devices;
    std::int64_t loaded_bytes = 0;  // of A and B, into all devices of the rank
};

struct ChunkLimits {
    std::int64_t memory;  // of the device, for tiles
    std::int64_t unit;    // the most that has to be in a chunk at once
    bool b_held;          // tiles of B stay for their block
};
/// Places the sums of the layout's blocks and cuts the blocks into chunks; adds what is loaded.
void cut_chunks(const Inspection& in, const ChunkLimits& limits, DeviceLayout& layout, std::int64_t& loaded);

/// Throws BudgetError where a device's memory is too small.
DeviceCut cut_for_devices(const Inspection& in, const std::vector<std::int32_t>& sums);

}  // namespace tessera
