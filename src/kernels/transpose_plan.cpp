// How a transpose is cut: fused indices, a block for each, and the kernel that moves one block.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.hpp"
#include "kernels/transpose_block.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels {

namespace {

constexpr std::int64_t kLine = 64;

void check_permutation(std::span<const std::int64_t> extents, std::span<const int> permutation) {
    const int rank = static_cast<int>(extents.size());
    require(rank <= kMaxTransposeRank, "transpose: rank {} is over {}", rank, kMaxTransposeRank);
    require(permutation.size() == extents.size(), "transpose: permutation {} of a tensor of rank {}", permutation,
            rank);
    std::uint32_t seen = 0;
    for (int p : permutation) {
        require(p >= 0 && p < rank && !(seen >> p & 1), "transpose: {} is not a permutation of 0..{}", permutation,
                rank - 1);
        seen |= 1u << p;
    }
    for (auto n : extents) require(n >= 0, "transpose: negative extent {} in {}", n, extents);
}

std::int64_t volume_of(std::span<const std::int64_t> extents, int element_bytes) {
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) return 0;
    std::int64_t volume = 1;
    for (auto n : extents) volume = checked_multiply(volume, n, "transpose: volume");
    checked_multiply(volume, element_bytes, "transpose: bytes");
    return volume;
}

/// Elements from the first to the last, plus one; checks that they can be addressed.
std::int64_t span_of(std::span<const std::int64_t> extents, std::span<const std::int64_t> strides, int element_bytes,
                     const char* what) {
    std::int64_t span = 1;
    for (std::size_t d = 0; d < extents.size(); ++d) {
        if (extents[d] == 1) continue;
        require(strides[d] > 0, "{} stride {} of axis {} is not positive", what, strides[d], d);
        span = checked_add(span, checked_multiply(extents[d] - 1, strides[d], what), what);
    }
    checked_multiply(span, element_bytes, what);
    return span;
}

/// The output's elements must be distinct: ordered by stride, each axis steps over all faster ones.
void check_distinct(const TransposePlan& plan) {
    std::array<int, kMaxTransposeRank> order{};
    sort_by_stride(plan, &TransposeAxis::out_stride, order);
    std::int64_t reach = 1;
    for (int i = 0; i < plan.rank; ++i) {
        const auto& a = plan.axis[order[i]];
        require(a.out_stride >= reach, "transpose: output stride {} steps into the {} elements of the faster indices",
                a.out_stride, reach);
        reach = reach + (a.extent - 1) * a.out_stride;
    }
}

/// Drops extents of 1; joins neighbours that are neighbours, in the same order, on both sides.
void fuse(TransposePlan& plan, std::span<const std::int64_t> is, std::span<const std::int64_t> os) {
    plan.rank = 0;
    for (std::size_t d = 0; d < plan.permutation.size(); ++d) {
        const int p = plan.permutation[d];
        const TransposeAxis next{plan.extents[p], is[p], os[d], 1};
        if (next.extent == 1) continue;
        if (plan.rank > 0) {
            auto& last = plan.axis[plan.rank - 1];
            if (last.in_stride == next.in_stride * next.extent && last.out_stride == next.out_stride * next.extent) {
                last = {last.extent * next.extent, next.in_stride, next.out_stride, 1};
                continue;
            }
        }
        plan.axis[plan.rank++] = next;
    }
    if (plan.rank == 0) plan.axis[plan.rank++] = {1, 1, 1, 1};  // a single element
}

__extension__ typedef __int128 Wide;

/// Lines touched by `count` runs of `bytes`, on average over the alignments their length allows.
Wide lines_of(Wide bytes, std::int64_t count, std::int64_t element_bytes) {
    return bytes % kLine == 0 ? bytes / kLine * count : (bytes + kLine - element_bytes) * count / kLine;
}

