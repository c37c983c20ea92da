#include "inspect/device_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "base/units.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

// Where A and B stay on the device: into how many blocks C is cut at most, how small they get, and how many of them
// have room there, one in work while the others leave.
constexpr std::int64_t kStayingBlocks = 16, kLeastStayingBytes = 256LL << 20;
constexpr int kStayingRegions = 3;

class Cutter {
  public:
    Cutter(const Inspection& in, const std::vector<std::int32_t>& sums)
        : in_(in),
          sums_(sums),
          devices_(in.machine.devices_per_rank),
          budget_(in.request.device_memory > 0 ? in.request.device_memory : in.machine.device.memory),
          memory_(std::max<std::int64_t>(0, budget_ - device_reserve_bytes(budget_))),
          made_b_(!in.stored(Operand::b)) {
        const auto& c = in.bytes_on_device(Operand::c);
        for (auto i : sums_) total_c_ += c[in.sums[i].c];
    }

    DeviceCut patches() {
        check(whole_columns() ? largest_column(false) : largest_tile(), largest_unit(false));
        const std::int64_t share = (total_c_ + devices_ - 1) / devices_;
        DeviceCut best;
        if (const auto n = staying_blocks(share); n > 1) {
            // Nothing is ever loaded twice: blocks only let C leave early.
            if (devices_ == 1 && in_.request.blocks == "auto" && strips(n, best)) {
                finish(best, false);
                return best;
            }
            const auto row_cuts = static_cast<int>(std::sqrt(static_cast<double>(n * devices_)));
            best.how = "patches";
            best.devices =
                share_out(patches_of(row_cuts, std::max(least_c_, share / n + share / (8 * n))), kStayingRegions);
            finish(best, false);
            return best;
        }
        // One region where all of C fits; else two, so that one leaves while the other is worked on.
        const bool all = share + share / 8 <= memory_ / 2 && share + share / 8 + unit_ <= memory_;
        int regions = 1;
        std::int64_t cap = std::max(least_c_, share + share / 8);
        if (!all) {
            cap = std::max(memory_ / 4, least_c_);
            regions = 2 * cap + unit_ <= memory_ ? 2 : 1;
            if (regions == 1) cap = std::max(least_c_, std::min(memory_ / 2, memory_ - unit_));
        }
        std::vector<int> row_cuts{1};
        if (!whole_columns())
            for (int n = 2; n <= std::min(in_.rows, 64); n += n < 4 ? 1 : n / 2) row_cuts.push_back(n);
        for (int n : row_cuts) {
            auto blocks = patches_of(n, cap);
            const auto loads = loads_of(blocks);
            // More cuts than the rest of memory asks for only add to B's loads.
            if (!best.how.empty() && loads >= best.loaded_bytes) {
                if (n > 4) break;
                continue;
            }
            best.how = "patches";
            best.loaded_bytes = loads;
            best.devices = share_out(std::move(blocks), regions);
        }
        finish(best, false);
        return best;
    }

