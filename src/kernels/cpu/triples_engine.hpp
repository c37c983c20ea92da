#pragma once
// The fused contraction on CPU cores: tiling, packed operands, and one cached block at a time.
//
// Three levels. A *sub-block* of the output (about 16 KiB) lies in L1 while terms stream through it; a *block* of
// sub-blocks (about 256 KiB) lies in L2 together with its slices of the operands. One output index is the vector
// index: in every term it belongs to one operand (P, read as vectors), the other operand (Q) is broadcast, so that all
// terms share one layout of the block and nothing is ever transposed. Operands are packed once per call.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/triples_kernel.hpp"
#include "storage/buffer.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::kernels::cpu {

struct BlockTiling {
    int lanes = 1;
    int vec = 0;                               // the vector index; tile[vec] == lanes
    std::array<int, kBlockRank> tile{};        // extents of a sub-block, powers of two
    std::array<int, kBlockRank> per_block{};   // sub-blocks of a block along each index
    std::array<int, kBlockRank> in_stride{};   // strides inside a sub-block, in elements
    std::array<int, kBlockRank> sub_stride{};  // strides between sub-blocks of a block, in elements
    BlockExtents extents{}, tiles{}, blocks{};
    int sub_size = 0, block_size = 0;
    std::int64_t block_count = 0;

    BlockExtents block_at(std::int64_t number) const;  // index 0 fastest
    std::int64_t block_extent(int n) const { return static_cast<std::int64_t>(tile[n]) * per_block[n]; }
    /// offsets[n][x]: what local coordinate x of index n adds to an address in the block buffer.
    std::array<std::vector<int>, kBlockRank> offsets;
};

/// The part of a block that lies within the tensor.
struct Clip {
    BlockExtents origin{}, extent{};
    Clip(const BlockTiling& t, const BlockExtents& block) {
        for (int n = 0; n < kBlockRank; ++n) {
            origin[n] = block[n] * t.block_extent(n);
            extent[n] = std::min(t.block_extent(n), t.extents[n] - origin[n]);
        }
    }
};

/// Calls row(buffer offset, sum of stride * coordinate, local coordinates) for each run of the vector index, at most
/// `lanes` long. Partial sums per index: a step costs two additions on average.
template <class Row>
void for_each_row(const BlockTiling& t, const Clip& clip, const std::array<std::int64_t, kBlockRank>& stride,
                  Row&& row) {
    BlockExtents x{};
    std::array<int, kBlockRank + 1> at{};
    std::array<std::int64_t, kBlockRank + 1> sum{};
    for (int n = kBlockRank;;) {
        while (n > 0) {
            --n;
            at[n] = at[n + 1] + t.offsets[n][static_cast<std::size_t>(x[n])];
            sum[n] = sum[n + 1] + stride[n] * x[n];
        }
        row(at[0], sum[0], x);
        for (;; ++n) {
            if (n == kBlockRank) return;
            x[n] += n == t.vec ? t.lanes : 1;
            if (x[n] < clip.extent[n]) break;
            x[n] = 0;
        }
        ++n;
    }
}

struct TilingWishes {
    int lanes = 8;
    int contiguous = -1;         // the output index of stride one, if any
    bool virtual_cubes = false;  // the three virtual indices in equal blocks, never the vector index
    int threads = 1;
};
BlockTiling choose_tiling(const BlockExtents& extents, const TilingWishes& wishes);

struct KernelChoice {
    TermKernel kernel, untiled;
    RowStore store_row;
    EnergyRow energy_row;
    ClosedShellRow closed_shell_row;
    int lanes;
};
KernelChoice kernel_for(Isa isa);

/// 64-byte aligned doubles that only ever grow; the content is lost when they do.
class AlignedDoubles {
  public:
    double* reserve(std::int64_t count);

  private:
    Buffer data_;
};

class FusedEngine {
  public:
    /// Packs the operands of all terms (in parallel).
    FusedEngine(const BlockTiling& tiling, std::span<const FusedTerm> terms, TermKernel kernel, int threads,
                AlignedDoubles& packed);
    /// Adds all terms to the block at these block coordinates; buffer is block_size elements, 64-byte aligned.
    void add(const BlockExtents& block, double* buffer) const;

  private:
    /// A term over one piece of its sum.
    struct Piece {
        int term = 0, k = 0;
        int m = 1, n = 1;
        std::int64_t sum_begin = 0;
        std::int64_t p_base = 0, q_base = 0, p_tile = 0, q_tile = 0;
        std::int64_t p_tiles = 1, q_tiles = 1;
        std::array<std::int64_t, kBlockRank> p_step{}, q_step{};  // packed elements per tile along each index
        std::array<std::int64_t, kBlockRank> p_count{}, q_count{};
    };
    struct Side {
        std::vector<int> indices;  // without the vector index
        /// In the sub-block, one per position: by the indices (as bits) whose tile is the last one and sticks out.
        /// Positions outside are left out, so that a list is as long as there is work.
        std::array<std::vector<int>, 1 << kBlockRank> offsets;
        unsigned bits = 0;  // of its indices
    };
    struct TermPlan {
        bool p_is_a = true;
        Side p, q;
    };
    void pack_tile(const Piece& piece, bool p_side, std::int64_t tile, double* out) const;
    /// Whether the last tile of an index sticks out, and positions outside are left out: then it is inside by so many.
    int inside(int n) const;

    BlockTiling tiling_;
    std::vector<FusedTerm> terms_;
    TermKernel kernel_;
    std::vector<TermPlan> plans_;
    std::vector<Piece> pieces_;
    std::vector<std::size_t> groups_;  // pieces [groups_[g], groups_[g + 1]) stay in L2 together
    const double* packed_ = nullptr;
};

}  // namespace tessera::kernels::cpu

namespace tessera::kernels {
struct FusedWorkspace::Impl {
    std::vector<cpu::AlignedDoubles> packed;  // one per list of terms
    std::vector<cpu::AlignedDoubles> blocks;  // one per thread
    cpu::AlignedDoubles& packed_of(std::size_t list) {
        if (packed.size() <= list) packed.resize(list + 1);
        return packed[list];
    }
};

namespace cpu {

/// The tiling of what is reduced and not stored. It does not know the thread count: the order of the sum must not.
BlockTiling reduction_tiling(const BlockExtents& extents, int lanes, bool virtual_cubes);

/// The sum of part(number, storage) for numbers in [0, count), in ascending order whoever computed them; storage is the
/// thread's own, so many doubles, 64-byte aligned.
double sum_parts(std::int64_t count, int threads, FusedWorkspace::Impl& workspace, std::int64_t doubles,
                 const std::function<double(std::int64_t number, double* storage)>& part);

}  // namespace cpu
}  // namespace tessera::kernels
