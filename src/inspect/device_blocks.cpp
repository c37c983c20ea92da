#include "inspect/device_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.hpp"
#include "base/units.hpp"
#include "inspect/place_deal.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

// Where A and B stay on the device: into how many blocks C is cut at most, how small they get, and how many of them
// have room there, one in work while the others leave.
constexpr std::int64_t kStayingBlocks = 16, kLeastStayingBytes = 256LL << 20;
constexpr int kStayingRegions = 3;
// To form, write and simulate the usual ways takes about so long for a product; of fewer products it is never long.
constexpr double kBriefSeconds = 1e-6;
constexpr std::size_t kBriefProducts = 4000;
constexpr std::int64_t kBriefStrips = 8;

std::int64_t device_budget(const Inspection& in) {
    return in.request.device_memory > 0 ? in.request.device_memory : in.machine.device.memory;
}
/// That tensors keep, on the device that has the most.
std::int64_t most_kept(const Inspection& in) {
    std::int64_t most = 0;
    for (int d = 0; d < in.machine.devices_per_rank; ++d) most = std::max(most, in.kept_bytes(d));
    return most;
}
/// For tiles on their way.
std::int64_t device_room(const Inspection& in) {
    const auto budget = device_budget(in);
    return std::max<std::int64_t>(0, budget - device_reserve_bytes(budget) - most_kept(in));
}

class Ways {
  public:
    Ways(const Inspection& in, const std::vector<std::int32_t>& sums, bool every)
        : in_(in),
          sums_(sums),
          rule_(in.request.how.blocks),
          every_(every),
          devices_(in.machine.devices_per_rank),
          budget_(device_budget(in)),
          memory_(device_room(in)),
          made_b_(!in.stored(Operand::b)),
          asked_(in.request.how.parameters),
          buffers_(asked_.lookahead ? *asked_.lookahead + 1 : 1),
          most_rows_(asked_.block_rows ? static_cast<std::size_t>(*asked_.block_rows) : SIZE_MAX),
          most_cols_(asked_.block_cols ? static_cast<std::size_t>(*asked_.block_cols) : SIZE_MAX) {
        const auto& c = in.bytes_on_device(Operand::c);
        for (auto i : sums_) total_c_ += c[in.sums[i].c];
    }

    DeviceWays form() {
        if (add_brief()) return std::move(out_);
        std::optional<BudgetError> refused;
        const auto attempt = [&](Blocks blocks, auto&& add) {
            try {
                add();
            } catch (const BudgetError& e) {
                out_.refused.push_back(blocks);
                if (!refused || e.smallest_bytes() < refused->smallest_bytes()) refused.emplace(e);
            }
        };
        if (rule_ != Blocks::worst_fit)
            attempt(whole_columns() ? Blocks::columns : Blocks::patches, [&] { add_neighbours(); });
        if (rule_ == Blocks::worst_fit ||
            (rule_ == Blocks::automatic && !asked_.block_rows && (every_ || !out_.nothing_twice)))
            attempt(Blocks::worst_fit, [&] { add_worst_fit(); });
        if (out_.ways.empty()) throw *refused;
        return std::move(out_);
    }

  private:
    /// The least that has to be on a device at once.
    struct Need {
        std::int64_t c, unit;  // of a block; of a chunk
    };

    /// Many small products on one device that holds all of them: strips load nothing twice, and to weigh them against
    /// other ways takes longer than any could save.
    bool add_brief() {
        const auto& m = in_.machine;
        const auto products = in_.product.products.size();
        if (devices_ > 1 || rule_ != Blocks::automatic || asked_.any() || made_b_ || !in_.stored(Operand::a) ||
            products < kBriefProducts || most_kept(in_) > 0)
            return false;
        const double most = kBriefSeconds * static_cast<double>(products);
        const double rate = m.device.gemm.flops_per_second, link = m.host_to_device.bytes_per_second;
        if (rate > 0 && in_.product.flops * in_.flop_factor > most * rate) return false;
        const auto operands = used().a + used().b;
        if (link > 0 && static_cast<double>(operands) > most * link) return false;
        DeviceCut way;
        way.devices.resize(1);
        auto& d = way.devices[0];
        if (!strips_of(in_, sums_, used(), kBriefStrips, memory_, kStayingRegions, d)) return false;
        d.distinct[0] = d.by_block[0] = used().a;
        d.distinct[1] = d.by_block[1] = used().b;
        way.limits = {memory_, 0, false, 0, 0, 0, true};
        way.blocks = Blocks::strips;
        way.counted.bytes_loaded = operands;
        way.counted.seconds_predicted = std::max(rate > 0 ? in_.product.flops * in_.flop_factor / rate : 0,
                                                 link > 0 ? static_cast<double>(operands) / link : 0);
        out_.ways.push_back(std::move(way));
        out_.nothing_twice = out_.brief = true;
        return true;
    }

