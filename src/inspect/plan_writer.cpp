#include "inspect/plan_writer.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.hpp"
#include "base/units.hpp"

namespace tessera {

namespace {
// Tiles travel together up to this; the first messages of a rank are shorter, so that its work begins early.
constexpr std::int64_t kMessageBytes = 8LL << 20, kFirstMessageBytes = 512LL << 10;
}  // namespace

std::int32_t PlanWriter::add_step(StepKind kind, int rank, int device, int peer, std::int64_t begin, std::int64_t end,
                                  std::vector<std::int32_t> after) {
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    const auto step = add_step_after(-1, kind, rank, device, peer, begin, end);
    for (auto d : after)
        if (d >= 0) {
            plan.dependencies.push_back(d);
            ++plan.steps.back().dependencies;
        }
    return step;
}

std::int32_t PlanWriter::add_step_after(std::int32_t after, StepKind kind, int rank, int device, int peer,
                                        std::int64_t begin, std::int64_t end) {
    PlanStep s;
    s.kind = kind;
    s.rank = rank;
    s.device = static_cast<std::int16_t>(device);
    s.peer = peer;
    s.begin = begin;
    s.end = end;
    s.first_dependency = static_cast<std::int64_t>(plan.dependencies.size());
    if (after >= 0) {
        plan.dependencies.push_back(after);
        s.dependencies = 1;
    }
    plan.steps.push_back(s);
    return static_cast<std::int32_t>(plan.steps.size()) - 1;
}

void PlanWriter::add_finish(std::int32_t sum, std::int32_t after) {
    const auto at = static_cast<std::int64_t>(plan.finish_sums.size());
    plan.finish_sums.push_back(sum);
    add_step_after(after, StepKind::finish, plan.sums[sum].rank, -1, -1, at, at + 1);
}

void PlanWriter::add_finish_on(int device, const std::vector<std::int32_t>& sums, std::int32_t after) {
    const auto at = static_cast<std::int64_t>(plan.finish_sums.size());
    plan.finish_sums.insert(plan.finish_sums.end(), sums.begin(), sums.end());
    add_step(StepKind::finish, plan.sums[sums.front()].rank, device, -1, at,
             static_cast<std::int64_t>(plan.finish_sums.size()), {after});
}

std::int32_t PlanWriter::add_arrival(Operand o, std::int32_t slot, std::int64_t offset, std::int64_t bytes,
                                     std::int32_t from) {
    plan.arrivals.push_back({o, slot, from, offset, bytes});
    step_of_arrival.push_back(-1);
    return static_cast<std::int32_t>(plan.arrivals.size()) - 1;
}

/// Distributions, owners, and what every rank holds for the whole run.
void PlanWriter::lay_out() {
    const auto& r = in.request;
    plan.distribution_a = in.distribution(Operand::a, how.lies);
    plan.distribution_b = in.distribution(Operand::b, how.lies);
    plan.distribution_c = in.distribution(Operand::c, how.lies);
    const auto ranks = static_cast<std::size_t>(plan.ranks);
    plan.rank_counts.resize(ranks);
    plan.device_counts.resize(ranks * static_cast<std::size_t>(plan.devices_per_rank));
    arena.assign(ranks, 0);
    fixed.assign(ranks, r.other_bytes);
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        const auto& d = plan.distribution(o);
        const auto& shape = in.shape(o);
        auto& owner = owner_[o];
        owner.assign(static_cast<std::size_t>(shape.tile_count()), 0);
        if (plan.ranks > 1)
            for (std::int32_t s = 0; s < static_cast<std::int32_t>(shape.tile_count()); ++s)
                owner[s] = d.owner(shape.grid(), shape.tile(in.place(o, s)));
        if (o != Operand::c && !in.stored(o)) continue;
        for (std::int32_t s = 0; s < static_cast<std::int32_t>(shape.tile_count()); ++s) {
            plan.counts.whole_bytes +=
                o == Operand::c ? in.bytes(o)[s] * shape.symmetry().orbit(shape.grid(), shape.tile(s)) : in.bytes(o)[s];
            if (in.place(o, s) != s || in.home(o, s) >= 0) continue;
            plan.rank_counts[owner[s]].stored(o) += in.bytes(o)[s];
            fixed[owner[s]] += in.bytes(o)[s];
        }
    }
}

