#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.hpp"
#include "plan/plan_facts.hpp"

namespace tessera {

namespace {

/// What the steps do, added up.
struct Done {
    std::vector<RankCounts> ranks;
    std::vector<DeviceCounts> devices;
    std::int64_t whole_bytes = 0;
    PlanStreams streams = {};
};

void add_arrivals(const PlanFacts& facts, const PlanStep& s, Done& done) {
    const auto& plan = facts.plan();
    auto& rank = done.ranks[s.rank];
    auto* device =
        s.device >= 0 ? &done.devices[static_cast<std::size_t>(s.rank * plan.devices_per_rank + s.device)] : nullptr;
    for (auto i = s.begin; i < s.end; ++i) {
        const auto& t = plan.arrivals[i];
        if (s.kind == StepKind::make) {
            (device ? device->made_tiles : rank.made_tiles) += 1;
            (device ? device->made_bytes : rank.made_bytes) += t.bytes;
        } else {
            (s.kind == StepKind::load ? device->loaded_bytes : device->copied_bytes) += t.bytes;
            device->loaded(t.operand) += t.bytes;
        }
    }
}

Done what_is_done(const PlanFacts& facts) {
    const auto& plan = facts.plan();
    Done done{std::vector<RankCounts>(static_cast<std::size_t>(plan.ranks)),
              std::vector<DeviceCounts>(plan.device_counts.size())};
    const auto flops_a = facts.flops_a(), flops_b = facts.flops_b();
    std::vector<std::tuple<std::int32_t, Operand, std::int32_t>> came;  // from other ranks: rank, operand, slot
    for (const auto& s : plan.steps) {
        auto& rank = done.ranks[s.rank];
        switch (s.kind) {
            case StepKind::send:
            case StepKind::receive:
                for (auto i = s.begin; i < s.end; ++i) {
                    const auto& t = plan.arrivals[i];
                    const bool a = t.operand == Operand::a;
                    const auto bytes = facts.payload(t.operand, t.slot);
                    (s.kind == StepKind::send ? rank.sent_bytes : rank.received_bytes) += bytes;
                    if (s.kind == StepKind::send) (a ? done.streams.sent_a : done.streams.sent_b) += bytes;
                    if (s.kind == StepKind::receive) came.emplace_back(s.rank, t.operand, t.slot);
                }
                break;
            case StepKind::send_sums:
            case StepKind::receive_sums:
                for (auto i = s.begin; i < s.end; ++i)
                    (s.kind == StepKind::send_sums ? rank.sent_bytes : rank.received_bytes) +=
                        facts.payload(Operand::c, plan.sums[plan.moves[i].from].c);
                break;
            case StepKind::make:
            case StepKind::load:
            case StepKind::copy:
                add_arrivals(facts, s, done);
                break;
            case StepKind::store:
                for (auto i = s.begin; i < s.end; ++i) {
                    auto& d = done.devices[static_cast<std::size_t>(s.rank * plan.devices_per_rank + s.device)];
                    (s.peer < 0 ? d.stored_bytes : d.copied_bytes) +=
                        facts.device_bytes(Operand::c, plan.sums[plan.moves[i].from].c);
                }
                break;
            case StepKind::compute:
                for (auto i = s.begin; i < s.end; ++i) {
                    const auto& chain = plan.chains[i];
                    if (chain.part != 0) continue;
                    double flops = 0;
                    for (auto p = chain.first_product; p < chain.first_product + chain.products; ++p)
                        flops += flops_a[plan.products[p].a] * flops_b[plan.products[p].b];
                    rank.flops += flops;
                    rank.products += chain.products;
                    if (s.device >= 0)
                        done.devices[static_cast<std::size_t>(s.rank * plan.devices_per_rank + s.device)].flops +=
                            flops;
                }
                break;
            default:
                break;
        }
    }
    std::ranges::sort(came);
    came.erase(std::unique(came.begin(), came.end()), came.end());
    for (const auto& [rank, o, slot] : came)
        (o == Operand::a ? done.streams.once_a : done.streams.once_b) += facts.payload(o, slot);
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        if (o != Operand::c && !facts.stored(o)) continue;
        const auto& shape = facts.shape(o);
        for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(shape.tile_count()); ++slot) {
            const auto bytes = facts.host_bytes(o, slot);
            done.whole_bytes +=
                o == Operand::c ? bytes * shape.symmetry().orbit(shape.grid(), shape.tile(slot)) : bytes;
            if (const int home = plan.home(o, slot); home >= 0)
                done.devices[static_cast<std::size_t>(facts.owner(o, slot) * plan.devices_per_rank + home)]
                    .kept_bytes += bytes;
            else if (plan.place(o, slot) == slot)
                done.ranks[facts.owner(o, slot)].stored(o) += bytes;
        }
    }
    return done;
}

bool same(double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); }

