// Blocks that are reduced to a number while they lie in cache, and never stored: by a caller's own function, or, in
// triples_energy.cpp, by the weights of the triples.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "base/parallel.hpp"
#include "kernels/cpu/triples_engine.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::kernels {

namespace cpu {

BlockTiling reduction_tiling(const BlockExtents& extents, int lanes, bool virtual_cubes) {
    TilingWishes wishes;
    wishes.lanes = lanes;
    wishes.virtual_cubes = virtual_cubes;
    wishes.threads = 8;
    return choose_tiling(extents, wishes);
}

double sum_parts(std::int64_t count, int threads, FusedWorkspace::Impl& workspace, std::int64_t doubles,
                 const std::function<double(std::int64_t number, double* storage)>& part) {
    std::vector<double> parts(static_cast<std::size_t>(count));
    const int team = static_cast<int>(std::min<std::int64_t>(threads, count));
    if (workspace.blocks.size() < static_cast<std::size_t>(team))
        workspace.blocks.resize(static_cast<std::size_t>(team));
    std::atomic<std::int64_t> next{0};
    parallel_region(team, [&](int thread, int) {
        double* storage = workspace.blocks[static_cast<std::size_t>(thread)].reserve(doubles);
        try {
            for (std::int64_t number = next++; number < count; number = next++)
                parts[static_cast<std::size_t>(number)] = part(number, storage);
        } catch (...) {
            next = count;  // the others need not go on
            throw;
        }
    });
    double sum = 0;
    for (double x : parts) sum += x;
    return sum;
}

}  // namespace cpu

namespace {

using cpu::BlockTiling;
using cpu::FusedEngine;

/// Hands a block over in its sub-blocks: inside one an element's place is a stride times each coordinate.
double visit_block(const BlockTiling& t, const BlockExtents& block, std::span<const double* const> buffers,
                   const FusedVisit& visit) {
    std::vector<const double*> data(buffers.size());
    FusedPiece piece;
    for (int n = 0; n < kBlockRank; ++n) piece.stride[n] = t.in_stride[n];
    double sum = 0;
    std::array<int, kBlockRank> x{};
    for (bool more = true; more;) {
        std::int64_t at = 0;
        for (int n = 0; n < kBlockRank; ++n) {
            piece.origin[n] = block[n] * t.block_extent(n) + static_cast<std::int64_t>(x[n]) * t.tile[n];
            piece.extents[n] = std::min<std::int64_t>(t.tile[n], t.extents[n] - piece.origin[n]);
            at += static_cast<std::int64_t>(x[n]) * t.sub_stride[n];
        }
        for (std::size_t list = 0; list < data.size(); ++list) data[list] = buffers[list] + at;
        piece.sums = data;
        sum += visit(piece);
        more = false;
        for (int n = 0; n < kBlockRank && !more; ++n) {
            const std::int64_t tiles = std::min<std::int64_t>(t.per_block[n], t.tiles[n] - block[n] * t.per_block[n]);
            more = ++x[n] < tiles;
            if (!more) x[n] = 0;
        }
    }
    return sum;
}

}  // namespace

double fused_reduce(const BlockExtents& extents, std::span<const std::span<const FusedTerm>> lists,
                    const FusedVisit& visit, const FusedOptions& options) {
    require(!lists.empty(), "fused_reduce: no list of terms");
    require(static_cast<bool>(visit), "fused_reduce: no function to visit the pieces");
    for (const auto& list : lists) check_terms(extents, list);
    const int threads = resolve_threads(options.threads);
    const cpu::KernelChoice choice = cpu::kernel_for(options.isa);
    const BlockTiling t = cpu::reduction_tiling(extents, choice.lanes, false);
    FusedWorkspace fresh;
    FusedWorkspace::Impl& workspace = (options.workspace != nullptr ? *options.workspace : fresh).impl();
    std::vector<FusedEngine> engines;
    engines.reserve(lists.size());
    for (std::size_t n = 0; n < lists.size(); ++n)
        engines.emplace_back(t, lists[n], choice.kernel, threads, workspace.packed_of(n));
    const auto doubles = checked_multiply(static_cast<std::int64_t>(lists.size()), t.block_size, "fused_reduce");
    return cpu::sum_parts(t.block_count, threads, workspace, doubles, [&](std::int64_t number, double* storage) {
        const BlockExtents block = t.block_at(number);
        std::memset(storage, 0, static_cast<std::size_t>(doubles) * sizeof(double));
        std::vector<const double*> buffers;
        for (const FusedEngine& engine : engines) {
            engine.add(block, storage);
            buffers.push_back(storage);
            storage += t.block_size;
        }
        return visit_block(t, block, buffers, visit);
    });
}

double fused_reduce(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedVisit& visit,
                    const FusedOptions& options) {
    return fused_reduce(extents, std::span(&terms, 1), visit, options);
}

}  // namespace tessera::kernels
