// The devices of one rank: each holds block after block of C while chunks of A and B pass by, the next chunk on its way
// while one is worked on. A device takes a tile from another that has it before it asks the host.

#include <algorithm>
#include <optional>

#include "base/parallel.hpp"
#include "inspect/device_turns.hpp"
#include "inspect/plan_writer.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kPieceBytes = 128LL << 20;    // of one load or copy
constexpr std::int64_t kChains = 1024;               // whose products' places are worth a thread's turn
constexpr std::int64_t kLeavingBytes = 512LL << 20;  // of sums that a compute step completes: the first leave early

template <class T>
void keep_largest(std::optional<T>& x, const std::optional<T>& other) {
    if (other) x = std::max(x.value_or(*other), *other);
}
void keep_largest(PlanParameters& x, const PlanParameters& other) {
    keep_largest(x.block_share, other.block_share);
    keep_largest(x.chunk_share, other.chunk_share);
    keep_largest(x.block_rows, other.block_rows);
    keep_largest(x.block_cols, other.block_cols);
    keep_largest(x.depth, other.depth);
    keep_largest(x.lookahead, other.lookahead);
}

/// What the writer remembers of one device while it goes through its chunks.
struct Lane : DeviceStages {
    std::vector<std::int32_t> at[2];      // arrival of a tile in this device's memory, newest
    std::vector<std::int32_t> now[2];     // the one that the chunk at hand uses: the next chunk may bring it anew
    std::vector<std::int32_t> in_use[2];  // the stage it came for; INT32_MAX: stays
    std::vector<std::vector<std::int32_t>> arrived, copied_out;  // per stage: steps
    std::vector<std::pair<std::int64_t, std::int64_t>> range;    // per stage: its arrivals that can be evicted
    std::vector<std::int32_t> computed;                          // per stage: step
    std::vector<std::vector<std::int32_t>> stored;               // per block: steps
    std::pair<std::int64_t, std::int64_t> held{0, 0};            // arrivals of B that stay for the block at hand
    std::vector<std::int32_t> held_steps;
    std::vector<std::int32_t> device_sum;     // of the block at hand, by place in the block
    std::vector<std::int32_t> ring_loads[2];  // of the host ring's halves: the steps that empty them
    std::int64_t ring = 0, ring_bytes = 0;
    int ring_buffers = 1;
};

class DeviceWorker final : public Worker {
  public:
    DeviceWorker(PlanWriter& w, int rank, std::vector<std::int32_t> sums) : w_(w), in_(w.in), rank_(rank) {
        std::vector<std::int32_t> work;
        for (auto i : sums) (in_.sums[i].first < in_.sums[i].last ? work : empty_).push_back(i);
        auto cut = w_.device_cut ? std::move(*w_.device_cut) : cut_for_devices(in_, work);
        if (!work.empty()) {
            auto& blocks = w_.plan.blocks;  // each way once
            if (std::find(blocks.begin(), blocks.end(), cut.blocks) == blocks.end()) blocks.push_back(cut.blocks);
            w_.plan.memory_case = std::max(w_.plan.memory_case, cut.memory_case);
            keep_largest(w_.plan.used, cut.used);
        }
        lanes_.resize(cut.devices.size());
        for (std::size_t d = 0; d < lanes_.size(); ++d) {
            auto& lane = lanes_[d];
            lane.layout = std::move(cut.devices[d]);
            for (const auto& block : lane.layout.blocks)
                for (const auto i : block.sums)
                    if (in_.stays(in_.sums[i].c)) w_.plan.homes_c[in_.sums[i].c] = static_cast<std::int16_t>(d);
        }
        std::vector<DeviceStages*> devices;
        for (auto& lane : lanes_) devices.push_back(&lane);
        turns_ = DeviceTurns(in_, std::move(devices));
    }

    std::vector<std::pair<Operand, std::int32_t>> needs() const override {
        std::vector<std::pair<Operand, std::int32_t>> out;
        std::vector<bool> seen[2];
        for (const auto o : {Operand::a, Operand::b}) seen[static_cast<int>(o)].resize(in_.bytes(o).size());
        const auto need = [&](const ChunkTile& t) {
            auto&& mark = seen[static_cast<int>(t.operand)][t.slot];
            if (mark || !in_.stored(t.operand)) return;
            mark = true;
            out.emplace_back(t.operand, t.slot);
        };
        for (std::size_t t = 0; t < turns_.stages(); ++t)
            for (const auto& lane : lanes_) {
                if (t >= lane.stages.size()) continue;
                if (lane.stages[t].chunk == 0)
                    for (const auto& tile : lane.block(t).held) need(tile);
                for (const auto& tile : lane.chunk(t).tiles) need(tile);
            }
        return out;
    }