    void add_neighbours() {
        const auto need = check(whole_columns() ? largest_column(false) : largest_tile(), largest_unit(false));
        const std::int64_t share = (total_c_ + devices_ - 1) / devices_;
        if (const auto n = asked_.block_share || rule_ != Blocks::automatic ? 1 : staying_blocks(share, need.c);
            n > 1) {
            // Nothing is ever loaded twice: blocks only let C leave early.
            add_staying(need, share, n);
            out_.nothing_twice = true;
            if (!every_) return;
        }
        // One region where all of C fits; else two, so that one leaves while the other is worked on.
        const auto rest = memory_ - buffers_ * need.unit;  // that chunks leave
        const bool all = share + share / 8 <= std::min(memory_ / 2, rest);
        int regions = 1;
        std::int64_t cap = std::max(need.c, share + share / 8);
        if (asked_.block_share) {
            // Even ones, as few for each device as the share allows: the largest would leave devices without any.
            const auto most = std::min(part(asked_.block_share, memory_), rest);
            const auto rounds = std::max<std::int64_t>(1, (share + most - 1) / std::max<std::int64_t>(1, most));
            cap = std::min(most, std::max(need.c, share / rounds + share / (8 * rounds)));
        } else if (!all) {
            cap = std::max(memory_ / 4, need.c);
            regions = 2 * cap <= rest ? 2 : 1;
            if (regions == 1) cap = std::max(need.c, std::min(memory_ / 2, rest));
        }
        const bool cut_rows = asked_.block_rows && *asked_.block_rows < in_.rows;
        std::vector<int> row_cuts;
        if (rule_ != Blocks::patches || cut_rows) row_cuts.push_back(1);
        if (rule_ != Blocks::columns && !whole_columns() && !asked_.block_rows)
            for (int n = 2; n <= std::min(in_.rows, 64); n += n < 4 ? 1 : n / 2) row_cuts.push_back(n);
        if (row_cuts.empty()) row_cuts.push_back(1);  // patches that reach from the first row to the last
        std::int64_t fewest = INT64_MAX;
        std::optional<DeviceCut> patches;  // those that load the least
        for (int n : row_cuts) {
            auto blocks = patches_of(in_, sums_, n, {cap, most_rows_, most_cols_});
            if (asked_.block_share || asked_.block_rows || asked_.block_cols) {
                std::int64_t largest = 0;
                for (const auto& b : blocks) largest = std::max(largest, b.bytes);
                regions = 2 * largest <= rest ? 2 : 1;
            }
            const bool columns = n == 1 && !cut_rows;
            auto way = counted(columns ? Blocks::columns : Blocks::patches, share_out(std::move(blocks), regions),
                               need.unit, false);
            const auto loads = way.counted.bytes_loaded;
            if (columns)
                out_.ways.push_back(std::move(way));
            else if (!patches || loads < patches->counted.bytes_loaded)
                patches = std::move(way);
            // More cuts than the rest of memory asks for only add to B's loads.
            if (loads >= fewest && n > 4) break;
            fewest = std::min(fewest, loads);
        }
        if (patches) out_.ways.push_back(std::move(*patches));
        if (devices_ > 1 && all && whole_columns() && !asked_.block_share && !asked_.block_cols) {
            auto& by_bytes = out_.ways.back();
            if (auto blocks = one_block_each(std::min(memory_ / 2, rest)); !blocks.empty())
                if (auto way = counted(Blocks::columns, share_out(std::move(blocks), 1), need.unit, false);
                    way.counted.seconds_predicted < (1 - kSameCount) * by_bytes.counted.seconds_predicted)
                    by_bytes = std::move(way);
        }
        for (const auto& way : out_.ways)
            out_.nothing_twice |= std::all_of(way.devices.begin(), way.devices.end(), [](const DeviceLayout& d) {
                return d.by_block[0] == d.distinct[0] && d.by_block[1] == d.distinct[1];
            });
    }