    /// Published (IPDPS 2021, section III.C): columns by size into blocks of at most half the memory, worst fit.
    DeviceCut worst_fit() {
        check(largest_column(true), largest_unit(true));
        const std::int64_t cap = std::max(memory_ / 2, least_c_);
        struct Column {
            std::vector<std::int32_t> sums;
            std::int64_t bytes = 0;
            double flops = 0;
        };
        std::vector<Column> columns(static_cast<std::size_t>(in_.cols));
        std::vector<std::int32_t> seen(in_.bytes(Operand::b).size(), -1);
        for (auto i : sums_) {
            const auto& s = in_.sums[i];
            auto& col = columns[in_.col[s.c]];
            col.sums.push_back(i);
            col.bytes += in_.bytes_on_device(Operand::c)[s.c];
            col.flops += s.flops;
            for (auto p = s.first; p < s.last; ++p) {
                const auto b = in_.tile_of(Operand::b, p);
                if (seen[b] >= 0) continue;
                seen[b] = 0;
                col.bytes += in_.bytes_on_device(Operand::b)[b];
            }
        }
        std::erase_if(columns, [](const Column& c) { return c.sums.empty(); });
        std::stable_sort(columns.begin(), columns.end(),
                         [](const auto& x, const auto& y) { return x.bytes > y.bytes; });
        // Into the emptiest of the open blocks, one per device; where it fits none of them all are closed.
        std::vector<Block> blocks, open(static_cast<std::size_t>(devices_));
        const auto close = [&] {
            for (std::size_t d = 0; d < open.size(); ++d) {
                open[d].device = static_cast<int>(d);
                if (!open[d].sums.empty()) blocks.push_back(std::move(open[d]));
                open[d] = {};
            }
        };
        for (const auto& col : columns) {
            auto least = std::min_element(open.begin(), open.end(),
                                          [](const Block& x, const Block& y) { return x.bytes < y.bytes; });
            if (least->bytes + col.bytes > cap) {
                close();
                least = open.begin();
            }
            least->sums.insert(least->sums.end(), col.sums.begin(), col.sums.end());
            least->bytes += col.bytes;
            least->flops += col.flops;
        }
        close();
        DeviceCut out;
        out.how = "worst_fit";
        out.devices.resize(static_cast<std::size_t>(devices_));
        for (auto& b : blocks) {
            std::sort(b.sums.begin(), b.sums.end());
            out.devices[b.device].blocks.push_back(std::move(b));
        }
        finish(out, true);
        return out;
    }

  private:
    /// A made tile of B is made once, so its whole column is one block.
    bool whole_columns() const { return made_b_; }

    /// How many blocks a device's share of C is cut into if all that it is made of can stay on the device; else 1.
    std::int64_t staying_blocks(std::int64_t share) const {
        if (made_b_ || !in_.stored(Operand::a)) return 1;
        const auto n = std::min(kStayingBlocks, share / kLeastStayingBytes);
        if (n < 2) return 1;
        const auto c = kStayingRegions * std::max(least_c_, share / n + share / (4 * n));
        return c + used_bytes(Operand::a) + used_bytes(Operand::b) <= memory_ ? n : 1;
    }