/// Where each sum is on the host of the rank that works on it.
void PlanWriter::place_sums() {
    const auto& bytes = in.bytes(Operand::c);
    const auto tiles = static_cast<std::int32_t>(in.product.c.tile_count());
    joined_by_worker_.assign(static_cast<std::size_t>(tiles), false);
    for (std::int32_t c = 0; c < tiles; ++c) {
        bool here = plan.devices_per_rank == 0 && in.first_sum[c + 1] - in.first_sum[c] > 1;
        for (auto i = in.first_sum[c]; i < in.first_sum[c + 1]; ++i) here = here && how.rank_of[i] == owner_.c[c];
        joined_by_worker_[c] = here;
    }
    plan.sums.reserve(in.sums.size());
    for (std::size_t i = 0; i < in.sums.size(); ++i) {
        const auto& s = in.sums[i];
        const auto rank = how.rank_of[i];
        const bool in_place = s.index == 0 && owner_.c[s.c] == rank;
        plan.sums.push_back({s.c, rank, -1, in_place ? -1 : arena[rank]});
        if (!in_place && !joined_by_worker_[s.c] && !in.stays(s.c)) arena[rank] += bytes[s.c];
    }
    for (std::int32_t c = 0; c < tiles; ++c)
        if (!in.stays(c) && !joined_by_worker_[c] && !finished_by_worker(in.first_sum[c])) plan_closing(c);
}

std::int32_t PlanWriter::sum_at_owner(std::int32_t c, bool in_place) {
    const auto rank = owner_.c[c];
    plan.sums.push_back({c, rank, -1, in_place ? -1 : arena[rank]});
    if (!in_place) arena[rank] += in.bytes(Operand::c)[c];
    return static_cast<std::int32_t>(plan.sums.size()) - 1;
}

/// Two sums of one rank are joined there; else both go to the
/// owner.
void PlanWriter::plan_closing(std::int32_t c) {
    Closing out{c, {}, {}, {}, -1};
    const auto owner = owner_.c[c];
    std::vector<std::int32_t> sums;
    for (auto i = in.first_sum[c]; i < in.first_sum[c + 1]; ++i) sums.push_back(i);
    std::vector<bool> moved(sums.size());
    const auto bring = [&](std::size_t i) {
        if (plan.sums[sums[i]].rank == owner) return;
        const auto to = sum_at_owner(c, i == 0);
        out.moves.push_back({sums[i], to});
        sums[i] = to;
        moved[i] = true;
    };
    fixed_tree(sums.size(), [&](std::size_t i, std::size_t j) {
        const bool apart = plan.sums[sums[i]].rank != plan.sums[sums[j]].rank;
        if (apart) {
            bring(i);
            bring(j);
        }
        const PlanMove merge{sums[j], sums[i]};
        if (apart || moved[i] || moved[j]) {
            out.owner.push_back(merge);
            moved[i] = true;
        } else {
            out.local.emplace_back(plan.sums[sums[i]].rank, merge);
        }
    });
    bring(0);
    out.result = sums[0];
    closing_.push_back(std::move(out));
}

/// Tiles that a rank needs and others store; one that is seen in several ways comes once.
void PlanWriter::find_needs(int rank, const Worker& worker) {
    PerOperand<std::vector<bool>> seen;
    for (const auto& [o, seen_as] : worker.needs()) {
        const auto slot = in.place(o, seen_as);
        if (owner_[o][slot] == rank) continue;
        if (seen[o].empty()) seen[o].resize(owner_[o].size());
        if (seen[o][slot]) continue;
        seen[o][slot] = true;
        needs_[rank].emplace_back(o, slot);
        need_bytes_[rank] += in.bytes(o)[slot];
        (o == Operand::a ? plan.streams.once_a : plan.streams.once_b) += in.payload(o, slot);
    }
}

/// Ranks whose memory has no room for all tiles that they need of others get a ring.
void PlanWriter::open_streams(const std::vector<std::unique_ptr<Worker>>& workers) {
    const auto limit = host_limit();
    for (int r = 0; r < plan.ranks; ++r) {
        auto& worker = *workers[r];
        const auto rest = limit - fixed[r] - arena[r] - worker.least_host_bytes();
        if (need_bytes_[r] <= rest) continue;
        const auto least = worker.least_ring_bytes();
        if (least >= need_bytes_[r] || least > rest) continue;
        if (streams_.empty()) streams_.resize(static_cast<std::size_t>(plan.ranks));
        auto& stream = *(streams_[r] = std::make_unique<Stream>());
        // What the worker has no use for; at least half of what is not spoken for.
        const auto more = std::max((rest - least) / 2, rest - least - worker.more_host_bytes());
        stream.bytes = std::min(need_bytes_[r], (least + more) / kTileAlignment * kTileAlignment);
        stream.offset = arena[r];
        arena[r] += stream.bytes;
    }
}

