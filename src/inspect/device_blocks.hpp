#pragma once
// How one rank's sums are cut into blocks of C that its devices hold one after another, and each block into chunks of
// tiles of A and B that pass by.

#include <cstdint>
#include <vector>

#include "inspect/inspection.hpp"

namespace tessera {

inline constexpr int kMostLookahead = 16;

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
    int device = 0;
    int c_regions = 1, buffers = 1;  // regions of one size that blocks take in turn; 0: the blocks have been placed
    std::int64_t c_bytes = 0, resident_bytes = 0, chunk_bytes = 0;  // c_bytes: of all regions
    std::vector<Block> blocks;
    std::int64_t distinct[2] = {0, 0}, by_block[2] = {0, 0};  // bytes of A and B: each tile once; once for each block
    int depth = 0;                                            // of the deepest chunk
    std::int64_t total() const { return c_bytes + resident_bytes + buffers * chunk_bytes; }
};

/// What a block may have at most.
struct BlockLimits {
    std::int64_t bytes;
    std::size_t rows, cols;  // of tiles of C
};
/// Neighbouring columns, their rows cut into about so many groups.
std::vector<Block> patches_of(const Inspection& in, const std::vector<std::int32_t>& sums, int row_cuts,
                              const BlockLimits& limits);
/// Published (IPDPS 2021, section III.C): columns with their B by size, each into the emptiest block.
std::vector<Block> worst_fit(const Inspection& in, const std::vector<std::int32_t>& sums, int devices,
                             const BlockLimits& limits);

/// Bytes of the tiles that have a product.
struct UsedBytes {
    std::int64_t a = 0, b = 0;
};
UsedBytes used_bytes(const Inspection& in, const std::vector<std::int32_t>& sums);

/// One device where A and B stay: C in strips along the index of the larger operand, about one n-th each. The smaller
/// one comes whole with the first strip, which is so long that its products take as long as its loads, and no longer:
/// until it is done nothing leaves. False where that takes too much memory, with `regions` strips there at once, or
/// there is too little to cut.
bool strips_of(const Inspection& in, const std::vector<std::int32_t>& sums, const UsedBytes& used, std::int64_t n,
               std::int64_t memory, int regions, DeviceLayout& out);

struct ChunkLimits {
    std::int64_t memory;      // of the device, for tiles
    std::int64_t unit;        // the most that has to be in a chunk at once
    bool b_held;              // tiles of B stay for their block
    int buffers;              // for chunks, where the lookahead is given; else 0
    std::int64_t chunk;       // bytes of a chunk, where given; else 0
    int depth;                // of a chunk, at most
    bool whole_sums = false;  // all tiles stay, and no sum is cut: products in the order of C
};

/// One way to form the blocks of a rank's devices.
struct DeviceCut {
    std::vector<DeviceLayout> devices;
    ChunkLimits limits;
    Blocks blocks = Blocks::automatic;
    PlanCandidate counted;     // what its blocks load, and about how long that and the products take
    double least_seconds = 0;  // no plan of these blocks can take less
    // Known once it is cut into chunks.
    PlanParameters used;  // the largest of any device
    MemoryCase memory_case = MemoryCase::all_fits;
};

/// Whether tiles of A, and of B, stay on a device for all of its blocks.
struct Staying {
    bool a, b;
};
Staying what_stays(const Inspection& in, const ChunkLimits& limits, const DeviceLayout& layout);

/// Places the sums of the layout's blocks and cuts the blocks into chunks.
void cut_chunks(const Inspection& in, const ChunkLimits& limits, DeviceLayout& layout);

/// Throws UserError where a parameter is not possible, or does not go with the others.
void check_parameters(const Inspection& in);

struct DeviceWays {
    std::vector<DeviceCut> ways;  // one at least; not yet cut into chunks
    std::vector<Blocks> refused;  // those that take more memory than there is
    bool nothing_twice = false;   // one of them loads no tile twice: no way can load less
    bool brief = false;           // the only way: to weigh others would take longer than the products
};
/// The ways that were asked for. Without `every`, none that cannot load less than one that is there.
/// Throws BudgetError where a device's memory is too small for all of them.
DeviceWays ways_for_devices(const Inspection& in, const std::vector<std::int32_t>& sums, bool every);
/// Cuts its blocks into chunks.
void finish_cut(const Inspection& in, DeviceCut& cut);

/// The best way by counting, in chunks.
DeviceCut cut_for_devices(const Inspection& in, const std::vector<std::int32_t>& sums);

}  // namespace tessera