/// Which leading axes of both sides the in-register tiles span. An index that leads both sides goes to one of them.
void choose_tile(TransposePlan& plan, const std::array<int, kMaxTransposeRank>& in_order,
                 const std::array<int, kMaxTransposeRank>& out_order) {
    const std::int64_t width = kLine / plan.element_bytes;
    const auto fullness = [&](std::int64_t n) {
        return static_cast<double>(n) / static_cast<double>((n + width - 1) / width * width);
    };
    const int run_axes = contiguous_run(plan, &TransposeAxis::out_stride, out_order).axes;
    double best = 0;
    std::int64_t rows = 1;
    for (int r = 1; r <= run_axes; ++r) {
        rows *= plan.axis[out_order[r - 1]].block;
        std::int64_t columns = 1;
        int c = 0;
        for (; c < plan.rank; ++c) {
            const auto& a = plan.axis[in_order[c]];
            if (a.in_stride != columns || std::find(&out_order[0], &out_order[r], in_order[c]) != &out_order[r]) break;
            columns *= a.block;
            if (a.block < a.extent) {
                ++c;
                break;
            }
        }
        const double filled = fullness(rows) * fullness(columns);
        if (filled >= best) {
            best = filled;
            plan.tile_row_axes = r;
            plan.tile_column_axes = c;
        }
    }
    // Below this share of useful lanes a gather is as fast.
    plan.kernel = best >= 0.35 ? TransposeKernel::micro : TransposeKernel::gather;
    if (plan.kernel == TransposeKernel::gather) plan.tile_row_axes = plan.tile_column_axes = 0;
}

void predict(TransposePlan& plan) {
    const std::int64_t e = plan.element_bytes;
    const std::int64_t in_runs = plan.volume / plan.in_run, out_runs = plan.volume / plan.out_run;
    const Wide reads = lines_of(plan.in_run * e, in_runs, e), writes = lines_of(plan.out_run * e, out_runs, e);
    const Wide partial = plan.out_run * e % kLine == 0 ? 0 : 2 * static_cast<Wide>(out_runs);
    const Wide bytes = (reads + writes + (plan.stream ? std::min(partial, writes) : writes)) * kLine;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    plan.predicted_bytes = bytes > most ? most : static_cast<std::int64_t>(bytes);
}

}  // namespace

std::string_view name(TransposeKernel kernel) {
    switch (kernel) {
        case TransposeKernel::empty:
            return "empty";
        case TransposeKernel::rows:
            return "rows";
        case TransposeKernel::pieces:
            return "pieces";
        case TransposeKernel::micro:
            return "micro";
        case TransposeKernel::gather:
            return "gather";
        case TransposeKernel::strided:
            return "strided";
    }
    return "unknown";
}

void sort_by_stride(const TransposePlan& plan, std::int64_t TransposeAxis::*stride,
                    std::array<int, kMaxTransposeRank>& order) {
    for (int i = 0; i < plan.rank; ++i) {
        int at = i;
        for (; at > 0 && plan.axis[order[at - 1]].*stride > plan.axis[i].*stride; --at) order[at] = order[at - 1];
        order[at] = i;
    }
}

Run contiguous_run(const TransposePlan& plan, std::int64_t TransposeAxis::*stride,
                   const std::array<int, kMaxTransposeRank>& order) {
    Run run;
    for (; run.axes < plan.rank; ++run.axes) {
        const auto& a = plan.axis[order[run.axes]];
        if (a.*stride != run.length) break;
        run.length *= a.block;
        if (a.block < a.extent) {
            ++run.axes;
            break;
        }
    }
    return run;
}