/// All that a rank needs of others: messages from each of them, in order of first use.
void PlanWriter::pack_messages(int rank) {
    struct Open {
        std::vector<Need> tiles;
        std::int64_t bytes = 0, most = kFirstMessageBytes;
    };
    std::map<std::int32_t, Open> open;
    auto& messages = messages_[rank];
    const auto close = [&](std::int32_t from, const std::vector<Need>& tiles) {
        const auto begin = static_cast<std::int64_t>(plan.arrivals.size());
        for (const auto& [o, slot] : tiles) {
            const auto bytes = in.bytes(o)[slot];
            received_[rank].push_back(add_arrival(o, slot, arena[rank], bytes));
            arena[rank] += bytes;
        }
        messages.push_back({from, begin, static_cast<std::int64_t>(plan.arrivals.size())});
    };
    for (const auto& [o, slot] : needs_[rank]) {
        (o == Operand::a ? plan.streams.blocks_a : plan.streams.blocks_b) += in.payload(o, slot);
        const auto from = owner_[o][slot];
        auto& next = open[from];
        next.tiles.emplace_back(o, slot);
        if ((next.bytes += in.bytes(o)[slot]) < next.most) continue;
        close(from, next.tiles);
        next.tiles.clear();
        next.bytes = 0;
        next.most = std::min(kMessageBytes, 2 * next.most);
    }
    for (const auto& [from, rest] : open)
        if (!rest.tiles.empty()) close(from, rest.tiles);
    needs_[rank] = {};
}

void PlanWriter::check_memory(const std::vector<std::unique_ptr<Worker>>& workers) {
    const auto limit = host_limit();
    const auto with = [&](int r, bool as_it_is) {
        auto bytes = fixed[r] + arena[r] + workers[r]->least_host_bytes();
        const bool streams = !streams_.empty() && streams_[r];
        if (!streams) bytes += as_it_is ? need_bytes_[r] : std::min(need_bytes_[r], workers[r]->least_ring_bytes());
        if (streams && !as_it_is) bytes += workers[r]->least_ring_bytes() - streams_[r]->bytes;
        return bytes;
    };
    bool fits = true;
    for (int r = 0; r < plan.ranks; ++r) fits = fits && with(r, true) <= limit;
    if (fits) return;
    std::int64_t least = 0;
    for (int r = 0; r < plan.ranks; ++r) least = std::max(least, with(r, false));
    throw BudgetError(
        fmt::format("a {} of {} ({} bytes) is too small for '{}': the smallest that works is {} ({} bytes)",
                    plan.devices_per_rank > 0 ? "host memory" : "memory budget", format_bytes(limit), limit, plan.spec,
                    format_bytes(least), least),
        limit, least);
}

/// A few are on their way from one rank to another at a time: what is sent is read when it is needed.
void PlanWriter::emit_message(const Message& m, int rank, std::int32_t after) {
    auto& newest = sends_[static_cast<std::int64_t>(m.from) * plan.ranks + rank].newest;
    std::rotate(newest.begin(), newest.begin() + 1, newest.end());  // the oldest is the last now
    newest.back() = add_step(StepKind::send, m.from, -1, rank, m.begin, m.end, {newest.back()});
    const auto step = add_step(StepKind::receive, rank, -1, m.from, m.begin, m.end, {after});
    for (auto i = m.begin; i < m.end; ++i) {
        step_of_arrival[i] = step;
        const auto& t = plan.arrivals[i];
        const auto bytes = in.payload(t.operand, t.slot);
        (t.operand == Operand::a ? plan.streams.sent_a : plan.streams.sent_b) += bytes;
        plan.rank_counts[m.from].sent_bytes += bytes;
        plan.rank_counts[rank].received_bytes += bytes;
    }
}

/// One message of each rank in turn, so that no rank waits until another has all of its own.
void PlanWriter::emit_messages() {
    bool more = true;
    for (std::size_t j = 0; more; ++j) {
        more = false;
        for (int r = 0; r < plan.ranks; ++r) {
            if (j >= messages_[r].size()) continue;
            more = true;
            emit_message(messages_[r][j], r, -1);
        }
    }
}

