// How the six-index output is cut: sub-blocks for L1, blocks for L2.
#include <algorithm>

#include "kernels/cpu/triples_engine.hpp"

namespace tessera::kernels::cpu {

namespace {

constexpr int kSubBlock = 2048;      // elements: 16 KiB, a third of a 48 KiB L1
constexpr int kBlock = 32768;        // elements: 256 KiB
constexpr int kCubeBlock = 8192;     // closed shell: up to six blocks, twice, share L2
constexpr int kBlocksPerThread = 4;  // enough to balance

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double padding(std::int64_t extent, int tile) {
    return static_cast<double>(ceil_div(extent, tile) * tile) / static_cast<double>(extent);
}

int choose_vector(const BlockExtents& extents, const TilingWishes& wishes) {
    int best = 0;
    double best_cost = 1e300;
    for (int n = 0; n < (wishes.virtual_cubes ? 3 : kBlockRank); ++n) {
        // Storing lane by lane costs about as much as a sixth of the lanes idling.
        const double cost = padding(extents[n], wishes.lanes) * (n == wishes.contiguous ? 1.0 : 1.15);
        if (cost < best_cost) best_cost = cost, best = n;
    }
    return best;
}

int choose_tile(std::int64_t extent) {
    // Short tiles reload operands more often; padding computes zeros, but for a half of a last tile of two, which is
    // left out.
    const double four = padding(extent, 4), two = extent > 1 ? 1.1 : 2.2, one = 1.3;
    if (four <= two && four <= one) return 4;
    return two <= one ? 2 : 1;
}

}  // namespace

BlockExtents BlockTiling::block_at(std::int64_t number) const {
    BlockExtents at{};
    for (int n = 0; n < kBlockRank; ++n) {
        at[n] = number % blocks[n];
        number /= blocks[n];
    }
    return at;
}

BlockTiling choose_tiling(const BlockExtents& extents, const TilingWishes& wishes) {
    BlockTiling t;
    t.lanes = wishes.lanes;
    t.extents = extents;
    t.vec = choose_vector(extents, wishes);
    auto& tile = t.tile;
    for (int n = 0; n < kBlockRank; ++n) tile[n] = n == t.vec ? wishes.lanes : choose_tile(extents[n]);
    const int cube = tile[3];  // equal extents give equal tiles
    auto size = [&] {
        int product = 1;
        for (int x : tile) product *= x;
        return product;
    };
    while (size() > kSubBlock) {
        int pick = -1;
        for (int n = kBlockRank - 1; n >= 0; --n)
            if (n != t.vec && (pick < 0 || tile[n] > tile[pick])) pick = n;
        tile[pick] /= 2;
    }
    if (!wishes.virtual_cubes) {
        for (bool grown = true; grown && size() < kSubBlock;) {
            grown = false;
            for (int n = 0; n < kBlockRank && size() < kSubBlock; ++n)
                if (n != t.vec && tile[n] < 16 && padding(extents[n], 2 * tile[n]) <= padding(extents[n], tile[n])) {
                    tile[n] *= 2;
                    grown = true;
                }
        }
    }

    t.per_block.fill(1);
    for (int n = 0; n < kBlockRank; ++n) t.tiles[n] = ceil_div(extents[n], tile[n]);
    if (wishes.virtual_cubes)
        for (int n = 3; n < kBlockRank; ++n) t.per_block[n] = cube / tile[n];
    auto block_total = [&](int grow) {
        std::int64_t count = 1;
        for (int n = 0; n < kBlockRank; ++n) count *= ceil_div(t.tiles[n], t.per_block[n] * (n == grow ? 2 : 1));
        return count;
    };
    auto block_size = [&] {
        int product = 1;
        for (int n = 0; n < kBlockRank; ++n) product *= tile[n] * t.per_block[n];
        return product;
    };
    const int limit = wishes.virtual_cubes ? kCubeBlock : kBlock;
    while (2 * block_size() <= limit) {
        int pick = -1;
        for (int n = 0; n < kBlockRank; ++n) {
            if (wishes.virtual_cubes && n >= 3) continue;
            if (t.per_block[n] >= t.tiles[n]) continue;
            // Two vectors along the vector index, then whatever is shortest.
            auto length = [&](int x) { return x == t.vec ? t.block_extent(x) / 4 : t.block_extent(x); };
            if (pick < 0 || length(n) < length(pick)) pick = n;
        }
        if (pick < 0 || block_total(pick) < static_cast<std::int64_t>(kBlocksPerThread) * wishes.threads) break;
        t.per_block[pick] *= 2;
    }

    t.in_stride[t.vec] = 1;
    int step = t.lanes;
    for (int n = 0; n < kBlockRank; ++n)
        if (n != t.vec) {
            t.in_stride[n] = step;
            step *= tile[n];
        }
    t.sub_size = step;
    for (int n = 0; n < kBlockRank; ++n) {
        t.sub_stride[n] = step;
        step *= t.per_block[n];
    }
    t.block_size = step;
    for (int n = 0; n < kBlockRank; ++n)
        for (int x = 0; x < t.block_extent(n); ++x)
            t.offsets[n].push_back(x / tile[n] * t.sub_stride[n] + x % tile[n] * t.in_stride[n]);
    t.block_count = 1;
    for (int n = 0; n < kBlockRank; ++n) {
        t.blocks[n] = ceil_div(t.tiles[n], t.per_block[n]);
        t.block_count *= t.blocks[n];
    }
    return t;
}

KernelChoice kernel_for(Isa isa) {
    switch (std::min(isa, detected_isa())) {
        case Isa::avx512:
            return {term_kernel_avx512, term_kernel_untiled_avx512, store_row_avx512,
                    energy_row_avx512,  closed_shell_row_avx512,    kAvx512Lanes};
        case Isa::avx2:
            return {term_kernel_avx2, term_kernel_untiled_avx2, store_row_avx2,
                    energy_row_avx2,  closed_shell_row_avx2,    kAvx2Lanes};
        case Isa::scalar:
            break;
    }
    return {term_kernel_scalar, term_kernel_scalar,      store_row_scalar,
            energy_row_scalar,  closed_shell_row_scalar, kScalarLanes};
}

}  // namespace tessera::kernels::cpu