    std::int64_t least_host_bytes() const override { return made_a_bytes() + made_b_bytes(); }
    std::int64_t more_host_bytes() const override { return made_b_bytes(); }  // a second half of each lane's ring
    std::int64_t least_ring_bytes() const override {
        std::int64_t most = 0;
        for (std::size_t t = 0; t < turns(); ++t) {
            std::int64_t bytes = 0;
            for (const auto& use : uses(t)) bytes += use.bytes;
            most = std::max(most, bytes);
        }
        return most;
    }
    void prepare(std::int64_t ring) override;
    std::size_t turns() const override { return turns_.count(); }
    std::vector<RingUse> uses(std::size_t turn) const override;
    std::int32_t emit(std::size_t turn) override;
    void finish() override;

  private:
    bool host_made(Operand o) const { return in_.source(o) == SourceKind::host_made; }
    /// Host bytes of the tiles of B that are made for one step.
    std::int64_t ring_need(const Lane& lane) const {
        std::int64_t most = 0;
        const auto of = [&](const std::vector<ChunkTile>& tiles) {
            std::int64_t bytes = 0;
            for (const auto& t : tiles)
                if (t.operand == Operand::b) bytes += in_.bytes(Operand::b)[t.slot];
            most = std::max(most, bytes);
        };
        for (const auto& b : lane.layout.blocks) {
            of(b.held);
            for (const auto& c : b.chunks) of(c.tiles);
        }
        return most;
    }
    std::vector<std::int32_t> used_a() const {
        std::vector<bool> used(in_.bytes(Operand::a).size());
        std::vector<std::int32_t> out;
        for (const auto& lane : lanes_)
            for (const auto& b : lane.layout.blocks)
                for (const auto& c : b.chunks)
                    for (const auto& t : c.tiles)
                        if (t.operand == Operand::a && !used[t.slot]) {
                            used[t.slot] = true;
                            out.push_back(t.slot);
                        }
        return out;
    }
    std::int64_t made_a_bytes() const {
        if (in_.stored(Operand::a)) return 0;
        std::int64_t bytes = 0;
        for (auto t : used_a()) bytes += in_.bytes(Operand::a)[t];
        return bytes;
    }

    std::int64_t made_b_bytes() const {
        std::int64_t bytes = 0;
        if (host_made(Operand::b))
            for (const auto& lane : lanes_) bytes += ring_need(lane);
        return bytes;
    }

    void make_a();
    void make_b(Lane& lane, const std::vector<Sourced>& tiles, std::size_t t);
    void place_ring(Lane& lane);
    void emit_empty();
    void emit_arrivals(int d, std::size_t t);
    std::vector<std::int32_t> bring(int d, std::vector<Sourced> from, std::int64_t base, std::size_t t,
                                    std::int32_t after);
    void emit_compute(int d, std::size_t t);
    void emit_staying(int d, std::size_t block, const std::vector<std::int32_t>& sums, std::int32_t after);
    void emit_store(int d, std::size_t block, const std::vector<std::int32_t>& sums, std::int32_t after);
    std::int64_t buffer_at(const Lane& lane, std::size_t t) const {
        const auto& l = lane.layout;
        return l.c_bytes + l.resident_bytes +
               static_cast<std::int64_t>(t % static_cast<std::size_t>(l.buffers)) * l.chunk_bytes;
    }
    DeviceCounts& counts(int d) {
        return w_.plan.device_counts[static_cast<std::size_t>(rank_ * w_.plan.devices_per_rank + d)];
    }

    PlanWriter& w_;
    const Inspection& in_;
    int rank_;
    std::vector<std::int32_t> empty_;  // sums without products
    std::vector<Lane> lanes_;
    DeviceTurns turns_;
    std::vector<std::int32_t> made_at_[2];             // arrivals of tiles made on the host
    bool through_ring_ = false;                        // tiles of other ranks
    std::vector<std::int32_t> loads_;                  // of the turn at hand: steps that take tiles of other ranks
    std::vector<std::int32_t> summed_;                 // per result tile: sums that are complete, of those that stay
    std::vector<std::int32_t> place_in_block_, done_;  // per sum: where in its block, products given to chains
};