/// The tiles that come into a rank's ring for a turn.
void PlanWriter::emit_turn(int rank, std::size_t turn) {
    struct Open {
        std::vector<const RingReceive*> tiles;
        std::int64_t bytes = 0;
        std::int32_t after = -1;
    };
    auto& stream = *streams_[rank];
    std::map<std::int32_t, Open> open;
    const auto close = [&](std::int32_t from, Open& o) {
        Message m{from, static_cast<std::int64_t>(plan.arrivals.size()), 0};
        for (const auto* t : o.tiles)
            stream.at[t->operand][t->slot] = add_arrival(t->operand, t->slot, stream.offset + t->offset, t->bytes);
        m.end = static_cast<std::int64_t>(plan.arrivals.size());
        emit_message(m, rank, o.after < 0 ? -1 : stream.over[static_cast<std::size_t>(o.after)]);
        o = {};
    };
    for (const auto& t : stream.ring.turns[turn]) {
        const auto from = owner_[t.operand][t.slot];
        auto& o = open[from];
        o.tiles.push_back(&t);
        o.after = std::max(o.after, t.after);
        if ((o.bytes += t.bytes) >= kMessageBytes) close(from, o);
    }
    for (auto& [from, o] : open)
        if (!o.tiles.empty()) close(from, o);
}

/// Rank after rank, where each has all it needs. With rings turn after turn, so that the steps are numbered in an order
/// in which they can run although every message waits for the place where it is received.
void PlanWriter::emit_work(std::vector<std::unique_ptr<Worker>>& workers) {
    const auto whole = [&](int r) {
        enter(r);
        auto& worker = *workers[r];
        worker.prepare(-1);
        for (std::size_t t = 0; t < worker.turns(); ++t) worker.emit(t);
        worker.finish();
        workers[r].reset();
    };
    std::size_t turns = 0;
    auto& n = plan.streams;
    for (int r = 0; r < plan.ranks; ++r) {
        if (streams_.empty() || !streams_[r]) {
            whole(r);
            continue;
        }
        auto& worker = *workers[r];
        auto& stream = *streams_[r];
        needs_[r] = {};
        enter(r);
        worker.prepare(stream.bytes);
        std::vector<std::vector<RingUse>> uses(worker.turns());
        for (std::size_t t = 0; t < uses.size(); ++t) {
            uses[t] = worker.uses(t);
            for (const auto& [o, slot, bytes] : uses[t])
                (o == Operand::a ? n.blocks_a : n.blocks_b) += in.payload(o, slot);
        }
        stream.ring = plan_ring(uses, stream.bytes);
        stream.over.resize(uses.size());
        turns = std::max(turns, uses.size());
        n.lookahead =
            n.ranks++ == 0 ? stream.ring.lookahead : std::min<std::int64_t>(n.lookahead, stream.ring.lookahead);
        n.ring_bytes = std::max(n.ring_bytes, stream.bytes);
    }
    n.turns = static_cast<std::int64_t>(turns);
    for (std::size_t t = 0; t < turns; ++t) {
        const auto has_it = [&](int r) { return streams_[r] && t < streams_[r]->over.size(); };
        for (int r = 0; r < plan.ranks; ++r)
            if (has_it(r)) emit_turn(r, t);
        for (int r = 0; r < plan.ranks; ++r)
            if (has_it(r)) {
                enter(r);
                stream_->over[t] = workers[r]->emit(t);
            }
    }
    for (int r = 0; r < plan.ranks; ++r)
        if (workers[r]) {
            enter(r);
            workers[r]->finish();
            workers[r].reset();
        }
}

/// From here on `at` speaks of this rank.
void PlanWriter::enter(int rank) {
    stream_ = streams_.empty() ? nullptr : streams_[rank].get();
    if (stream_) return;
    for (const auto o : {Operand::a, Operand::b}) at_[o].assign(owner_[o].size(), -1);
    for (auto i : received_[rank]) at_[plan.arrivals[i].operand][plan.arrivals[i].slot] = i;
}

std::int32_t PlanWriter::add_merge(int rank, const std::vector<PlanMove>& moves) {
    const auto begin = static_cast<std::int64_t>(plan.moves.size());
    std::vector<std::int32_t> after;
    for (const auto& m : moves) {
        plan.moves.push_back(m);
        after.push_back(ready[m.from]);
        after.push_back(ready[m.to]);
    }
    const auto end = static_cast<std::int64_t>(plan.moves.size());
    const auto step = add_step(StepKind::merge, rank, -1, -1, begin, end, std::move(after));
    for (const auto& m : moves) ready[m.to] = step;
    return step;
}

