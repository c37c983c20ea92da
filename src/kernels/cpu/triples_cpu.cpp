// Fused contraction into a stored output, on CPU cores.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.hpp"
#include "kernels/cpu/triples_engine.hpp"
#include "tessera/kernels/triples.hpp"

namespace tessera::kernels {

namespace {

using cpu::BlockTiling;
using cpu::Clip;
using cpu::for_each_row;
using cpu::FusedEngine;

/// move(where in the output, where in the buffer, count) for each run of the vector index.
template <class Move>
void for_each_run(const BlockTiling& t, const BlockExtents& block, double* buffer, const FusedOutput& output,
                  Move&& move) {
    const Clip clip(t, block);
    double* first = output.data;
    for (int n = 0; n < kBlockRank; ++n) first += clip.origin[n] * output.stride[n];
    for_each_row(t, clip, output.stride, [&](int at, std::int64_t out, const BlockExtents& x) {
        move(first + out, buffer + at,
             static_cast<int>(std::min<std::int64_t>(t.lanes, clip.extent[t.vec] - x[t.vec])));
    });
}

void load(const BlockTiling& t, const BlockExtents& block, double* buffer, const FusedOutput& output) {
    const std::int64_t step = output.stride[t.vec];
    for_each_run(t, block, buffer, output, [&](const double* out, double* in, int count) {
        for (int v = 0; v < count; ++v) in[v] = out[v * step];
    });
}

void store(const BlockTiling& t, const BlockExtents& block, double* buffer, const FusedOutput& output,
           cpu::RowStore store_row) {
    const std::int64_t step = output.stride[t.vec];
    for_each_run(t, block, buffer, output, [&](double* out, const double* in, int count) {
        if (step == 1)
            store_row(out, in, count);
        else
            for (int v = 0; v < count; ++v) out[v * step] = in[v];
    });
}

}  // namespace

FusedWorkspace::FusedWorkspace() : impl_(std::make_unique<Impl>()) {}
FusedWorkspace::~FusedWorkspace() = default;
FusedWorkspace::FusedWorkspace(FusedWorkspace&&) noexcept = default;
FusedWorkspace& FusedWorkspace::operator=(FusedWorkspace&&) noexcept = default;

FusedWorkspace::Impl& FusedWorkspace::impl() {
    if (!impl_) impl_ = std::make_unique<Impl>();  // moved from: as good as new
    return *impl_;
}

void fused_contract(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output,
                    const FusedOptions& options) {
    check_fused(extents, terms, output);
    const int threads = resolve_threads(options.threads);
    const cpu::KernelChoice choice = cpu::kernel_for(options.isa);
    cpu::TilingWishes wishes;
    wishes.lanes = choice.lanes;
    wishes.threads = threads;
    for (int n = kBlockRank - 1; n >= 0; --n)
        if (output.stride[n] == 1) wishes.contiguous = n;
    const BlockTiling tiling = choose_tiling(extents, wishes);
    FusedWorkspace fresh;
    FusedWorkspace::Impl& workspace = (options.workspace != nullptr ? *options.workspace : fresh).impl();
    const FusedEngine engine(tiling, terms, options.register_tiles ? choice.kernel : choice.untiled, threads,
                             workspace.packed_of(0));
    const int team = static_cast<int>(std::min<std::int64_t>(threads, tiling.block_count));
    if (workspace.blocks.size() < static_cast<std::size_t>(team))
        workspace.blocks.resize(static_cast<std::size_t>(team));
    std::atomic<std::int64_t> next{0};
    parallel_region(team, [&](int thread, int) {
        double* buffer = workspace.blocks[static_cast<std::size_t>(thread)].reserve(tiling.block_size);
        for (std::int64_t number = next++; number < tiling.block_count; number = next++) {
            const BlockExtents block = tiling.block_at(number);
            std::memset(buffer, 0, static_cast<std::size_t>(tiling.block_size) * 8);
            if (output.accumulate) load(tiling, block, buffer, output);
            engine.add(block, buffer);
            store(tiling, block, buffer, output, choice.store_row);
        }
        cpu::store_fence();
    });
}

}  // namespace tessera::kernels