    /// Where all of C fits: a block for each device, cut by the seconds that columns take instead of by their bytes.
    std::vector<Block> one_block_each(std::int64_t most) const {
        const auto& bytes = in_.bytes_on_device(Operand::c);
        std::vector<Block> out;
        for (auto& sums : columns_by_place(in_, sums_, devices_)) {
            Block block;
            for (const auto i : sums) {
                block.bytes += bytes[in_.sums[i].c];
                block.flops += in_.sums[i].flops;
            }
            if (block.bytes > most) return {};
            block.sums = std::move(sums);
            if (!block.sums.empty()) out.push_back(std::move(block));
        }
        return out;
    }

    /// A device's C in about n blocks, all that they are made of there at once.
    void add_staying(const Need& need, std::int64_t share, std::int64_t n) {
        std::vector<DeviceLayout> one(1);
        if (devices_ == 1 && !asked_.block_rows && !asked_.block_cols &&
            strips_of(in_, sums_, used(), n, memory_, kStayingRegions, one[0])) {
            out_.ways.push_back(counted(Blocks::strips, std::move(one), need.unit, false));
            if (!every_) return;
        }
        const auto row_cuts = static_cast<int>(std::sqrt(static_cast<double>(n * devices_)));
        const auto cap = std::max(need.c, share / n + share / (8 * n));
        auto blocks = patches_of(in_, sums_, row_cuts, {cap, most_rows_, most_cols_});
        out_.ways.push_back(counted(Blocks::stay, share_out(std::move(blocks), kStayingRegions), need.unit, false));
    }

    /// Published: blocks of at most half the memory.
    void add_worst_fit() {
        const auto need = check(largest_column(true), largest_unit(true));
        const auto wanted = asked_.block_share ? part(asked_.block_share, memory_) : memory_ / 2;
        const auto cap = std::max(need.c, std::min(wanted, memory_ - buffers_ * need.unit));
        std::vector<DeviceLayout> devices(static_cast<std::size_t>(devices_));
        for (auto& b : worst_fit(in_, sums_, devices_, {cap, most_rows_, most_cols_}))
            devices[b.device].blocks.push_back(std::move(b));
        out_.ways.push_back(counted(Blocks::worst_fit, std::move(devices), need.unit, true));
    }

    /// Counts what it loads and how long the busiest device or link is at work, with what cannot be hidden.
    DeviceCut counted(Blocks blocks, std::vector<DeviceLayout> devices, std::int64_t unit, bool held) {
        DeviceCut way;
        way.devices = std::move(devices);
        way.limits = {memory_,
                      unit,
                      held,
                      asked_.lookahead ? buffers_ : 0,
                      asked_.chunk_share ? part(asked_.chunk_share, memory_) : 0,
                      asked_.depth.value_or(0)};
        auto& seen = way.counted;
        way.blocks = blocks;
        const auto& m = in_.machine;
        const auto over = [](double amount, double rate) { return rate > 0 ? amount / rate : 0; };
        const double from_host = m.host_to_device.bytes_per_second, from_device = m.device_to_device.bytes_per_second;
        for (auto& d : way.devices) {
            double flops = 0;
            std::int64_t largest = 0, all = 0;  // of its blocks
            for (const auto& b : d.blocks) {
                flops += b.flops;
                all += b.bytes;
                largest = std::max(largest, b.bytes);
            }
            if (d.c_regions > 0) d.c_bytes = d.c_regions * largest;  // anew when the sums are placed
            const auto loads = loads_of(d, way.limits);
            seen.bytes_loaded += loads;
            // Where there is room for one block, the next one waits until it has left; B that stays comes with it.
            double idle = 0;
            const auto b = static_cast<double>(d.by_block[1]);
            if (d.blocks.size() > 1 && d.c_regions == 1)
                idle += over(static_cast<double>(all) - (held ? b : 0), m.device_to_host.bytes_per_second);
            if (d.blocks.size() > 1 && held)
                idle += in_.source(Operand::b) == SourceKind::device_made ? over(b, m.device.make_bytes_per_second)
                                                                          : over(b, from_host);
            // Tiles of B that the host makes come too, each once whatever the blocks are; but not to which device.
            const auto bytes =
                static_cast<double>(loads + (in_.source(Operand::b) == SourceKind::host_made ? d.by_block[1] : 0));
            const double products = over(flops, m.device.gemm.flops_per_second);
            seen.seconds_predicted =
                std::max(seen.seconds_predicted, idle + std::max(products, over(bytes, from_host)));
            // Another device may give it what the host would.
            const double both = devices_ == 1 ? from_host : from_device > 0 ? from_host + from_device : 0;
            way.least_seconds = std::max({way.least_seconds, products, from_host > 0 ? over(bytes, both) : 0});
        }
        seen.seconds_predicted = std::max(seen.seconds_predicted,
                                          over(static_cast<double>(seen.bytes_loaded), m.host_link_bytes_per_second));
        return way;
    }