/// An A that is made on demand is made once, on the host.
void DeviceWorker::make_a() {
    if (in_.stored(Operand::a)) return;
    made_at_[0].assign(in_.bytes(Operand::a).size(), -1);
    for (auto slot : used_a()) {
        const auto bytes = in_.bytes(Operand::a)[slot];
        const auto i = w_.add_arrival(Operand::a, slot, w_.arena[rank_], bytes);
        w_.arena[rank_] += bytes;
        made_at_[0][slot] = i;
        w_.step_of_arrival[i] = w_.add_step(StepKind::make, rank_, -1, -1, i, i + 1, {});
        auto& n = w_.plan.rank_counts[rank_];
        ++n.made_tiles;
        n.made_bytes += bytes;
    }
}

void DeviceWorker::place_ring(Lane& lane) {
    if (!host_made(Operand::b)) return;
    lane.ring_bytes = ring_need(lane);
    const auto room = w_.host_limit() - w_.fixed[rank_] - w_.arena[rank_];
    std::int64_t others = 0;
    for (const auto& l : lanes_)
        if (l.ring_bytes == 0) others += ring_need(l);
    lane.ring_buffers = room - others >= 2 * lane.ring_bytes ? 2 : 1;
    lane.ring = w_.arena[rank_];
    w_.arena[rank_] += lane.ring_buffers * lane.ring_bytes;
}

/// Result tiles that no product reaches: zero, on the host, or on the device where they stay.
void DeviceWorker::emit_empty() {
    const auto stay =
        std::stable_partition(empty_.begin(), empty_.end(), [&](std::int32_t i) { return !in_.stays(in_.sums[i].c); });
    if (stay != empty_.end()) {
        const auto first = static_cast<std::int64_t>(w_.plan.chains.size());
        std::vector<std::int32_t> sums;
        for (auto i = stay; i != empty_.end(); ++i) {
            const auto c = in_.sums[*i].c;
            sums.push_back(static_cast<std::int32_t>(w_.plan.sums.size()));
            w_.plan.sums.push_back({c, rank_, static_cast<std::int16_t>(in_.home(Operand::c, c)), -1});
            w_.plan.chains.push_back({sums.back(), 0, in_.sums[*i].first});
        }
        w_.ready.resize(w_.plan.sums.size(), -1);
        const auto end = static_cast<std::int64_t>(w_.plan.chains.size());
        const auto step = w_.add_step(StepKind::compute, rank_, 0, -1, first, end, {});
        for (auto i = stay; i != empty_.end(); ++i) w_.ready[*i] = step;
        w_.add_finish_on(0, sums, step);
        empty_.erase(stay, empty_.end());
    }
    if (empty_.empty()) return;
    const auto begin = static_cast<std::int64_t>(w_.plan.chains.size());
    for (auto i : empty_) {
        PlanChain chain;
        chain.sum = i;
        chain.first_product = in_.sums[i].first;
        chain.finishes = w_.finished_by_worker(i);
        w_.plan.chains.push_back(chain);
    }
    const auto step =
        w_.add_step(StepKind::compute, rank_, -1, -1, begin, static_cast<std::int64_t>(w_.plan.chains.size()), {});
    for (auto i : empty_) w_.ready[i] = step;
}

std::vector<RingUse> DeviceWorker::uses(std::size_t turn) const {
    std::vector<RingUse> out;
    const auto add = [&](const std::vector<Sourced>& from) {
        for (const auto& [source, tile] : from) {
            if (source != from_host || !in_.stored(tile->operand)) continue;
            const auto slot = in_.place(tile->operand, tile->slot);
            if (w_.owner(tile->operand, slot) != rank_)
                out.push_back({tile->operand, slot, in_.bytes(tile->operand)[slot]});
        }
    };
    turns_.for_turn(
        turn, [&](int d, std::size_t t) { add(lanes_[d].from[t]); },
        [&](int d, std::size_t t) { add(lanes_[d].from_held[t]); });
    const auto key = [](const RingUse& x) { return std::pair(x.operand, x.slot); };
    std::ranges::sort(out, {}, key);
    const auto again = std::ranges::unique(out, {}, key);
    out.erase(again.begin(), again.end());
    return out;
}