void grow_block(TransposePlan& plan, std::int64_t wanted_run, std::int64_t largest_volume, std::int64_t line) {
    std::array<int, kMaxTransposeRank> in_order{}, out_order{};
    sort_by_stride(plan, &TransposeAxis::in_stride, in_order);
    sort_by_stride(plan, &TransposeAxis::out_stride, out_order);
    std::int64_t volume = 1;
    bool in_open = true, out_open = true;
    // The first axis of a side that is not yet whole in the block, and the run of whole ones before it.
    const auto frontier = [&](const auto& order, std::int64_t& run) {
        run = 1;
        for (int i = 0; i < plan.rank; ++i) {
            const auto& a = plan.axis[order[i]];
            if (a.block < a.extent) return order[i];
            run *= a.extent;
        }
        return -1;
    };
    while (in_open || out_open) {
        std::int64_t in_run = 1, out_run = 1;
        const int in_axis = in_open ? frontier(in_order, in_run) : -1;
        const int out_axis = out_open ? frontier(out_order, out_run) : -1;
        const std::int64_t in_now = in_axis < 0 ? in_run : in_run * plan.axis[in_axis].block;
        const std::int64_t out_now = out_axis < 0 ? out_run : out_run * plan.axis[out_axis].block;
        if (in_axis < 0 || in_now >= wanted_run) in_open = false;
        if (out_axis < 0 || out_now >= wanted_run) out_open = false;
        if (!in_open && !out_open) return;
        const bool take_out = out_open && (!in_open || out_now <= in_now);
        auto& a = plan.axis[take_out ? out_axis : in_axis];
        const std::int64_t before = take_out ? out_run : in_run;
        const std::int64_t room = largest_volume / (volume / a.block);
        std::int64_t block = std::min({a.extent, room, (wanted_run + before - 1) / before});
        // A little more to have the whole index, so that its neighbour lengthens the run; else equal segments.
        if (block * 3 >= a.extent * 2 && a.extent <= room) block = a.extent;
        if (block <= a.block) {
            (take_out ? out_open : in_open) = false;
            continue;
        }
        const std::int64_t segments = (a.extent + block - 1) / block;
        block = std::max(a.block, (a.extent + segments - 1) / segments);
        if (const std::int64_t whole = line / std::gcd(before, line);
            block % whole != 0 && block >= 4 * whole && block < a.extent) {
            const std::int64_t up = (block + whole - 1) / whole * whole;
            block = up >= a.extent ? block : up <= room ? up : std::max(a.block, block / whole * whole);
        }
        volume = volume / a.block * block;
        a.block = block;
        if (block < a.extent) (take_out ? out_open : in_open) = false;
    }
}

TransposePlan plan_transpose(std::span<const std::int64_t> extents, std::span<const int> permutation, int element_bytes,
                             std::span<const std::int64_t> in_strides, std::span<const std::int64_t> out_strides,
                             const TransposeTuning& tuning) {
    check_permutation(extents, permutation);
    require(element_bytes == 4 || element_bytes == 8 || element_bytes == 16,
            "transpose: element size {} is none of 4, 8, 16", element_bytes);
    require(tuning.block_bytes >= 2 * element_bytes,
            "transpose: tuning.block_bytes {} is less than two elements of {} bytes", tuning.block_bytes,
            element_bytes);
    for (const auto& [name, value] : {std::pair{"run_bytes", tuning.run_bytes}, {"row_bytes", tuning.row_bytes}})
        require(value > 0, "transpose: tuning.{} {} is not positive", name, value);
    for (const auto& [name, value] :
         {std::pair{"stream_bytes", tuning.stream_bytes}, {"team_bytes", tuning.team_bytes}})
        require(value >= 0, "transpose: tuning.{} {} is negative", name, value);
    const int rank = static_cast<int>(extents.size());
    for (auto s : {in_strides, out_strides})
        require(s.empty() || static_cast<int>(s.size()) == rank, "transpose: {} strides for rank {}", s.size(), rank);

    TransposePlan plan;
    plan.element_bytes = element_bytes;
    plan.extents.assign(extents.begin(), extents.end());
    plan.permutation.assign(permutation.begin(), permutation.end());
    plan.volume = volume_of(extents, element_bytes);
    if (plan.volume == 0) return plan;

    std::array<std::int64_t, kMaxTransposeRank> is{}, os{}, out_extents{};
    std::int64_t in_packed = 1, out_packed = 1;
    for (int d = rank - 1; d >= 0; --d) {
        out_extents[d] = extents[permutation[d]];
        is[d] = in_strides.empty() ? in_packed : in_strides[d];
        os[d] = out_strides.empty() ? out_packed : out_strides[d];
        in_packed *= extents[d];
        out_packed *= out_extents[d];
    }
    const auto r = static_cast<std::size_t>(rank);
    plan.in_span = span_of(extents, {is.data(), r}, element_bytes, "transpose: input");
    plan.out_span = span_of({out_extents.data(), r}, {os.data(), r}, element_bytes, "transpose: output");
    fuse(plan, is, os);
    check_distinct(plan);
    plan.stream = plan.volume * element_bytes >= tuning.stream_bytes;
    plan.team = plan.volume * element_bytes >= tuning.team_bytes;

    std::array<int, kMaxTransposeRank> in_order{}, out_order{};
    sort_by_stride(plan, &TransposeAxis::in_stride, in_order);
    sort_by_stride(plan, &TransposeAxis::out_stride, out_order);
    auto& fastest = plan.axis[out_order[0]];
    if (fastest.out_stride != 1) {
        plan.kernel = TransposeKernel::strided;
        for (int i = 0; i < plan.rank; ++i) plan.axis[i].block = i == 0 ? 1 : plan.axis[i].extent;
    } else if (fastest.in_stride == 1 && (plan.rank == 1 || fastest.extent * element_bytes >= tuning.row_bytes)) {
        plan.kernel = TransposeKernel::rows;
        fastest.block = std::min<std::int64_t>(fastest.extent, tuning.block_bytes / 2 / element_bytes);
    } else {
        grow_block(plan, tuning.run_bytes / element_bytes, tuning.block_bytes / element_bytes, kLine / element_bytes);
        plan.kernel = TransposeKernel::gather;
        if (fastest.in_stride == 1) {
            plan.kernel = TransposeKernel::pieces;
        } else {
            choose_tile(plan, in_order, out_order);
        }
    }
    plan.in_run = contiguous_run(plan, &TransposeAxis::in_stride, in_order).length;
    plan.out_run = contiguous_run(plan, &TransposeAxis::out_stride, out_order).length;
    plan.block_volume = 1;
    plan.blocks = 1;
    for (int i = 0; i < plan.rank; ++i) {
        plan.block_volume *= plan.axis[i].block;
        plan.blocks *= (plan.axis[i].extent + plan.axis[i].block - 1) / plan.axis[i].block;
    }
    predict(plan);
    return plan;
}

