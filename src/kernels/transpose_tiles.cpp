#include "kernels/transpose_tiles.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "kernels/transpose_block.hpp"

namespace tessera::kernels {

namespace {

using AxisOrder = std::array<int, kMaxTransposeRank>;

/// What a side accessed in words is worth, against the same by elements.
constexpr double kWordGain = 1.02;

/// What the ends of a run cost, in bytes: of whole sectors, and of others that
/// are read and written.
constexpr std::int64_t kSector = 32;
constexpr double kWholeEnds = 32, kReadEnds = 64, kWriteEnds = 160;

std::int64_t block_volume(const TransposePlan& plan) {
    std::int64_t v = 1;
    for (int i = 0; i < plan.rank; ++i) v *= plan.axis[i].block;
    return v;
}

/// Whether a side's runs can be accessed `word` elements at a time: every run
/// starts at a multiple of that and is one long, ragged tiles included.
bool in_words(const TransposePlan& plan, std::int64_t TransposeAxis::*stride, const AxisOrder& order,
              std::int64_t word) {
    const Run run = contiguous_run(plan, stride, order);
    if (run.axes == 0 || run.length % word != 0) return false;
    const auto& last = plan.axis[order[run.axes - 1]];
    if (run.length / last.block * last.extent % word != 0) return false;
    for (int i = run.axes; i < plan.rank; ++i)
        if (plan.axis[order[i]].*stride % word != 0) return false;
    return true;
}

/// How well a tile uses the device: the root of its mean filling, ragged ones
/// counted, times what is left of the bandwidth by the ends of its runs. Ends
/// inside a sector cost more, and most where they are written.
double tile_score(const TransposePlan& plan, std::int64_t volume, const AxisOrder& in_order, const AxisOrder& out_order,
                  std::int64_t word) {
    double tiles = 1;
    for (int i = 0; i < plan.rank; ++i)
        tiles *= static_cast<double>((plan.axis[i].extent + plan.axis[i].block - 1) / plan.axis[i].block);
    const auto useful = [&](auto stride, const AxisOrder& order, double ends) {
        const auto bytes = static_cast<double>(contiguous_run(plan, stride, order).length * plan.element_bytes);
        const double words = word > 1 && in_words(plan, stride, order, word) ? kWordGain : 1;
        return words * bytes /
               (bytes + (in_words(plan, stride, order, kSector / plan.element_bytes) ? kWholeEnds : ends));
    };
    return std::sqrt(static_cast<double>(plan.volume) / tiles / static_cast<double>(volume)) *
           useful(&TransposeAxis::in_stride, in_order, kReadEnds) *
           useful(&TransposeAxis::out_stride, out_order, kWriteEnds);
}

/// Tries runs from the wished-for length on, and takes the best tile.
void shape_tile(TransposePlan& plan, std::int64_t volume, std::int64_t run, const AxisOrder& in_order,
                const AxisOrder& out_order, std::int64_t word) {
    TransposePlan best = plan;
    double best_score = -1;
    // Multiples of four pass through the powers of two, whose cuts fall on whole
    // sectors.
    for (std::int64_t w = run; w <= 2 * volume; w = w < 32 ? w + 1 : (w + std::max<std::int64_t>(4, w / 32)) / 4 * 4)
        for (std::int64_t line = word;; line = 1) {  // cut after whole words, then anywhere
            TransposePlan trial = plan;
            for (int i = 0; i < trial.rank; ++i) trial.axis[i].block = 1;
            grow_block(trial, w, volume, line);
            const double score = tile_score(trial, volume, in_order, out_order, word);
            if (score > best_score) {
                best_score = score;
                best = trial;
            }
            if (line == 1) break;
        }
    plan = best;
}

/// For every element of the tile, walked with order[0] fastest: the sum of
/// coordinate x stride.
std::vector<std::int64_t> walk(const TransposePlan& plan, const AxisOrder& order,
                               const std::array<std::int64_t, kMaxTransposeRank>& strides) {
    std::vector<std::int64_t> table(1, 0);
    for (int i = 0; i < plan.rank; ++i) {
        const int a = order[i];
        const std::size_t have = table.size();
        table.resize(have * static_cast<std::size_t>(plan.axis[a].block));
        for (std::size_t k = have; k < table.size(); ++k) table[k] = table[k - have] + strides[a];
    }
    return table;
}

/// Shared-memory wavefronts that accesses of `bytes` at `slots` (in such units)
/// by consecutive threads need, over the least. Every `stride`th slot is
/// accessed together.
double wavefronts(const std::vector<std::int64_t>& slots, std::int64_t bytes, std::size_t stride = 1) {
    const std::size_t lanes = static_cast<std::size_t>(128 / bytes);  // one conflict-free wavefront
    const std::size_t sampled = std::min<std::size_t>(slots.size(), 1024);
    double total = 0, count = 0;
    for (std::size_t j = 0; j < stride; ++j)
        for (std::size_t first = j; first < sampled; first += lanes * stride) {
            std::array<int, 32> hits{};
            int worst = 0;
            for (std::size_t k = first; k < std::min(first + lanes * stride, sampled); k += stride)
                worst = std::max(worst, ++hits[static_cast<std::size_t>(slots[k]) % lanes]);
            total += worst;
            ++count;
        }
    return total / count;
}

/// Keeps what accesses of `word` elements need of a table of elements: the
/// entries of their first ones.
template <class T>
void keep_first(std::vector<T>& table, std::size_t word) {
    for (std::size_t i = 0; i < table.size() / word; ++i) table[i] = table[i * word];
    table.resize(table.size() / word);
}

}  // namespace

TileTables make_tiles(const TransposePlan& plan, std::int64_t volume, std::int64_t run_bytes, std::int64_t row_bytes,
                      int word_bytes) {
    TileTables t;
    t.plan = plan;
    if (plan.kernel == TransposeKernel::empty) return t;
    ensure(volume > 0 && volume <= 16384, "transpose: tile of {} elements", volume);
    AxisOrder in_order{}, out_order{};
    sort_by_stride(plan, &TransposeAxis::in_stride, in_order);
    sort_by_stride(plan, &TransposeAxis::out_stride, out_order);
    const auto& fastest = plan.axis[out_order[0]];
    t.direct = out_order[0] == in_order[0] && (plan.rank == 1 || fastest.extent * plan.element_bytes >= row_bytes);
    const std::int64_t word = t.direct ? 1 : std::max(1, word_bytes / plan.element_bytes);
    shape_tile(t.plan, volume, t.direct ? volume : std::max<std::int64_t>(1, run_bytes / plan.element_bytes), in_order,
               out_order, word);
    const auto& p = t.plan;
    if (word > 1 && in_words(p, &TransposeAxis::in_stride, in_order, word)) t.in_word = static_cast<int>(word);
    if (word > 1 && in_words(p, &TransposeAxis::out_stride, out_order, word)) t.out_word = static_cast<int>(word);
    t.volume = static_cast<std::uint32_t>(block_volume(p));

    std::array<std::int64_t, kMaxTransposeRank> in_strides{}, out_strides{}, coordinate{}, position{};
    for (int i = 0; i < p.rank; ++i) {
        in_strides[i] = p.axis[i].in_stride;
        out_strides[i] = p.axis[i].out_stride;
    }
    // Tiles that continue a cut axis follow each other, so that the second-level
    // cache joins the sectors they share.
    std::int64_t period = 1;
    for (const bool cut : {true, false})
        for (int i = 0; i < p.rank; ++i) {
            const int axis = out_order[i];
            const auto& a = p.axis[axis];
            if (a.block == a.extent || (a.block > 1) != cut) continue;
            const std::int64_t count = (a.extent + a.block - 1) / a.block;
            require(period * count <= std::numeric_limits<std::int32_t>::max(),
                    "transpose: {} tiles are too many for a device", period * count);
            if (cut) {
                ensure(t.loops.size() < 2, "transpose: more than two cut axes");
                coordinate[axis] = t.loops.empty() ? 1 : 1 << 16;
            }
            t.loops.push_back({static_cast<std::uint32_t>(period), static_cast<std::uint32_t>(count),
                               static_cast<std::uint32_t>(a.block), a.extent, a.block * a.in_stride,
                               a.block * a.out_stride});
            period *= count;
            if (cut) t.cut_tiles = period;
        }
    t.tiles = period;

    const AxisOrder& read_order = t.direct ? out_order : in_order;
    t.in_offset = walk(p, read_order, in_strides);
    t.out_offset = walk(p, out_order, out_strides);
    t.largest_offset = std::max(*std::max_element(t.in_offset.begin(), t.in_offset.end()),
                                *std::max_element(t.out_offset.begin(), t.out_offset.end()));
    const auto narrow = [](const std::vector<std::int64_t>& from) {
        return std::vector<std::uint32_t>(from.begin(), from.end());
    };
    t.in_coordinate = narrow(walk(p, read_order, coordinate));
    t.out_coordinate = narrow(walk(p, out_order, coordinate));
    if (t.direct) return t;
    keep_first(t.in_offset, t.in_word);
    keep_first(t.in_coordinate, t.in_word);
    keep_first(t.out_offset, t.out_word);
    keep_first(t.out_coordinate, t.out_word);

    // Slot of input element e: e + e / group * pad, with the group and pad that
    // conflict least. Words stay whole: group and pad are multiples of them.
    std::int64_t step = 1;
    for (int i = 0; i < p.rank; ++i) {
        position[in_order[i]] = step;
        step *= p.axis[in_order[i]].block;
    }
    const auto load_position = walk(p, out_order, position);
    const std::int64_t run = contiguous_run(p, &TransposeAxis::in_stride, in_order).length;
    const auto padded = [](std::int64_t e, std::int64_t group, std::int64_t pad) { return e + e / group * pad; };
    double best = 1e30;
    std::int64_t best_group = t.in_word, best_pad = 0;
    const std::int64_t sampled = std::min<std::int64_t>(t.volume, 1024);
    std::vector<std::int64_t> store(sampled / t.in_word), load(sampled);
    for (const std::int64_t group :
         {run, std::int64_t{16}, std::int64_t{32}, p.axis[in_order[0]].block, run * t.out_word})
        for (const std::int64_t words : {0, 1, 2, 3, 5}) {
            const std::int64_t pad = words * t.in_word;
            if (group % t.in_word != 0 || (group < 4 * t.in_word && pad > 0)) continue;  // small ones blow the tile up
            for (std::size_t a = 0; a < store.size(); ++a)
                store[a] = padded(static_cast<std::int64_t>(a) * t.in_word, group, pad) / t.in_word;
            for (std::size_t e = 0; e < load.size(); ++e) load[e] = padded(load_position[e], group, pad);
            const double cost =
                (wavefronts(store, p.element_bytes * t.in_word) + wavefronts(load, p.element_bytes, t.out_word)) / 2 +
                0.001 * static_cast<double>(pad);
            if (cost < best) {
                best = cost;
                best_group = group;
                best_pad = pad;
            }
        }
    t.conflicts = best;
    const auto slot = [&](std::int64_t e) { return static_cast<std::uint16_t>(padded(e, best_group, best_pad)); };
    // Whole words of any size, so that tiles that follow each other in shared
    // memory start on one.
    t.slots = static_cast<std::uint32_t>(padded(t.volume - 1, best_group, best_pad)) / 4 * 4 + 4;
    ensure(t.slots <= 65536, "transpose: {} slots", t.slots);
    for (std::uint32_t e = 0; e < t.volume; e += t.in_word) t.store.push_back(slot(e));
    for (std::uint32_t e = 0; e < t.volume; ++e) t.load.push_back(slot(load_position[e]));
    return t;
}

TransposePlan widen(const TransposePlan& plan) {
    TransposePlan wide = plan;
    AxisOrder out_order{};
    sort_by_stride(plan, &TransposeAxis::out_stride, out_order);
    for (int factor = 16 / std::max(plan.element_bytes, 1); factor > 1; factor /= 2) {
        const auto& fastest = plan.axis[out_order[0]];
        bool fits =
            plan.volume > 0 && fastest.in_stride == 1 && fastest.out_stride == 1 && fastest.extent % factor == 0;
        for (int i = 1; i < plan.rank; ++i) {
            const auto& a = plan.axis[out_order[i]];
            fits = fits && a.in_stride % factor == 0 && a.out_stride % factor == 0;
        }
        if (!fits) continue;
        wide.element_bytes *= factor;
        wide.volume /= factor;
        for (int i = 0; i < plan.rank; ++i) {
            auto& a = wide.axis[out_order[i]];
            if (i == 0) {
                a.extent /= factor;
            } else {
                a.in_stride /= factor;
                a.out_stride /= factor;
            }
        }
        return wide;
    }
    return wide;
}

}  // namespace tessera::kernels