void DeviceWorker::prepare(std::int64_t ring) {
    through_ring_ = ring >= 0;
    make_a();
    for (auto& lane : lanes_) place_ring(lane);
    emit_empty();
    for (auto& lane : lanes_) {
        for (int o = 0; o < 2; ++o) {
            lane.at[o].assign(in_.bytes(static_cast<Operand>(o)).size(), -1);
            lane.in_use[o].assign(lane.at[o].size(), -1);
            lane.now[o].assign(lane.at[o].size(), -1);
        }
        const auto n = lane.stages.size();
        lane.arrived.resize(n);
        lane.copied_out.resize(n);
        lane.range.resize(n);
        lane.computed.assign(n, -1);
        lane.stored.resize(lane.layout.blocks.size());
    }
}

std::int32_t DeviceWorker::emit(std::size_t turn) {
    turns_.for_turn(
        turn, [&](int d, std::size_t t) { emit_arrivals(d, t); }, [&](int d, std::size_t t) { emit_compute(d, t); });
    if (!through_ring_) return -1;
    // Those of the turns before are among what this one waits for.
    const auto over = w_.add_step(StepKind::join, rank_, -1, -1, 0, 0, loads_);
    loads_.assign(1, over);
    return over;
}

void DeviceWorker::finish() {
    for (int d = 0; d < static_cast<int>(lanes_.size()); ++d) {
        auto& n = counts(d);
        n.blocks = static_cast<std::int64_t>(lanes_[d].layout.blocks.size());
        n.chunks = static_cast<std::int64_t>(lanes_[d].stages.size());
        n.peak_bytes = n.blocks > 0 ? lanes_[d].layout.total() : 0;
        for (const auto& b : lanes_[d].layout.blocks) n.flops += b.flops;
    }
}

/// Tiles come into a device: made there, from another device that has them, or from the host.
std::vector<std::int32_t> DeviceWorker::bring(int d, std::vector<Sourced> from, std::int64_t base, std::size_t t,
                                              std::int32_t after) {
    auto& lane = lanes_[d];
    auto& plan = w_.plan;
    const std::int64_t resident = lane.layout.c_bytes;
    // Tiles of A first: whoever waits for the ring waits for the loads with tiles of B alone.
    std::stable_sort(from.begin(), from.end(), [](const auto& x, const auto& y) {
        return x.first != y.first ? x.first < y.first : x.second->operand < y.second->operand;
    });

    std::vector<std::int32_t> steps;
    std::pair<int, std::int32_t> before{INT32_MIN,
                                        -1};  // the piece before, of the same source: the last one stands for all
    auto& n = counts(d);
    for (std::size_t begin = 0; begin < from.size();) {
        auto end = begin + 1;
        // In pieces, so that the first tiles are on their way while later ones are still made or received.
        auto piece = from[begin].second->bytes;
        while (end < from.size() && from[end].first == from[begin].first && piece < kPieceBytes)
            piece += from[end++].second->bytes;
        const int source = from[begin].first;
        std::vector<std::int32_t> waits{after};
        if (source == before.first) waits.push_back(before.second);
        const auto first = static_cast<std::int64_t>(plan.arrivals.size());
        for (auto i = begin; i < end; ++i) {
            const auto& tile = *from[i].second;
            const int o = static_cast<int>(tile.operand);
            std::int32_t taken = -1;
            if (source < homes) {
                n.copied_bytes += tile.bytes;
            } else if (source >= 0) {
                taken = lanes_[source].at[o][tile.slot];
                waits.push_back(w_.step_of_arrival[taken]);
                n.copied_bytes += tile.bytes;
            } else if (source == from_host) {
                taken = in_.stored(tile.operand) ? w_.at(tile.operand, tile.slot) : made_at_[o][tile.slot];
                if (taken >= 0) waits.push_back(w_.step_of_arrival[taken]);
                n.loaded_bytes += tile.bytes;
            } else {
                n.made_bytes += tile.bytes;
                ++n.made_tiles;
            }
            if (source != made) n.loaded(tile.operand) += tile.bytes;
            lane.at[o][tile.slot] = w_.add_arrival(tile.operand, tile.slot,
                                                   (tile.resident ? resident : base) + tile.offset, tile.bytes, taken);
            lane.in_use[o][tile.slot] = tile.resident ? INT32_MAX : static_cast<std::int32_t>(t);
        }
        const auto last = static_cast<std::int64_t>(plan.arrivals.size());
        const auto kind = source == made ? StepKind::make : source == from_host ? StepKind::load : StepKind::copy;
        const auto peer = source < homes ? homes - 1 - source : source >= 0 ? source : -1;
        const auto step = w_.add_step(kind, rank_, d, peer, first, last, waits);
        for (auto i = first; i < last; ++i) w_.step_of_arrival[i] = step;
        const auto of_others = [&](const Sourced& x) {
            return in_.stored(x.second->operand) && w_.at(x.second->operand, x.second->slot) >= 0;
        };
        if (through_ring_ && source == from_host &&
            std::any_of(from.begin() + static_cast<std::ptrdiff_t>(begin),
                        from.begin() + static_cast<std::ptrdiff_t>(end), of_others))
            loads_.push_back(step);
        if (source == from_host && host_made(Operand::b) && from[end - 1].second->operand == Operand::b)
            lane.ring_loads[t % static_cast<std::size_t>(lane.ring_buffers)].push_back(step);
        if (source >= 0) {
            auto& other = lanes_[source];
            for (auto i = begin; i < end; ++i) {
                const auto use = other.in_use[static_cast<int>(from[i].second->operand)][from[i].second->slot];
                if (use != INT32_MAX && (other.copied_out[use].empty() || other.copied_out[use].back() != step))
                    other.copied_out[use].push_back(step);
            }
        }
        before = {source, step};
        steps.push_back(step);
        begin = end;
    }
    return steps;
}

