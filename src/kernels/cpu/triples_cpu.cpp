// Fused contraction into a stored output, and the energy epilogue, on CPU cores.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/parallel.hpp"
#include "kernels/cpu/triples_engine.hpp"
#include "kernels/triples.hpp"

namespace tessera::kernels {

namespace {

using cpu::AlignedDoubles;
using cpu::BlockTiling;
using cpu::FusedEngine;

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

/// Calls row(buffer offset, local coordinates) for each run of the vector index, at most `lanes` long.
template <class Row>
void for_each_row(const BlockTiling& t, const Clip& clip, Row&& row) {
    BlockExtents x{};
    for (bool more = true; more;) {
        int at = 0;
        for (int n = 0; n < kBlockRank; ++n) at += t.offset(n, x[n]);
        row(at, x);
        more = false;
        for (int n = 0; n < kBlockRank && !more; ++n) {
            x[n] += n == t.vec ? t.lanes : 1;
            if (x[n] < clip.extent[n])
                more = true;
            else
                x[n] = 0;
        }
    }
}

void load_or_store(const BlockTiling& t, const BlockExtents& block, double* buffer, const FusedOutput& output,
                   bool store) {
    const Clip clip(t, block);
    const std::int64_t step = output.stride[t.vec];
    for_each_row(t, clip, [&](int at, const BlockExtents& x) {
        double* out = output.data;
        for (int n = 0; n < kBlockRank; ++n) out += (clip.origin[n] + x[n]) * output.stride[n];
        const auto count = std::min<std::int64_t>(t.lanes, clip.extent[t.vec] - x[t.vec]);
        double* in = buffer + at;
        if (step == 1) {
            if (store)
                std::memcpy(out, in, static_cast<std::size_t>(count) * 8);
            else
                std::memcpy(in, out, static_cast<std::size_t>(count) * 8);
        } else {
            for (std::int64_t v = 0; v < count; ++v) (store ? out[v * step] : in[v]) = store ? in[v] : out[v * step];
        }
    });
}

}  // namespace

void fused_contract(const BlockExtents& extents, std::span<const FusedTerm> terms, const FusedOutput& output,
                    const FusedOptions& options) {
    check_fused(extents, terms, output);
    const int threads = resolve_threads(options.threads);
    const auto [kernel, lanes] = cpu::kernel_for(options.isa);
    cpu::TilingWishes wishes;
    wishes.lanes = lanes;
    wishes.threads = threads;
    for (int n = kBlockRank - 1; n >= 0; --n)
        if (output.stride[n] == 1) wishes.contiguous = n;
    const BlockTiling tiling = choose_tiling(extents, wishes);
    const FusedEngine engine(tiling, terms, kernel, threads);
    const int team = static_cast<int>(std::min<std::int64_t>(threads, tiling.block_count));
    std::atomic<std::int64_t> next{0};
    parallel_region(team, [&](int, int) {
        const AlignedDoubles buffer(tiling.block_size);
        for (std::int64_t number = next++; number < tiling.block_count; number = next++) {
            const BlockExtents block = tiling.block_at(number);
            std::memset(buffer.data(), 0, static_cast<std::size_t>(tiling.block_size) * 8);
            if (output.accumulate) load_or_store(tiling, block, buffer.data(), output, false);
            engine.add(block, buffer.data());
            load_or_store(tiling, block, buffer.data(), output, true);
        }
    });
}

}  // namespace tessera::kernels