void check_budget(const Plan& plan, const PlanBudget& budget) {
    for (int r = 0; r < plan.ranks && budget.host_bytes > 0; ++r)
        ensure(plan.rank_counts[r].peak_bytes <= budget.host_bytes, "rank {}: {} of a budget of {}", r,
               plan.rank_counts[r].peak_bytes, budget.host_bytes);
    const auto limit = std::max<std::int64_t>(0, budget.device_bytes - device_reserve_bytes(budget.device_bytes));
    for (std::size_t d = 0; d < plan.device_counts.size() && budget.device_bytes > 0; ++d)
        ensure(plan.device_counts[d].peak_bytes + plan.device_counts[d].kept_bytes <= limit,
               "device {}: {} of a budget of {}, {} without its reserve", d,
               plan.device_counts[d].peak_bytes + plan.device_counts[d].kept_bytes, budget.device_bytes, limit);
}

/// What was found on a rank or a device against what the plan says of it.
struct Counted {
    const char* where;
    std::int64_t number;
    void operator()(const char* what, std::int64_t found, std::int64_t counted) const {
        ensure(found == counted, "{} {}: {} {}, {} are counted", where, number, found, what, counted);
    }
    void flops(double found, double counted) const {
        ensure(same(found, counted), "{} {}: {} flops, {} are counted", where, number, found, counted);
    }
};

}  // namespace

void check_counts(const PlanFacts& facts, const PlanBudget& budget) {
    const auto& plan = facts.plan();
    check_budget(plan, budget);
    check_budget(plan, plan.budget);
    const auto done = what_is_done(facts);
    PlanCounts all;
    all.whole_bytes = done.whole_bytes;
    for (int r = 0; r < plan.ranks; ++r) {
        const auto &n = plan.rank_counts[r], &h = done.ranks[r];
        const Counted equal{"rank", static_cast<std::int64_t>(r)};
        equal.flops(h.flops, n.flops);
        equal("products", h.products, n.products);
        equal("tiles made", h.made_tiles, n.made_tiles);
        equal("bytes made", h.made_bytes, n.made_bytes);
        equal("bytes sent", h.sent_bytes, n.sent_bytes);
        equal("bytes received", h.received_bytes, n.received_bytes);
        equal("bytes of A", h.stored_a, n.stored_a);
        equal("bytes of B", h.stored_b, n.stored_b);
        equal("bytes of C", h.stored_c, n.stored_c);
        equal("bytes at most", h.stored_a + h.stored_b + h.stored_c + plan.other_bytes + n.arena_bytes, n.peak_bytes);
        all.bytes_a += h.stored_a;
        all.bytes_b += h.stored_b;
        all.bytes_c += h.stored_c;
        all.sent_bytes += h.sent_bytes;
        all.made_tiles += h.made_tiles;
        all.made_bytes += h.made_bytes;
        all.arena_bytes = std::max(all.arena_bytes, n.arena_bytes);
        all.peak_host_bytes = std::max(all.peak_host_bytes, n.peak_bytes);
    }
    for (std::size_t d = 0; d < done.devices.size(); ++d) {
        const auto &n = plan.device_counts[d], &h = done.devices[d];
        const Counted equal{"device", static_cast<std::int64_t>(d)};
        equal.flops(h.flops, n.flops);
        equal("bytes loaded", h.loaded_bytes, n.loaded_bytes);
        equal("bytes copied", h.copied_bytes, n.copied_bytes);
        equal("bytes stored", h.stored_bytes, n.stored_bytes);
        equal("bytes of A that came", h.loaded_a, n.loaded_a);
        equal("bytes of B that came", h.loaded_b, n.loaded_b);
        equal("tiles made", h.made_tiles, n.made_tiles);
        equal("bytes made", h.made_bytes, n.made_bytes);
        equal("bytes kept", h.kept_bytes, n.kept_bytes);
        all.loaded_bytes += h.loaded_bytes;
        all.copied_bytes += h.copied_bytes;
        all.stored_bytes += h.stored_bytes;
        all.made_tiles += h.made_tiles;
        all.made_bytes += h.made_bytes;
        all.peak_device_bytes = std::max(all.peak_device_bytes, n.peak_bytes + n.kept_bytes);
    }
    for (const auto o : {Operand::a, Operand::b, Operand::c})
        for (std::size_t slot = 0; slot < plan.homes(o).size(); ++slot)
            if (plan.homes(o)[slot] >= 0)
                (o == Operand::a   ? all.bytes_a
                 : o == Operand::b ? all.bytes_b
                                   : all.bytes_c) += facts.host_bytes(o, static_cast<std::int32_t>(slot));
    // Found elsewhere: what follows from the shapes.
    all.flops = plan.counts.flops;
    all.whole_flops = plan.counts.whole_flops;
    all.products = plan.counts.products;
    all.left_out_bound = plan.counts.left_out_bound;
    const auto &found = done.streams, &said = plan.streams;
    ensure(found.sent_a == said.sent_a && found.sent_b == said.sent_b && found.once_a == said.once_a &&
               found.once_b == said.once_b,
           "{} and {} bytes of A and B are sent, {} and {} for the first time; {} and {}, {} and {} are counted",
           found.sent_a, found.sent_b, found.once_a, found.once_b, said.sent_a, said.sent_b, said.once_a, said.once_b);
    ensure(
        all == plan.counts,
        "the totals are not those of the ranks and devices: {} bytes sent, {} are counted; a peak of {}, {} is counted",
        all.sent_bytes, plan.counts.sent_bytes, all.peak_host_bytes, plan.counts.peak_host_bytes);
}

}  // namespace tessera