    /// Of the tiles that have a product.
    std::int64_t used_bytes(Operand o) const {
        const auto& bytes = in_.bytes_on_device(o);
        std::vector<bool> used(bytes.size());
        std::int64_t sum = 0;
        for (auto i : sums_)
            for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) {
                const auto t = in_.tile_of(o, p);
                if (!used[t]) sum += bytes[t];
                used[t] = true;
            }
        return sum;
    }

    /// One device: C in strips along the index of the larger operand. The smaller one comes whole with the first strip,
    /// which is so long that its products take as long as its loads, and no longer: until it is done nothing leaves.
    /// False where that takes too much memory or there is too little to cut.
    bool strips(std::int64_t n, DeviceCut& out) const {
        const auto operands = used_bytes(Operand::a) + used_bytes(Operand::b);
        const bool columns = used_bytes(Operand::a) <= used_bytes(Operand::b);
        struct Line {
            std::vector<std::int32_t> sums;
            std::int64_t bytes = 0;
        };
        std::vector<Line> lines(static_cast<std::size_t>(columns ? in_.cols : in_.rows));
        for (auto i : sums_) {
            auto& line = lines[(columns ? in_.col : in_.row)[in_.sums[i].c]];
            line.sums.push_back(i);
            line.bytes += in_.bytes_on_device(Operand::c)[in_.sums[i].c];
        }
        std::erase_if(lines, [](const Line& l) { return l.sums.empty(); });
        if (static_cast<std::int64_t>(lines.size()) < n) return false;

        DeviceLayout layout;
        layout.c_regions = 0;
        auto& blocks = layout.blocks;
        const auto add = [&](const Line& line) {
            auto& block = blocks.back();
            block.sums.insert(block.sums.end(), line.sums.begin(), line.sums.end());
            block.bytes += line.bytes;
            for (auto i : line.sums) block.flops += in_.sums[i].flops;
        };
        const auto first = first_strip(lines, n);
        blocks.emplace_back();
        for (std::size_t l = 0; l < first; ++l) add(lines[l]);
        for (std::size_t l = first; l < lines.size(); ++l) {
            // The last strip in two: it leaves when there is nothing else to do.
            const bool last = lines.size() - l <= (lines.size() - first) / static_cast<std::size_t>(2 * n);
            if (l == first || (blocks.back().bytes + lines[l].bytes / 2) * (last ? 2 * n : n) > total_c_)
                blocks.emplace_back();
            add(lines[l]);
        }

        // A place for each, or as many of one size as there is room for, taken in turn.
        const auto room = memory_ - operands;
        std::int64_t at = 0;
        if (total_c_ <= room) {
            for (auto& b : blocks) {
                b.region = at;
                at += b.bytes;
            }
        } else {
            std::int64_t most = 1;
            for (std::size_t b = 1; b < blocks.size(); ++b) most = std::max(most, blocks[b].bytes);
            const auto regions = std::max<std::int64_t>(0, room - blocks[0].bytes) / most;
            if (regions < kStayingRegions) return false;
            for (std::int64_t b = 1; b < static_cast<std::int64_t>(blocks.size()); ++b) {
                blocks[b].region = blocks[0].bytes + (b - 1) % regions * most;
                blocks[b].follows = b <= regions ? -1 : static_cast<std::int32_t>(b - regions);
            }
            at = blocks[0].bytes + regions * most;
        }
        layout.c_bytes = at;
        out.how = "strips";
        out.devices.push_back(std::move(layout));
        return true;
    }

    /// How many lines the first strip has: so many that their products take as long as what they are made of needs to
    /// come, but at least one n-th and at most half of C.
    template <class Lines>
    std::size_t first_strip(const Lines& lines, std::int64_t n) const {
        const double rate = in_.machine.device.gemm.flops_per_second,
                     link = in_.machine.host_to_device.bytes_per_second;
        const Operand operands[] = {Operand::a, Operand::b};
        std::vector<bool> came[2];
        for (int o = 0; o < 2; ++o) came[o].resize(in_.bytes(operands[o]).size());
        std::int64_t c = 0, loaded = 0;
        double flops = 0;
        std::size_t count = 0;
        for (; count < lines.size(); ++count) {
            const bool waits = rate > 0 && link > 0 && static_cast<double>(loaded) / link > flops / rate;
            if (c * (waits ? 2 : n) >= total_c_) break;
            c += lines[count].bytes;
            for (auto i : lines[count].sums) {
                flops += in_.sums[i].flops;
                for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p)
                    for (int o = 0; o < 2; ++o) {
                        const auto t = in_.tile_of(operands[o], p);
                        if (!came[o][t]) loaded += in_.bytes_on_device(operands[o])[t];
                        came[o][t] = true;
                    }
            }
        }
        return count;
    }

    std::int64_t largest_tile() const {
        std::int64_t most = 0;
        for (auto i : sums_) most = std::max(most, in_.bytes_on_device(Operand::c)[in_.sums[i].c]);
        return most;
    }

    std::int64_t largest_column(bool with_b) const {
        std::vector<std::int64_t> bytes(static_cast<std::size_t>(in_.cols));
        std::vector<bool> seen(with_b ? in_.bytes(Operand::b).size() : 0);
        for (auto i : sums_) {
            const auto& s = in_.sums[i];
            bytes[in_.col[s.c]] += in_.bytes_on_device(Operand::c)[s.c];
            for (auto p = s.first; with_b && p < s.last; ++p)
                if (const auto b = in_.tile_of(Operand::b, p); !seen[b]) {
                    seen[b] = true;
                    bytes[in_.col[s.c]] += in_.bytes_on_device(Operand::b)[b];
                }
        }
        return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
    }

    /// The most that has to be in a chunk at once.
    std::int64_t largest_unit(bool b_held) const {
        const auto &a = in_.bytes_on_device(Operand::a), &b = in_.bytes_on_device(Operand::b);
        std::int64_t most = 0;
        if (b_held || !made_b_) {
            for (auto i : sums_)
                for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) {
                    const auto ta = in_.tile_of(Operand::a, p), tb = in_.tile_of(Operand::b, p);
                    most = std::max(most, a[ta] + (b_held ? 0 : b[tb]));
                }
            return align_up(most, kDeviceAlignment);
        }
        // Every row that meets a tile of B.
        std::vector<std::int64_t> unit(b.size());
        for (auto i : sums_)
            for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p)
                unit[in_.tile_of(Operand::b, p)] += a[in_.tile_of(Operand::a, p)];
        for (std::size_t t = 0; t < unit.size(); ++t)
            if (unit[t] > 0) most = std::max(most, unit[t] + b[t]);
        return align_up(most, kDeviceAlignment);
    }

    void check(std::int64_t least_c, std::int64_t unit) {
        least_c_ = least_c;
        unit_ = unit;
        const auto least = least_c + unit;
        if (least <= memory_) return;
        const auto given = budget_, wanted = device_budget_for(least);
        throw BudgetError(
            fmt::format(
                "a device memory of {} ({} bytes) is too small for '{}': the smallest that works is {} ({} bytes)",
                format_bytes(given), given, in_.request.spec->text(), format_bytes(wanted), wanted),
            given, wanted);
    }

    /// Items in groups of neighbours, none heavier than the cap unless it is one item: halved along the widest
    /// coordinate until they fit.
    template <class At, class Weight>
    void halve(std::vector<std::int32_t> items, std::int64_t cap, const At& at, const Weight& weight,
               std::vector<std::vector<std::int32_t>>& out) const {
        std::int64_t total = 0;
        for (auto i : items) total += weight(i);
        if (items.size() <= 1 || total <= cap) {
            if (!items.empty()) out.push_back(std::move(items));
            return;
        }
        const auto pieces = std::max<std::int64_t>(2, (total + total / 32 + cap - 1) / cap);
        int best = 0;
        std::int64_t widest = -1;
        for (int d = 0; d < at(items[0]).size(); ++d) {
            std::int64_t low = INT64_MAX, high = INT64_MIN;
            for (auto i : items) {
                low = std::min(low, at(i)[d]);
                high = std::max(high, at(i)[d]);
            }
            if (high - low > widest) {
                widest = high - low;
                best = d;
            }
        }
        if (widest > 0)
            std::stable_sort(items.begin(), items.end(), [&](auto x, auto y) { return at(x)[best] < at(y)[best]; });
        const double share = static_cast<double>(pieces / 2) / static_cast<double>(pieces) * static_cast<double>(total);
        std::size_t cut = 0;
        double sum = 0;
        while (cut + 1 < items.size() && (cut == 0 || sum + 0.5 * static_cast<double>(weight(items[cut])) <= share))
            sum += static_cast<double>(weight(items[cut++]));
        std::vector<std::int32_t> rest(items.begin() + static_cast<std::ptrdiff_t>(cut), items.end());
        items.resize(cut);
        halve(std::move(items), cap, at, weight, out);
        halve(std::move(rest), cap, at, weight, out);
    }

    std::vector<Block> patches_of(int row_cuts, std::int64_t cap) const {
        const auto& bytes = in_.bytes_on_device(Operand::c);
        std::vector<std::int64_t> row_bytes(static_cast<std::size_t>(in_.rows));
        for (auto i : sums_) row_bytes[in_.row[in_.sums[i].c]] += bytes[in_.sums[i].c];
        std::vector<std::int32_t> rows;
        for (std::int32_t r = 0; r < in_.rows; ++r)
            if (row_bytes[r] > 0) rows.push_back(r);
        std::vector<std::vector<std::int32_t>> row_groups;
        if (row_cuts == 1)
            row_groups.push_back(rows);
        else
            halve(
                rows, total_c_ / row_cuts + total_c_ / (8 * row_cuts),
                [&](auto r) -> const IndexVector& { return in_.row_at[r]; }, [&](auto r) { return row_bytes[r]; },
                row_groups);
        std::vector<std::int32_t> group_of(static_cast<std::size_t>(in_.rows), -1);
        for (std::size_t g = 0; g < row_groups.size(); ++g)
            for (auto r : row_groups[g]) group_of[r] = static_cast<std::int32_t>(g);
        std::vector<Block> blocks;
        for (std::size_t g = 0; g < row_groups.size(); ++g) {
            std::vector<std::vector<std::int32_t>> of_column(static_cast<std::size_t>(in_.cols));
            std::vector<std::int64_t> column_bytes(static_cast<std::size_t>(in_.cols));
            for (auto i : sums_)
                if (group_of[in_.row[in_.sums[i].c]] == static_cast<std::int32_t>(g)) {
                    of_column[in_.col[in_.sums[i].c]].push_back(i);
                    column_bytes[in_.col[in_.sums[i].c]] += bytes[in_.sums[i].c];
                }
            std::vector<std::int32_t> columns;
            for (std::int32_t c = 0; c < in_.cols; ++c)
                if (!of_column[c].empty()) columns.push_back(c);
            std::vector<std::vector<std::int32_t>> patches;
            halve(
                columns, cap, [&](auto c) -> const IndexVector& { return in_.col_at[c]; },
                [&](auto c) { return column_bytes[c]; }, patches);
            for (const auto& patch : patches) {
                Block block;
                for (auto c : patch)
                    for (auto i : of_column[c]) {
                        // A column longer than the cap goes into several blocks.
                        if (!block.sums.empty() && block.bytes + bytes[in_.sums[i].c] > cap) {
                            blocks.push_back(std::move(block));
                            block = {};
                        }
                        block.sums.push_back(i);
                        block.bytes += bytes[in_.sums[i].c];
                        block.flops += in_.sums[i].flops;
                    }
                blocks.push_back(std::move(block));
            }
        }
        return blocks;
    }

    /// Bytes of A and of a stored B, once for every block that uses them.
    std::int64_t loads_of(const std::vector<Block>& blocks) const {
        std::vector<std::int32_t> seen_a(in_.bytes(Operand::a).size(), -1), seen_b(in_.bytes(Operand::b).size(), -1);
        std::int64_t bytes = 0;
        for (std::size_t n = 0; n < blocks.size(); ++n)
            for (auto i : blocks[n].sums)
                for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) {
                    const auto a = in_.tile_of(Operand::a, p), b = in_.tile_of(Operand::b, p);
                    const auto stamp = static_cast<std::int32_t>(n);
                    if (seen_a[a] != stamp) bytes += in_.bytes_on_device(Operand::a)[a];
                    if (!made_b_ && seen_b[b] != stamp) bytes += in_.bytes_on_device(Operand::b)[b];
                    seen_a[a] = seen_b[b] = stamp;
                }
        return bytes;
    }

    /// Heaviest first to the device with the least; each keeps its blocks in the order of the patches.
    std::vector<DeviceLayout> share_out(std::vector<Block> blocks, int regions) const {
        std::vector<std::size_t> order(blocks.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](auto x, auto y) { return blocks[x].flops > 1.01 * blocks[y].flops; });
        std::vector<double> load(static_cast<std::size_t>(devices_));
        for (auto i : order) {
            const auto d = std::min_element(load.begin(), load.end()) - load.begin();
            blocks[i].device = static_cast<int>(d);
            load[d] += std::max(blocks[i].flops, 1.0);
        }
        std::vector<DeviceLayout> out(static_cast<std::size_t>(devices_));
        for (auto& b : blocks) out[b.device].blocks.push_back(std::move(b));
        for (auto& d : out) d.c_regions = d.blocks.size() > 1 ? regions : 1;
        return out;
    }

    void finish(DeviceCut& cut, bool b_held) {
        cut.loaded_bytes = 0;
        for (auto& d : cut.devices) cut_chunks(in_, {memory_, unit_, b_held}, d, cut.loaded_bytes);
    }

    const Inspection& in_;
    const std::vector<std::int32_t>& sums_;
    int devices_;
    std::int64_t budget_, memory_;
    bool made_b_;
    std::int64_t total_c_ = 0, least_c_ = 0, unit_ = 0;
};

}  // namespace

DeviceCut cut_for_devices(const Inspection& in, const std::vector<std::int32_t>& sums) {
    const auto& wanted = in.request.blocks;
    require(wanted == "auto" || wanted == "worst_fit" || wanted == "patches",
            "blocks '{}': one of auto, worst_fit, patches is possible", wanted);
    if (wanted == "worst_fit") return Cutter(in, sums).worst_fit();
    return Cutter(in, sums).patches();
}

}  // namespace tessera
