// A device's blocks of C cut into chunks: which tiles come with which, what stays, and in which order products are
// done.

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "inspect/device_blocks.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kChunkBytes = 2LL << 30;  // longer chunks hide nothing more
/// Where nothing has to leave for the next chunk, short ones. Later blocks find most of what they need: their sums are
/// best not cut.
constexpr std::int64_t kStayingChunkBytes = 512LL << 20;
constexpr std::int64_t kFirstChunkBytes = 128LL << 20;  // products start early; the chunks after it are longer

/// One product of a block: which comes when.
struct Entry {
    std::int64_t major, minor;  // units share these
    std::int64_t product;
    std::int32_t sum;
};

class ChunkCutter {
  public:
    ChunkCutter(const Inspection& in, const ChunkLimits& limits, DeviceLayout& d)
        : in_(in),
          limits_(limits),
          made_b_(!in.stored(Operand::b)),
          d_(d),
          bytes_{in.bytes_on_device(Operand::a).data(), in.bytes_on_device(Operand::b).data()} {
        for (int o = 0; o < 2; ++o) seen_[o].assign(in.bytes(static_cast<Operand>(o)).size(), -1);
    }

    void cut() {
        place();
        settle();
        for (auto& s : seen_) std::fill(s.begin(), s.end(), -1);
        for (int o = 0; o < 2; ++o) came_[o].assign(stays_[o] ? seen_[o].size() : 0, false);
        if (limits_.whole_sums) {
            ensure(stays_[0] && stays_[1], "whole sums, but their operands do not stay");
            seen_k_.assign(in_.bytes(Operand::b).size(), -1);
        } else {
            chain_of_.assign(in_.sums.size(), -1);
        }
        std::size_t chunks = 0;
        for (std::size_t b = 0; b < d_.blocks.size(); ++b) {
            cut_block(b);
            chunks += d_.blocks[b].chunks.size();
        }
        if (chunks <= 1) d_.buffers = 1;
    }

  private:
    std::int32_t tile(int o, const Entry& e) const { return in_.tile_of(static_cast<Operand>(o), e.product); }