    /// A made tile of B is made once, so its whole column is one block.
    bool whole_columns() const { return made_b_; }

    /// How many blocks a device's share of C is cut into if all that it is made of can stay on the device; else 1.
    std::int64_t staying_blocks(std::int64_t share, std::int64_t least_c) {
        if (made_b_ || !in_.stored(Operand::a)) return 1;
        const auto n = std::min(kStayingBlocks, share / kLeastStayingBytes);
        if (n < 2) return 1;
        const auto c = kStayingRegions * std::max(least_c, share / n + share / (4 * n));
        return c + used().a + used().b <= memory_ ? n : 1;
    }
    const UsedBytes& used() {
        if (!used_) used_ = used_bytes(in_, sums_);
        return *used_;
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

    Need check(std::int64_t least_c, std::int64_t unit) const {
        const auto fits = [&](std::int64_t memory) {
            return least_c + buffers_ * unit <= memory && least_c <= part(asked_.block_share, memory) &&
                   unit <= part(asked_.chunk_share, memory);
        };
        const auto kept = most_kept(in_);
        if (fits(memory_) && (kept == 0 || budget_ >= device_budget_for(kept))) return {least_c, unit};
        auto least = least_c + buffers_ * unit;
        if (asked_.block_share) least = std::max(least, whole(least_c, *asked_.block_share));
        if (asked_.chunk_share) least = std::max(least, whole(unit, *asked_.chunk_share));
        while (!fits(least)) ++least;  // rounding
        const auto given = budget_, wanted = device_budget_for(least + kept);
        throw BudgetError(
            fmt::format(
                "a device memory of {} ({} bytes) is too small for '{}': the smallest that works is {} ({} bytes)",
                format_bytes(given), given, in_.request.spec->text(), format_bytes(wanted), wanted),
            given, wanted);
    }

    /// A share of the memory; all that there can be where none is given.
    static std::int64_t part(const std::optional<double>& share, std::int64_t memory) {
        if (!share) return INT64_MAX;
        return static_cast<std::int64_t>(*share * static_cast<double>(memory)) / kDeviceAlignment * kDeviceAlignment;
    }
    /// What a share of it is, or slightly less.
    static std::int64_t whole(std::int64_t bytes, double share) {
        return static_cast<std::int64_t>(static_cast<double>(bytes) / share * (1 - 1e-12));
    }

    /// Bytes of A and of a stored B that come to a device: once for every block that uses them, or once if they stay.
    std::int64_t loads_of(DeviceLayout& d, const ChunkLimits& limits) {
        if (seen_[0].empty())
            for (int o = 0; o < 2; ++o) seen_[o].assign(in_.bytes(static_cast<Operand>(o)).size(), -1);
        const auto first = stamp_;  // of this device's blocks
        for (const auto& block : d.blocks) {
            for (auto i : block.sums)
                for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p)
                    for (int o = 0; o < 2; ++o) {
                        const auto operand = static_cast<Operand>(o);
                        const auto t = in_.tile_of(operand, p);
                        auto& seen = seen_[o][t];
                        if (seen == stamp_) continue;
                        const auto bytes = in_.bytes_on_device(operand)[t];
                        d.by_block[o] += bytes;
                        if (seen < first) d.distinct[o] += bytes;
                        seen = stamp_;
                    }
            ++stamp_;
        }
        const auto stays = what_stays(in_, limits, d);
        return (stays.a ? d.distinct : d.by_block)[0] + (made_b_ ? 0 : (stays.b ? d.distinct : d.by_block)[1]);
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

    const Inspection& in_;
    const std::vector<std::int32_t>& sums_;
    Blocks rule_;
    bool every_;
    int devices_;
    std::int64_t budget_, memory_;
    bool made_b_;
    const PlanParameters& asked_;
    int buffers_;  // for chunks, at least
    std::size_t most_rows_, most_cols_;
    std::int64_t total_c_ = 0;
    std::optional<UsedBytes> used_;
    DeviceWays out_;
    std::vector<std::int32_t> seen_[2];
    std::int32_t stamp_ = 0;
};

MemoryCase case_of(const DeviceLayout& d, std::int64_t memory) {
    if (d.distinct[0] + d.distinct[1] + d.c_bytes <= memory) return MemoryCase::all_fits;
    if (d.blocks.size() == 1) return MemoryCase::c_fits;
    return d.by_block[1] == d.distinct[1] ? MemoryCase::b_fits : MemoryCase::nothing_fits;
}

/// What the parameters came to.
void note(const Inspection& in, const DeviceLayout& d, std::int64_t memory, PlanParameters& used) {
    const auto most = [](auto& x, auto value) { x = std::max(x.value_or(value), value); };
    const auto of_memory = [&](std::int64_t bytes) {
        return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, memory));
    };
    for (const auto& b : d.blocks) most(used.block_share, of_memory(b.bytes));
    most(used.chunk_share, of_memory(d.chunk_bytes));
    most(used.depth, d.depth);
    most(used.lookahead, d.buffers - 1);
    std::vector<std::int32_t> row(static_cast<std::size_t>(in.rows), -1), col(static_cast<std::size_t>(in.cols), -1);
    for (std::size_t b = 0; b < d.blocks.size(); ++b) {
        int rows = 0, cols = 0;
        const auto stamp = static_cast<std::int32_t>(b);
        for (auto i : d.blocks[b].sums) {
            const auto c = in.sums[i].c;
            rows += std::exchange(row[in.row[c]], stamp) != stamp;
            cols += std::exchange(col[in.col[c]], stamp) != stamp;
        }
        most(used.block_rows, rows);
        most(used.block_cols, cols);
    }
}

}  // namespace