void PlanWriter::emit_closing() {
    ready.resize(plan.sums.size(), -1);
    // Joined where they are.
    for (const auto& c : closing_) {
        std::map<std::int32_t, std::vector<PlanMove>> by_rank;
        for (const auto& [rank, merge] : c.local) by_rank[rank].push_back(merge);
        for (const auto& [rank, merges] : by_rank) add_merge(rank, merges);
    }
    // Sent to their owners, several in one message.
    struct Open {
        std::vector<PlanMove> moves;
        std::int64_t bytes = 0;
    };
    std::map<std::pair<std::int32_t, std::int32_t>, Open> open;
    const auto close = [&](const std::pair<std::int32_t, std::int32_t>& pair, Open& o) {
        const auto begin = static_cast<std::int64_t>(plan.moves.size());
        std::vector<std::int32_t> after;
        for (const auto& m : o.moves) {
            plan.moves.push_back(m);
            after.push_back(ready[m.from]);
        }
        const auto end = static_cast<std::int64_t>(plan.moves.size());
        add_step(StepKind::send_sums, pair.first, -1, pair.second, begin, end, after);
        const auto step = add_step(StepKind::receive_sums, pair.second, -1, pair.first, begin, end, {});
        for (const auto& m : o.moves) ready[m.to] = step;
        plan.rank_counts[pair.first].sent_bytes += o.bytes;
        plan.rank_counts[pair.second].received_bytes += o.bytes;
        o = {};
    };
    // In the order in which they become ready.
    std::vector<PlanMove> moves;
    for (const auto& c : closing_) moves.insert(moves.end(), c.moves.begin(), c.moves.end());
    std::stable_sort(moves.begin(), moves.end(),
                     [&](const PlanMove& x, const PlanMove& y) { return ready[x.from] < ready[y.from]; });
    for (const auto& m : moves) {
        const std::pair pair{plan.sums[m.from].rank, plan.sums[m.to].rank};
        auto& o = open[pair];
        o.moves.push_back(m);
        if ((o.bytes += in.payload(Operand::c, plan.sums[m.from].c)) >= kMessageBytes) close(pair, o);
    }
    for (auto& [pair, o] : open)
        if (!o.moves.empty()) close(pair, o);
    for (const auto& c : closing_) {
        if (!c.owner.empty()) add_merge(owner_.c[c.c], c.owner);
        add_finish(c.result, ready[c.result]);
    }
}

void PlanWriter::count() {
    auto& n = plan.counts;
    for (int r = 0; r < plan.ranks; ++r) {
        auto& k = plan.rank_counts[r];
        k.arena_bytes = arena[r];
        k.peak_bytes = fixed[r] + arena[r];
        n.bytes_a += k.stored_a;
        n.bytes_b += k.stored_b;
        n.bytes_c += k.stored_c;
        n.sent_bytes += k.sent_bytes;
        n.made_tiles += k.made_tiles;
        n.made_bytes += k.made_bytes;
        n.arena_bytes = std::max(n.arena_bytes, k.arena_bytes);
        n.peak_host_bytes = std::max(n.peak_host_bytes, k.peak_bytes);
    }
    for (std::size_t i = 0; i < in.sums.size(); ++i) {
        auto& k = plan.rank_counts[how.rank_of[i]];
        k.flops += in.sums[i].flops;
        k.products += in.sums[i].last - in.sums[i].first;
    }
    for (auto* homes : {&plan.homes_a, &plan.homes_b, &plan.homes_c})
        if (std::ranges::all_of(*homes, [](auto home) { return home < 0; })) homes->clear();
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        const auto& homes = plan.homes(o);
        for (std::size_t s = 0; s < homes.size(); ++s) {
            if (homes[s] < 0) continue;
            plan.device_counts[static_cast<std::size_t>(homes[s])].kept_bytes += in.bytes(o)[s];
            (o == Operand::a ? n.bytes_a : o == Operand::b ? n.bytes_b : n.bytes_c) += in.bytes(o)[s];
        }
    }
    for (const auto& d : plan.device_counts) {
        n.loaded_bytes += d.loaded_bytes;
        n.stored_bytes += d.stored_bytes;
        n.copied_bytes += d.copied_bytes;
        n.peak_device_bytes = std::max(n.peak_device_bytes, d.peak_bytes + d.kept_bytes);
        n.made_tiles += d.made_tiles;
        n.made_bytes += d.made_bytes;
    }
}