/// Tiles of B that the cores make pass through the host's ring, one half while the other is being loaded.
void DeviceWorker::make_b(Lane& lane, const std::vector<Sourced>& tiles, std::size_t t) {
    if (!host_made(Operand::b) ||
        std::none_of(tiles.begin(), tiles.end(), [](const Sourced& x) { return x.second->operand == Operand::b; }))
        return;
    made_at_[1].resize(in_.bytes(Operand::b).size(), -1);
    const auto half = t % static_cast<std::size_t>(lane.ring_buffers);
    std::int64_t at = lane.ring + static_cast<std::int64_t>(half) * lane.ring_bytes;
    const auto emptied = std::exchange(lane.ring_loads[half], {});
    for (const auto& [source, tile] : tiles) {
        if (tile->operand != Operand::b) continue;
        const auto bytes = in_.bytes(Operand::b)[tile->slot];
        const auto i = w_.add_arrival(Operand::b, tile->slot, at, bytes);
        at += bytes;
        made_at_[1][tile->slot] = i;
        w_.step_of_arrival[i] = w_.add_step(StepKind::make, rank_, -1, -1, i, i + 1, emptied);
        ++w_.plan.rank_counts[rank_].made_tiles;
        w_.plan.rank_counts[rank_].made_bytes += bytes;
    }
}

void DeviceWorker::emit_arrivals(int d, std::size_t t) {
    auto& lane = lanes_[d];
    if (t >= lane.stages.size()) return;
    const auto buffers = static_cast<std::size_t>(lane.layout.buffers);
    std::int32_t after = -1;
    if (t >= buffers) {
        const auto [begin, end] = lane.range[t - buffers];
        after = lane.computed[t - buffers];
        if (begin < end) {
            auto waits = lane.copied_out[t - buffers];
            waits.push_back(after);
            after = w_.add_step(StepKind::evict, rank_, d, -1, begin, end, std::move(waits));
        }
    }
    // What stays comes first, so that what goes is one range.
    std::vector<Sourced> stay, go;
    for (const auto& x : lane.from[t]) (x.second->resident ? stay : go).push_back(x);
    auto steps = bring(d, stay, 0, t, in_.request.how.parameters.lookahead ? after : -1);
    for (const auto& [source, tile] : stay)
        lane.now[static_cast<int>(tile->operand)][tile->slot] = lane.at[static_cast<int>(tile->operand)][tile->slot];
    make_b(lane, go, t);
    lane.range[t].first = static_cast<std::int64_t>(w_.plan.arrivals.size());
    const auto more = bring(d, go, buffer_at(lane, t), t, after);
    lane.range[t].second = static_cast<std::int64_t>(w_.plan.arrivals.size());
    steps.insert(steps.end(), more.begin(), more.end());
    lane.arrived[t] = std::move(steps);
}