std::string describe(const TransposePlan& plan) {
    std::string text = fmt::format("transpose {} by {}, {} elements of {} bytes\n", plan.extents, plan.permutation,
                                   plan.volume, plan.element_bytes);
    if (plan.kernel == TransposeKernel::empty) return text + "  empty: nothing to do\n";
    text += fmt::format(
        "  rank {} after fusion; output order, slowest first (extent, input stride, output stride, block):\n",
        plan.rank);
    for (int i = 0; i < plan.rank; ++i) {
        const auto& a = plan.axis[i];
        text += fmt::format("    {:>10} {:>12} {:>12} {:>8}\n", a.extent, a.in_stride, a.out_stride, a.block);
    }
    text +=
        fmt::format("  kernel {}, {} blocks of {} elements, runs of {} in and {} out{}\n", name(plan.kernel),
                    plan.blocks, plan.block_volume, plan.in_run, plan.out_run, plan.stream ? ", streaming stores" : "");
    text += fmt::format(
        "  predicted traffic {:.3f} MB, {:.2f} of the least\n", static_cast<double>(plan.predicted_bytes) / 1e6,
        static_cast<double>(plan.predicted_bytes) / (2.0 * static_cast<double>(plan.volume) * plan.element_bytes));
    return text;
}

std::shared_ptr<const TransposePlan> TransposePlanCache::get(std::span<const std::int64_t> extents,
                                                             std::span<const int> permutation, int element_bytes,
                                                             std::span<const std::int64_t> in_strides,
                                                             std::span<const std::int64_t> out_strides) {
    std::vector<std::int64_t> key;
    key.reserve(5 + 4 * extents.size());
    key.push_back(element_bytes);
    key.push_back(static_cast<std::int64_t>(extents.size()));
    key.push_back(static_cast<std::int64_t>(permutation.size()));
    key.push_back(static_cast<std::int64_t>(in_strides.size()));
    key.push_back(static_cast<std::int64_t>(out_strides.size()));
    key.insert(key.end(), extents.begin(), extents.end());
    key.insert(key.end(), permutation.begin(), permutation.end());
    key.insert(key.end(), in_strides.begin(), in_strides.end());
    key.insert(key.end(), out_strides.begin(), out_strides.end());
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    }
    auto plan = std::make_shared<const TransposePlan>(
        plan_transpose(extents, permutation, element_bytes, in_strides, out_strides));
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= capacity_) plans_.clear();  // rare: shapes of a calculation are few
    return plans_.emplace(std::move(key), std::move(plan)).first->second;
}

std::size_t TransposePlanCache::size() const {
    const std::lock_guard lock(mutex_);
    return plans_.size();
}

}  // namespace tessera::kernels
