#pragma once
// What the host side of the fused contraction hands to its kernels. No CUDA types: triples.cpp plans, triples.cu and
// triples_pack.cu launch.
//
// The six output indices play six roles: x0 (tiles of 8), x1, x2, y1, y2, y3 (tiles of 4). A tile is 8192 elements.
// Layout 1 spreads x0 and x1 over the lanes of a warp and loops over x2, y1, y2, y3; in layout 2 x1 and x2 have changed
// places. A term is a matrix product in a layout if x0 comes from one operand (r), the other index of the lanes from
// the other (s), and each operand has two of the four loops: the bits of `mask` are the loops of r.

#include "device/cuda/names.hpp"
#include "device/orbit_row.hpp"

namespace tessera::kernels::cuda {

inline constexpr int kRoleTile0 = 8, kRoleTileN = 4;  // x0, and the others
inline constexpr int kTileElements = 8192;
inline constexpr int kChunk = 8;    // summed elements packed together
inline constexpr int kRowsR = 128;  // 8 x 4 x 4 rows of operand r in a tile
inline constexpr int kRowsS = 64;   // 4 x 4 x 4 rows of operand s
inline constexpr int kStages = 3;   // of slices on their way
inline constexpr int kStageChunks = 2;
inline constexpr int kMaxGroups = 2 * 6;  // layouts, and splits of four loops into two and two

/// All terms with one layout and mask: their sums lie one behind the other in the packed operands.
struct PackedGroup {
    const double *r, *s;
    long long r_step[6], s_step[6];  // doubles from one tile to the next, by role; 0 where not carried
    int chunks;
    int mask;
};

/// A term that is no such product: ordinary multiply-adds. Its packed slices have, for each summed element, what the
/// accumulators of a thread need of an operand, two by two: [pair of elements][thread][2]. A thread's number among
/// those that differ is the sum of `lane` times (x0, S, half of y1, of y2, of y3).
struct DirectOperandPlace {
    const double* data;
    long long step[6];  // doubles from one tile to the next, by role
    int lane[5];
    int lanes;
};
inline constexpr int kDirectBatch = 16;  // direct terms prepared at a time
struct DirectTerm {
    DirectOperandPlace a, b;
    int sum;
    int mask;  // the loops of a, in the final layout
};

/// One operand of one term on its way into its packed place.
enum class PackKind : int { r, s, direct, energies };
struct PackItem {
    const double* from;
    double* to;
    // Products: of the index of the lanes, then of the loops in ascending order. Direct terms: by role.
    long long stride[6];
    long long sum_stride;
    long long first_block;
    double factor;            // energies: the sign
    int extent[6], tiles[6];  // tiles: 1 where not carried
    unsigned period[6];       // slices from one tile to the next
    PackKind kind;
    int layout;        // direct terms: the final one
    int carried;       // direct terms: roles, a bit each
    int begin, end;    // in the sum
    int chunks;        // of the group's sum
    int rows;          // doubles per summed element in a slice
    int parts;         // thread blocks along the sum, kPackChunks chunks each
    int zeros_behind;  // the last term of a group fills up its last chunk
};
inline constexpr int kPackChunks = 4;
inline constexpr int kPackThreads = 256;

#ifdef __CUDACC__
#define TESSERA_BOTH_SIDES __host__ __device__
#else
#define TESSERA_BOTH_SIDES
#endif
/// Role of a loop (0 .. 3) in a layout, and of S; the tile of a role.
TESSERA_BOTH_SIDES constexpr int loop_role(int layout, int loop) { return loop == 0 ? 3 - layout : 2 + loop; }
TESSERA_BOTH_SIDES constexpr int lane_role(int layout) { return layout; }
TESSERA_BOTH_SIDES constexpr int role_tile(int role) { return role == 0 ? kRoleTile0 : kRoleTileN; }

struct FusedParams {
    int extent[6], tiles[6];
    PackedGroup group[kMaxGroups];
    int groups1, groups2;  // in layout 1, then in layout 2
    int layout;            // the final one
    unsigned long zero;    // 0, which the compiler must not know
    const DirectTerm* direct;
    int direct_terms, direct_singles;  // singles lie behind the terms
    double* out;
    long long out_stride[6];
    int accumulate;
    const double* energies[6];
    double sign[6];
    double* partial;  // one per tile, thread block, orbit, or warp and orbit; then the energy
    double* scratch;  // orbits: six tiles per thread block, two where it walks
    long long first_tile;
    // Thread blocks that walk over tiles (triples_walk.cuh).
    unsigned tile_count, period[6];    // tiles of one launch, and from one tile to the next along a role
    unsigned* queue;                   // the next orbit
    const double* padded_energies[6];  // signed, to whole tiles
    unsigned* arrived;                 // thread blocks that are done; the last one sums up
    double scale;
    unsigned extra_bytes;  // the epilogue's operands of a tile
    long long orbits;
    // Orbits of the rows of a table, row after row, instead of all tiles of the first three roles.
    const tessera::device::OrbitRow* rows;
    unsigned orbits_of_row;
    double* result;  // the energy
};

/// The disconnected terms of the triples, operands in turn: their slices in shared memory, in doubles. Numbered by the
/// small operand: three virtual indices times x0, S, loop 0.
inline constexpr int kSingles = 9;
/// The groups of all splits of three and three, by layout and mask.
inline constexpr int kNineGroups = 9;
inline constexpr int kNineLayouts[kNineGroups] = {1, 1, 1, 1, 1, 1, 2, 2, 2};
inline constexpr int kNineMasks[kNineGroups] = {3, 5, 6, 9, 10, 12, 3, 5, 9};
TESSERA_BOTH_SIDES constexpr int single_size(int operand) {
    return operand % 2 == 0 ? (operand / 2 % 3 == 0 ? 32 : 16) : (operand / 2 % 3 == 0 ? 256 : 512);
}
TESSERA_BOTH_SIDES constexpr int single_place(int operand) {
    const int occupied = operand / 2 % 3;
    const int small = operand / 6 * 1344 + (occupied == 0 ? 0 : occupied == 1 ? 288 : 816);
    return operand % 2 == 0 ? small : small + single_size(operand - 1);
}
inline constexpr int kSinglesDoubles = 4032;
static_assert(single_place(17) + single_size(17) == kSinglesDoubles &&
              single_place(1) + single_size(1) == single_place(2) &&
              single_place(5) + single_size(5) == single_place(6));

enum class FusedFinish { store, energy, orbit };
inline constexpr int kFusedThreads = 256, kFusedWarps = kFusedThreads / 32, kFusedBlocksPerSm = 2;

void launch_pack(const PackItem* items, int count, long long blocks, StreamHandle stream);
void launch_fused(const FusedParams& params, FusedFinish finish, int blocks, StreamHandle stream);
/// *result = scale * sum of partial[0 .. count), in a fixed order.
void launch_reduce(const double* partial, long long count, double scale, double* result, StreamHandle stream);
int multiprocessors();  // of the current device
bool walks_here();      // whether it runs the kernels that walk

}  // namespace tessera::kernels::cuda