void DeviceWorker::emit_compute(int d, std::size_t t) {
    auto& lane = lanes_[d];
    if (t >= lane.stages.size()) return;
    auto& plan = w_.plan;
    const auto [b, c] = lane.stages[t];
    const auto& block = lane.layout.blocks[b];
    std::vector<std::int32_t> waits = lane.arrived[t];
    if (t > 0) waits.push_back(lane.computed[t - 1]);
    if (c == 0) {
        const auto region = block.region;
        std::vector<std::int32_t> freed;
        if (block.follows >= 0) freed = lane.stored[static_cast<std::size_t>(block.follows)];
        lane.device_sum.clear();
        for (std::size_t i = 0; i < block.sums.size(); ++i) {
            lane.device_sum.push_back(static_cast<std::int32_t>(plan.sums.size()));
            plan.sums.push_back({in_.sums[block.sums[i]].c, rank_, static_cast<std::int16_t>(d),
                                 block.offsets[i] < 0 ? -1 : region + block.offsets[i]});
        }
        w_.ready.resize(plan.sums.size(), -1);
        if (!block.held.empty()) {
            std::int32_t after = -1;
            if (b > 0) {
                freed.push_back(lane.computed[t - 1]);
                after = w_.add_step(StepKind::evict, rank_, d, -1, lane.held.first, lane.held.second, freed);
            }
            make_b(lane, lane.from_held[t], t);
            lane.held.first = static_cast<std::int64_t>(plan.arrivals.size());
            for (const auto s : bring(d, lane.from_held[t], region, t, after)) waits.push_back(s);
            lane.held.second = static_cast<std::int64_t>(plan.arrivals.size());
            // Others may not count on them: they go with the block, not with a chunk.
            for (const auto& tile : block.held) {
                const int o = static_cast<int>(tile.operand);
                lane.in_use[o][tile.slot] = -1;
                lane.now[o][tile.slot] = lane.at[o][tile.slot];
            }
        }
        waits.insert(waits.end(), freed.begin(), freed.end());
    }

    for (auto i = lane.range[t].first; i < lane.range[t].second; ++i)
        lane.now[static_cast<int>(plan.arrivals[i].operand)][plan.arrivals[i].slot] = static_cast<std::int32_t>(i);
    const auto place_of = [&](std::int32_t sum) { return place_in_block_[sum]; };
    if (c == 0) {
        if (place_in_block_.empty()) place_in_block_.resize(in_.sums.size());
        for (std::size_t i = 0; i < block.sums.size(); ++i)
            place_in_block_[block.sums[i]] = static_cast<std::int32_t>(i);
        if (done_.empty()) done_.resize(in_.sums.size(), 0);
    }
    auto begin = static_cast<std::int64_t>(plan.chains.size());
    std::vector<std::int32_t> complete;
    std::int64_t complete_bytes = 0;
    const auto finish_step = [&] {
        const auto end = static_cast<std::int64_t>(plan.chains.size());
        const auto step = w_.add_step(StepKind::compute, rank_, d, -1, begin, end, std::exchange(waits, {}));
        waits.push_back(step);
        begin = end;
        lane.computed[t] = step;
        if (!complete.empty()) emit_store(d, b, complete, step);
        complete.clear();
        complete_bytes = 0;
    };
    const auto first_chain = plan.chains.size();
    for (const auto& ch : block.chunks[c].chains) {
        if (complete_bytes >= kLeavingBytes) finish_step();
        const auto& s = in_.sums[ch.sum];
        PlanChain chain;
        chain.sum = lane.device_sum[place_of(ch.sum)];
        chain.first_product = s.first + done_[ch.sum];
        chain.products = ch.products;
        chain.starts = done_[ch.sum] == 0;
        plan.chains.push_back(chain);
        done_[ch.sum] += ch.products;
        if (s.first + done_[ch.sum] == s.last) {
            complete.push_back(ch.sum);
            complete_bytes += in_.bytes_on_device(Operand::c)[s.c];
        }
    }
    parallel_for(static_cast<std::int64_t>(plan.chains.size() - first_chain), in_.request.planning_threads, kChains,
                 [&](std::int64_t i) {
                     const auto& chain = plan.chains[first_chain + static_cast<std::size_t>(i)];
                     for (auto p = chain.first_product; p < chain.first_product + chain.products; ++p) {
                         const auto& product = in_.product.products[p];
                         plan.places[p] = {in_.in_place(Operand::a, product.a, d) ? -1 : lane.now[0][product.a],
                                           in_.in_place(Operand::b, product.b, d) ? -1 : lane.now[1][product.b]};
                     }
                 });
    finish_step();
}