    /// Places the sums of each block, and tiles of B that it holds behind them.
    void place() {
        for (auto& block : d_.blocks) {
            std::int64_t at = 0;
            for (auto i : block.sums) {
                const bool stays =
                    in_.stays(in_.sums[i].c) && in_.sums[i].index == 0 && in_.as_stored.c[in_.sums[i].c] != 0;
                block.offsets.push_back(stays ? -1 : at);
                if (!stays) at += in_.bytes_on_device(Operand::c)[in_.sums[i].c];
                if (!limits_.b_held) continue;
                for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) {
                    const auto t = in_.tile_of(Operand::b, p);
                    if (std::exchange(seen_[1][t], 0) < 0 && !in_.in_place(Operand::b, t, d_.device))
                        block.held.push_back({Operand::b, t, bytes_[1][t], 0, false});
                }
            }
            std::sort(block.held.begin(), block.held.end(),
                      [](const auto& x, const auto& y) { return x.slot < y.slot; });
            for (auto& t : block.held) {
                t.offset = at;
                at += t.bytes;
            }
            block.bytes = at;
        }
        if (d_.c_regions == 0) return;
        const auto regions = static_cast<std::size_t>(d_.c_regions);
        std::int64_t most = 0;
        for (const auto& block : d_.blocks) most = std::max(most, block.bytes);
        for (std::size_t b = 0; b < d_.blocks.size(); ++b) {
            d_.blocks[b].region = static_cast<std::int64_t>(b % regions) * most;
            d_.blocks[b].follows = b < regions ? -1 : static_cast<std::int32_t>(b - regions);
        }
        d_.c_bytes = d_.c_regions * most;
    }

    /// What stays for all blocks, and how much comes at a time.
    void settle() {
        const auto rest = limits_.memory - d_.c_bytes;
        const auto* distinct = d_.distinct;
        const auto stays = what_stays(in_, limits_, d_);
        stays_[0] = stays.a;
        stays_[1] = stays.b;
        const auto left = rest - (stays_[0] ? distinct[0] : 0) - (stays_[1] ? distinct[1] : 0);
        d_.buffers = limits_.buffers > 0 ? limits_.buffers : stays_[1] || left / 2 >= limits_.unit ? 2 : 1;
        cap_ = left / d_.buffers / kDeviceAlignment * kDeviceAlignment;
        if (limits_.chunk > 0) {
            cap_ = at_least_unit(stays_[1] ? limits_.chunk : std::min(cap_, limits_.chunk));
            return;
        }
        if (limits_.b_held) cap_ = std::min(cap_, at_least_unit(limits_.memory / 4));
        if (stays_[1])
            cap_ = kStayingChunkBytes;
        else
            cap_ = std::min(cap_, std::max(limits_.unit, kChunkBytes));
        cap_ = std::min(cap_, std::max({limits_.unit, (distinct[0] + distinct[1]) / 8, std::int64_t{1} << 20}));
    }
    std::int64_t at_least_unit(std::int64_t bytes) const {
        return std::max(limits_.unit, bytes / kDeviceAlignment * kDeviceAlignment);
    }

    /// What may come with the next chunk of a block, of which so much is still to come: about the same with all that
    /// follow, since a short one would not hide the loads of the next. (Where B is made products take longer than
    /// loads.)
    std::int64_t cap(std::size_t block, std::size_t chunk, std::int64_t to_come) const {
        auto most = std::max<std::int64_t>(cap_, 1);
        if (limits_.chunk > 0) return most;  // as it was asked for
        if (block > 0 && stays_[1]) most <<= std::min<std::size_t>(block - 1, 3);
        if (block == 0 && chunk < 8) most = std::min(most, kFirstChunkBytes << chunk);
        if (to_come > 0 && !made_b_) most = std::min(most, to_come / ((to_come + most - 1) / most) + limits_.unit);
        return most;
    }
    /// What a block's chunks bring if no tile comes twice.
    std::int64_t bytes_of(const std::vector<Entry>& entries) {
        ++stamp_;
        std::int64_t sum = 0;
        for (const auto& e : entries)
            for (int o = 0; o < 2; ++o) {
                const auto t = tile(o, e);
                if (seen_[o][t] == stamp_ || (o == 1 && limits_.b_held)) continue;
                seen_[o][t] = stamp_;
                if (!stays_[o] || (stays_[1] && !came_[o][t])) sum += bytes_[o][t];
            }
        return sum;
    }

    /// Whole sums as they stand: nothing leaves, so no order of products would load less.
    void cut_by_sums(std::size_t number) {
        auto& block = d_.blocks[number];
        Chunk chunk;
        std::int64_t filled = 0, brought = 0;
        auto most = cap(number, 0, 0);
        int depth = 0;
        ++stamp_;
        const auto close = [&] {
            d_.depth = std::max(d_.depth, std::exchange(depth, 0));
            if (!chunk.chains.empty()) block.chunks.push_back(std::exchange(chunk, {}));
            most = cap(number, block.chunks.size(), 0);
            brought = 0;
            ++stamp_;
        };
        for (const auto i : block.sums) {
            const auto& sum = in_.sums[i];
            for (auto p = sum.first; p < sum.last; ++p) {
                const auto& product = in_.product.products[p];
                bring(0, product.a, chunk, filled, brought);
                bring(1, product.b, chunk, filled, brought);
                depth += std::exchange(seen_k_[in_.product.k(p)], stamp_) != stamp_;
            }
            chunk.chains.push_back({i, static_cast<std::int32_t>(sum.last - sum.first)});
            if (brought >= most) close();
        }
        close();
    }

    void cut_block(std::size_t number) {
        if (limits_.whole_sums) return cut_by_sums(number);
        auto& block = d_.blocks[number];
        const auto entries = order_of(block);
        auto to_come = bytes_of(entries);
        Chunk chunk;
        std::int64_t filled = 0, brought = 0;  // bytes in the chunk's buffer; and with those that stay
        int depth = 0;
        auto most = cap(number, 0, to_come);
        ++stamp_;
        const auto close = [&] {
            d_.chunk_bytes = std::max(d_.chunk_bytes, filled);
            for (const auto& ch : chunk.chains) chain_of_[ch.sum] = -1;
            if (!chunk.chains.empty()) block.chunks.push_back(std::move(chunk));
            chunk = {};
            to_come -= brought;
            filled = brought = 0;
            depth = 0;
            ++stamp_;
        };
        // Of A where B stays too, of what is not here yet; else of what the buffer must take.
        const auto counts = [&](int o, std::int32_t t) {
            if (o == 1 && limits_.b_held) return false;
            if (!stays_[o]) return seen_[o][t] != stamp_;
            return stays_[1] && !came_[o][t];
        };
        for (std::size_t begin = 0; begin < entries.size();) {
            auto end = begin + 1;
            while (end < entries.size() && entries[end].major == entries[begin].major &&
                   entries[end].minor == entries[begin].minor)
                ++end;
            // What the unit adds to the chunk, at most.
            std::int64_t adds = 0;
            std::int32_t counted[2] = {-1, -1};
            for (auto e = begin; e < end; ++e)
                for (int o = 0; o < 2; ++o) {
                    const auto t = tile(o, entries[e]);
                    if (t != counted[o] && counts(o, t)) adds += bytes_[o][t];
                    counted[o] = t;
                }
            const bool deeper = begin == 0 || entries[begin].major != entries[begin - 1].major;
            if (!chunk.chains.empty() && (brought + adds > most || (deeper && depth == limits_.depth))) {
                close();
                most = cap(number, block.chunks.size(), to_come);
            }
            if (deeper || depth == 0) d_.depth = std::max(d_.depth, ++depth);
            for (auto e = begin; e < end; ++e) {
                for (int o = 0; o < 2; ++o) bring(o, tile(o, entries[e]), chunk, filled, brought);
                auto& ch = chain_of_[entries[e].sum];
                if (ch < 0) {
                    ch = static_cast<std::int32_t>(chunk.chains.size());
                    chunk.chains.push_back({entries[e].sum, 0});
                }
                ++chunk.chains[ch].products;
            }
            begin = end;
        }
        close();
    }

    /// The tile comes with the chunk, unless it is there.
    void bring(int o, std::int32_t t, Chunk& chunk, std::int64_t& filled, std::int64_t& brought) {
        const auto operand = static_cast<Operand>(o);
        if ((o == 1 && limits_.b_held) || in_.in_place(operand, t, d_.device)) return;
        const auto bytes = bytes_[o][t];
        if (stays_[o] ? came_[o][t] : seen_[o][t] == stamp_) return;
        if (stays_[o]) {
            came_[o][t] = true;
            chunk.tiles.push_back({operand, t, bytes, d_.resident_bytes, true});
            d_.resident_bytes += bytes;
            if (stays_[1]) brought += bytes;
        } else {
            seen_[o][t] = stamp_;
            chunk.tiles.push_back({operand, t, bytes, filled, false});
            filled += bytes;
            brought += bytes;
        }
    }

    /// The products of a block in the order in which they are done. Each sum's stand in ascending k.
    std::vector<Entry> order_of(const Block& block) const {
        std::vector<Entry> out;
        for (auto i : block.sums)
            for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) out.push_back({0, 0, p, i});
        const auto k = [&](std::int64_t p) { return in_.product.k(p); };
        if (!limits_.b_held) {
            // Along k; within a place along k by columns, so that a tile of B and all who need it are one unit.
            for (auto& e : out) {
                e.major = k(e.product);
                e.minor = made_b_ ? in_.tile_of(Operand::b, e.product)
                                  : (static_cast<std::int64_t>(in_.row[in_.sums[e.sum].c]) << 32) +
                                        in_.col[in_.sums[e.sum].c];
            }
        } else {
            // Tiles of A one per row in turn: the n-th of every row, then the next.
            std::vector<std::pair<std::int64_t, std::int32_t>> places;  // (row, k)
            for (const auto& e : out)
                places.emplace_back((static_cast<std::int64_t>(in_.row[in_.sums[e.sum].c]) << 32) + k(e.product), 0);
            std::sort(places.begin(), places.end());
            places.erase(std::unique(places.begin(), places.end()), places.end());
            std::int64_t row = -1;
            std::int32_t turn = 0;
            for (auto& [at, n] : places) {
                if (at >> 32 != row) turn = 0;
                row = at >> 32;
                n = turn++;
            }
            for (auto& e : out) {
                const std::int64_t key = (static_cast<std::int64_t>(in_.row[in_.sums[e.sum].c]) << 32) + k(e.product);
                const auto it = std::lower_bound(places.begin(), places.end(), std::pair{key, std::int32_t{0}});
                e.major = it->second;
                e.minor = in_.row[in_.sums[e.sum].c];
            }
        }
        std::sort(out.begin(), out.end(), [](const Entry& x, const Entry& y) {
            return x.major != y.major   ? x.major < y.major
                   : x.minor != y.minor ? x.minor < y.minor
                                        : x.product < y.product;
        });
        return out;
    }

    const Inspection& in_;
    const ChunkLimits& limits_;
    bool made_b_;
    DeviceLayout& d_;
    const std::int64_t* bytes_[2];
    std::vector<std::int32_t> seen_[2], chain_of_, seen_k_;
    std::vector<bool> came_[2];  // of the tiles that stay
    bool stays_[2] = {false, false};
    std::int64_t cap_ = 0;
    std::int32_t stamp_ = 0;
};

}  // namespace

Staying what_stays(const Inspection& in, const ChunkLimits& limits, const DeviceLayout& layout) {
    const auto* distinct = layout.distinct;
    const auto rest = limits.memory - layout.c_bytes;
    const auto room = std::max(limits.unit, std::min(limits.memory / 16, kChunkBytes / 2));
    if (layout.blocks.size() <= 1) return {false, false};
    if (in.stored(Operand::b) && !limits.b_held && distinct[0] + distinct[1] <= rest) return {true, true};
    return {distinct[0] + std::max(2, limits.buffers) * room <= rest, false};
}

void cut_chunks(const Inspection& in, const ChunkLimits& limits, DeviceLayout& layout) {
    ChunkCutter(in, limits, layout).cut();
}

}  // namespace tessera
