#include <algorithm>

#include "base/check.hpp"
#include "plan/plan_facts.hpp"

namespace tessera {

void check_counts(const PlanFacts& facts, const PlanBudget& budget) {
    const auto& plan = facts.plan();
    const ContractionSpec spec(plan.spec);
    std::vector<std::int64_t> sent(static_cast<std::size_t>(plan.ranks));
    std::vector<DeviceCounts> moved(plan.device_counts.size());
    for (const auto& s : plan.steps) {
        const auto device = static_cast<std::size_t>(s.rank * plan.devices_per_rank + s.device);
        for (auto i = s.begin; i < s.end; ++i) switch (s.kind) {
                case StepKind::send:
                    sent[s.rank] += facts.payload(plan.arrivals[i].operand, plan.arrivals[i].slot);
                    break;
                case StepKind::send_sums:
                    sent[s.rank] += facts.payload(Operand::c, plan.sums[plan.moves[i].from].c);
                    break;
                case StepKind::load:
                    moved[device].loaded_bytes += plan.arrivals[i].bytes;
                    break;
                case StepKind::copy:
                    moved[device].copied_bytes += plan.arrivals[i].bytes;
                    break;
                case StepKind::store:
                    moved[device].stored_bytes += facts.device_bytes(spec, plan.sums[plan.moves[i].from].c);
                    break;
                default:
                    break;
            }
    }
    std::vector<RankCounts> held(static_cast<std::size_t>(plan.ranks));
    for (const auto o : {Operand::a, Operand::b, Operand::c}) {
        if (o != Operand::c && !facts.stored(o)) continue;
        for (std::int32_t slot = 0; slot < static_cast<std::int32_t>(facts.shape(o).tile_count()); ++slot) {
            auto& n = held[facts.owner(o, slot)];
            (o == Operand::a ? n.stored_a : o == Operand::b ? n.stored_b : n.stored_c) += facts.host_bytes(o, slot);
        }
    }
    std::int64_t all_sent = 0, peak = 0;
    for (int r = 0; r < plan.ranks; ++r) {
        const auto& n = plan.rank_counts[r];
        const auto& h = held[r];
        ensure(h.stored_a == n.stored_a && h.stored_b == n.stored_b && h.stored_c == n.stored_c,
               "rank {} stores {}, {} and {} bytes of A, B and C, {}, {} and {} are counted", r, h.stored_a, h.stored_b,
               h.stored_c, n.stored_a, n.stored_b, n.stored_c);
        const auto least = h.stored_a + h.stored_b + h.stored_c + n.arena_bytes;
        ensure(n.peak_bytes >= least, "rank {}: a peak of {} bytes, {} are held", r, n.peak_bytes, least);
        all_sent += sent[r];
        peak = std::max(peak, n.peak_bytes);
        ensure(sent[r] == n.sent_bytes, "rank {} sends {} bytes, {} are counted", r, sent[r], n.sent_bytes);
        ensure(budget.host_bytes <= 0 || n.peak_bytes <= budget.host_bytes, "rank {}: {} of a budget of {}", r,
               n.peak_bytes, budget.host_bytes);
    }
    ensure(plan.counts.sent_bytes == all_sent && plan.counts.peak_host_bytes == peak,
           "{} bytes sent and a peak of {}, {} and {} are counted", all_sent, peak, plan.counts.sent_bytes,
           plan.counts.peak_host_bytes);
    for (std::size_t d = 0; d < moved.size(); ++d) {
        const auto& n = plan.device_counts[d];
        ensure(moved[d].stored_bytes == n.stored_bytes, "device {} stores {} bytes, {} are counted", d,
               moved[d].stored_bytes, n.stored_bytes);
        ensure(moved[d].loaded_bytes == n.loaded_bytes && moved[d].copied_bytes == n.copied_bytes,
               "device {} loads {} and copies {} bytes, {} and {} are counted", d, moved[d].loaded_bytes,
               moved[d].copied_bytes, n.loaded_bytes, n.copied_bytes);
        ensure(budget.device_bytes <= 0 || n.peak_bytes <= budget.device_bytes, "device {}: {} of a budget of {}", d,
               n.peak_bytes, budget.device_bytes);
    }
}

}  // namespace tessera