/// Complete sums that are stored on the device are finished there: where they are, or laid into their tiles first.
void DeviceWorker::emit_staying(int d, std::size_t block, const std::vector<std::int32_t>& sums, std::int32_t after) {
    auto& lane = lanes_[d];
    auto& plan = w_.plan;
    const auto device_sum = [&](std::int32_t sum) { return lane.device_sum[place_in_block_[sum]]; };
    // Sums of one tile are joined when the last of them is complete.
    std::vector<std::int32_t> whole;  // the first sum of each such tile
    std::vector<PlanMove> merges;
    if (summed_.empty()) summed_.resize(in_.bytes(Operand::c).size());
    for (auto s : sums) {
        const auto c = in_.sums[s].c;
        if (!in_.stays(c)) continue;
        w_.ready[s] = after;
        const auto first = in_.first_sum[c], count = in_.first_sum[c + 1] - first;
        if (++summed_[c] < count) continue;
        whole.push_back(first);
        fixed_tree(static_cast<std::size_t>(count), [&](std::size_t to, std::size_t from) {
            merges.push_back({device_sum(first + static_cast<std::int32_t>(from)),
                              device_sum(first + static_cast<std::int32_t>(to))});
        });
    }
    if (!merges.empty()) {
        const auto begin = static_cast<std::int64_t>(plan.moves.size());
        plan.moves.insert(plan.moves.end(), merges.begin(), merges.end());
        after =
            w_.add_step(StepKind::merge, rank_, d, -1, begin, static_cast<std::int64_t>(plan.moves.size()), {after});
        lane.stored[block].push_back(after);
    }
    std::vector<std::int32_t> there, laid;
    const auto first = static_cast<std::int64_t>(plan.moves.size());
    for (auto s : whole) {
        const auto c = in_.sums[s].c;
        const auto at = device_sum(s);
        if (plan.sums[at].offset < 0) {
            there.push_back(at);
            continue;
        }
        const auto to = static_cast<std::int32_t>(plan.sums.size());
        plan.sums.push_back({c, rank_, static_cast<std::int16_t>(d), -1});
        plan.moves.push_back({at, to});
        counts(d).copied_bytes += in_.bytes_on_device(Operand::c)[c];
        laid.push_back(to);
    }
    w_.ready.resize(plan.sums.size(), -1);
    if (!there.empty()) w_.add_finish_on(d, there, after);
    if (laid.empty()) return;
    const auto store =
        w_.add_step(StepKind::store, rank_, d, d, first, static_cast<std::int64_t>(plan.moves.size()), {after});
    lane.stored[block].push_back(store);
    w_.add_finish_on(d, laid, store);
}

/// Sums of the block at hand that are complete after a compute step leave.
void DeviceWorker::emit_store(int d, std::size_t block, const std::vector<std::int32_t>& sums, std::int32_t after) {
    auto& lane = lanes_[d];
    auto& plan = w_.plan;
    emit_staying(d, block, sums, after);
    const auto first = static_cast<std::int64_t>(plan.moves.size());
    std::vector<std::int32_t> leave;
    for (auto s : sums)
        if (!in_.stays(in_.sums[s].c)) leave.push_back(s);
    if (leave.empty()) return;
    for (auto s : leave) {
        plan.moves.push_back({lane.device_sum[place_in_block_[s]], s});
        counts(d).stored_bytes += in_.bytes_on_device(Operand::c)[in_.sums[s].c];
    }
    const auto store =
        w_.add_step(StepKind::store, rank_, d, -1, first, static_cast<std::int64_t>(plan.moves.size()), {after});
    lane.stored[block].push_back(store);
    for (auto s : leave) {
        w_.ready[s] = store;
        if (w_.finished_by_worker(s)) w_.add_finish(s, store);
    }
}

}  // namespace

std::unique_ptr<Worker> device_worker(PlanWriter& writer, int rank, std::vector<std::int32_t> sums) {
    return std::make_unique<DeviceWorker>(writer, rank, std::move(sums));
}

}  // namespace tessera