Plan PlanWriter::write() {
    const auto& r = in.request;
    plan.spec = r.spec->text();
    plan.algorithm = how.algorithm;
    plan.reason = how.reason;
    plan.scalar = r.scalar;
    plan.a = *r.a;
    plan.b = *r.b;
    plan.c = in.product.c;
    if (r.views_a) plan.views_a = *r.views_a;
    if (r.views_b) plan.views_b = *r.views_b;
    plan.source_a = r.source_a;
    plan.source_b = r.source_b;
    plan.homes_a = in.homes.a;
    plan.homes_b = in.homes.b;
    plan.homes_c = in.homes.c;
    plan.ranks = in.machine.ranks;
    plan.devices_per_rank = in.machine.devices_per_rank;
    plan.threads = in.machine.threads_per_rank;
    plan.grid_rows = how.grid_rows;
    plan.grid_cols = how.grid_cols;
    plan.budget.host_bytes = r.host_memory;
    if (plan.devices_per_rank > 0)
        plan.budget.device_bytes = r.device_memory > 0 ? r.device_memory : in.machine.device.memory;
    plan.given = r.how;
    plan.filter = r.screening.filter;
    plan.alpha_magnitude = r.screening.alpha_magnitude;
    plan.beta_magnitude = r.screening.beta_magnitude;
    if (plan.filter > 0 && r.accumulate) plan.added = *r.accumulate;
    plan.shape_given = r.screening.given != nullptr;
    plan.other_bytes = r.other_bytes;
    plan.segments = in.product.segments;
    plan.skipped = in.product.skipped;
    const bool as_stored =
        plan.ranks == 1 && plan.devices_per_rank == 0 && in.stored(Operand::a) && in.stored(Operand::b);
    if (!as_stored) plan.places.resize(in.product.products.size());
    plan.counts.flops = in.product.flops * in.flop_factor;
    plan.counts.whole_flops = in.product.whole_flops * in.flop_factor;
    plan.counts.products = static_cast<std::int64_t>(in.product.products.size());
    plan.counts.left_out_bound = in.product.left_out_bound;

    lay_out();
    place_sums();
    ready.assign(plan.sums.size(), -1);

    const auto ranks = static_cast<std::size_t>(plan.ranks);
    std::vector<std::vector<std::int32_t>> sums(ranks);
    {
        std::vector<std::int32_t> order(in.sums.size());
        std::iota(order.begin(), order.end(), 0);
        const auto& major = how.by_column ? in.col : in.row;
        const auto& minor = how.by_column ? in.row : in.col;
        const auto less = [&](std::int32_t x, std::int32_t y) {
            const auto cx = in.sums[x].c, cy = in.sums[y].c;
            if (major[cx] != major[cy]) return major[cx] < major[cy];
            if (minor[cx] != minor[cy]) return minor[cx] < minor[cy];
            return in.sums[x].index < in.sums[y].index;
        };
        if (!std::is_sorted(order.begin(), order.end(), less)) std::sort(order.begin(), order.end(), less);
        if (ranks == 1)
            sums[0] = std::move(order);
        else
            for (auto i : order) sums[how.rank_of[i]].push_back(i);
    }
    std::vector<std::unique_ptr<Worker>> workers;
    std::optional<BudgetError> refused;  // by the rank that needs the most
    for (int k = 0; k < plan.ranks; ++k) try {
            workers.push_back(plan.devices_per_rank > 0 ? device_worker(*this, k, std::move(sums[k]))
                                                        : host_worker(*this, k, std::move(sums[k])));
        } catch (const BudgetError& e) {
            if (!refused || e.smallest_bytes() > refused->smallest_bytes()) refused.emplace(e);
        }
    if (refused) throw *refused;
    messages_.resize(ranks);
    received_.resize(ranks);
    needs_.resize(ranks);
    need_bytes_.resize(ranks);
    for (int k = 0; k < plan.ranks; ++k) find_needs(k, *workers[k]);
    open_streams(workers);
    check_memory(workers);
    for (int k = 0; k < plan.ranks; ++k)
        if (streams_.empty() || !streams_[k]) pack_messages(k);
    emit_messages();
    emit_work(workers);
    emit_closing();
    count();
    if (spent_)
        plan.products = std::move(spent_->product.products);
    else
        plan.products = in.product.products;
    return std::move(plan);
}

Plan write_plan(const Inspection& in, const Assignment& assignment, DeviceCut* cut) {
    return PlanWriter(in, assignment, cut).write();
}

Plan write_last_plan(Inspection& in, const Assignment& assignment, DeviceCut* cut) {
    return PlanWriter(in, assignment, cut, &in).write();
}

}  // namespace tessera