void check_parameters(const Inspection& in) {
    const auto wanted = in.request.how.blocks;
    require(wanted != Blocks::stay && wanted != Blocks::strips, "blocks '{}' are the planner's own choice",
            name(wanted));
    require(wanted != Blocks::patches || in.stored(Operand::b) || in.machine.devices_per_rank == 0,
            "blocks 'patches': B is made on demand, each tile once: its columns stay whole (columns, worst_fit)");
    const auto& p = in.request.how.parameters;
    const bool devices = in.machine.devices_per_rank > 0;
    require(wanted == Blocks::automatic || devices, "blocks '{}': there are no devices in this plan", name(wanted));
    const auto share = [&](const char* name, const std::optional<double>& x) {
        if (!x) return;
        require(*x > 0 && *x <= 1, "{} {}: a share of a device's memory, above 0 and up to 1", name, *x);
        require(devices, "{} {}: there are no devices in this plan", name, *x);
    };
    const auto count = [&](const char* name, const std::optional<int>& x, int least, int most) {
        if (!x) return;
        require(*x >= least && *x <= most, "{} {}: outside {}..{}", name, *x, least, most);
        require(devices, "{} {}: there are no devices in this plan", name, *x);
    };
    share("block share", p.block_share);
    share("chunk share", p.chunk_share);
    count("block rows", p.block_rows, 1, INT32_MAX);
    count("block columns", p.block_cols, 1, INT32_MAX);
    count("depth", p.depth, 1, INT32_MAX);
    count("lookahead", p.lookahead, 0, kMostLookahead);
    if (p.block_rows && *p.block_rows < in.rows) {
        require(wanted == Blocks::automatic || wanted == Blocks::patches,
                "block rows {}: {} has whole columns in its blocks", *p.block_rows, name(wanted));
        require(in.stored(Operand::b), "block rows {}: B is made on demand, each tile once: its columns stay whole",
                *p.block_rows);
    }
}

DeviceWays ways_for_devices(const Inspection& in, const std::vector<std::int32_t>& sums, bool every) {
    return Ways(in, sums, every).form();
}

void finish_cut(const Inspection& in, DeviceCut& cut) {
    const auto memory = device_room(in);
    for (std::size_t i = 0; i < cut.devices.size(); ++i) {
        auto& d = cut.devices[i];
        d.device = static_cast<int>(i);
        cut_chunks(in, cut.limits, d);
        if (d.blocks.empty()) continue;
        cut.memory_case = std::max(cut.memory_case, case_of(d, memory));
        note(in, d, memory, cut.used);
    }
}

DeviceCut cut_for_devices(const Inspection& in, const std::vector<std::int32_t>& sums) {
    auto all = ways_for_devices(in, sums, false);
    std::vector<PlanCandidate> counted;
    for (const auto& w : all.ways) counted.push_back(w.counted);
    auto out = std::move(all.ways[cheapest(counted, kSameCount)]);
    finish_cut(in, out);
    return out;
}

}  // namespace tessera
