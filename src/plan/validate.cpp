#include <algorithm>
#include <numeric>

#include "base/check.hpp"
#include "base/units.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

namespace {

/// Which steps are surely over before a step starts. Asked of the few pairs that share memory or a result tile.
class Order {
  public:
    explicit Order(const Plan& plan) : plan_(plan), seen_(plan.steps.size(), -1) {}

    bool before(std::int32_t earlier, std::int32_t later) {
        if (earlier >= later) return false;
        // Search backwards from `later`; step numbers only fall along dependencies.
        ++stamp_;
        stack_.assign(1, later);
        while (!stack_.empty()) {
            const auto& s = plan_.steps[stack_.back()];
            stack_.pop_back();
            for (std::int64_t d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d) {
                const auto from = plan_.dependencies[d];
                if (from == earlier) return true;
                if (from < earlier || seen_[from] == stamp_) continue;
                seen_[from] = stamp_;
                stack_.push_back(from);
            }
        }
        return false;
    }

  private:
    const Plan& plan_;
    std::vector<std::int64_t> seen_;
    std::vector<std::int32_t> stack_;
    std::int64_t stamp_ = -1;
};

struct Reader {
    const Plan& plan;
    Order order{plan};
    std::vector<std::int32_t> step_of_chain{}, step_of_make{}, step_of_finish{};

    void steps() {
        step_of_chain.assign(plan.chains.size(), -1);
        step_of_make.assign(plan.made_tiles.size(), -1);
        step_of_finish.assign(plan.finish_tiles.size(), -1);
        for (std::size_t i = 0; i < plan.steps.size(); ++i) {
            const auto& s = plan.steps[i];
            const auto number = static_cast<std::int32_t>(i);
            ensure(s.first_dependency >= 0 && s.dependencies >= 0 &&
                       s.first_dependency + s.dependencies <= static_cast<std::int64_t>(plan.dependencies.size()),
                   "step {}: dependencies out of range", i);
            for (std::int64_t d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
                ensure(plan.dependencies[d] >= 0 && plan.dependencies[d] < number, "step {} waits for step {}", i,
                       plan.dependencies[d]);
            auto* owner = s.kind == StepKind::make      ? &step_of_make
                          : s.kind == StepKind::compute ? &step_of_chain
                          : s.kind == StepKind::finish  ? &step_of_finish
                                                        : nullptr;
            if (!owner) continue;
            ensure(s.begin >= 0 && s.begin <= s.end && s.end <= static_cast<std::int64_t>(owner->size()),
                   "step {}: range {}..{} of {}", i, s.begin, s.end, owner->size());
            for (auto k = s.begin; k < s.end; ++k) {
                ensure((*owner)[k] < 0, "steps {} and {} do the same", (*owner)[k], i);
                (*owner)[k] = number;
            }
        }
        for (const auto* owner : {&step_of_chain, &step_of_make, &step_of_finish})
            for (std::size_t k = 0; k < owner->size(); ++k) ensure((*owner)[k] >= 0, "item {} is in no step", k);
    }

    /// Every part of a result tile sees all of the tile's products once, in order, and is finished once.
    void chains() {
        struct Part {
            std::int64_t next = -1;  // product that must come next
            std::int32_t step = -1;  // of the chain before
            std::int32_t partial = -1;
        };
        const auto tiles = static_cast<std::size_t>(plan.c.tile_count());
        std::vector<std::vector<Part>> parts(tiles);
        std::vector<int> finished(tiles, 0);
        std::vector<std::int32_t> last_step(tiles, -1);
        std::vector<std::int64_t> covered(tiles, 0);
        std::vector<std::int32_t> partial_owner(plan.partials.size(), -1);
        for (std::size_t i = 0; i < plan.chains.size(); ++i) {
            const auto& ch = plan.chains[i];
            ensure(ch.c >= 0 && ch.c < plan.c.tile_count(), "chain {}: result tile {}", i, ch.c);
            ensure(ch.parts >= 1 && ch.part < ch.parts, "chain {}: part {} of {}", i, ch.part, ch.parts);
            ensure(ch.first_product >= 0 && ch.products >= 0 &&
                       ch.first_product + ch.products <= static_cast<std::int64_t>(plan.products.size()),
                   "chain {}: products out of range", i);
            ensure(ch.partial >= -1 && ch.partial < static_cast<std::int32_t>(plan.partials.size()),
                   "chain {}: partial {}", i, ch.partial);
            ensure(ch.partial < 0 || plan.partials[ch.partial].c == ch.c, "chain {}: partial of another tile", i);
            auto& all = parts[ch.c];
            if (all.empty()) all.resize(ch.parts);
            ensure(all.size() == ch.parts, "result tile {} is cut into {} and {} parts", ch.c, all.size(), ch.parts);
            auto& part = all[ch.part];
            ensure(part.next < 0 || part.next == ch.first_product, "result tile {}: product {} follows {}", ch.c,
                   ch.first_product, part.next);
            const bool goes_on = part.step >= 0 && !ch.starts;
            ensure(!goes_on || part.partial == ch.partial, "chain {} goes on in another partial", i);
            ensure(part.step >= 0 || ch.starts, "chain {} goes on with a sum that never started", i);
            if (goes_on)
                ensure(part.step == step_of_chain[i] || order.before(part.step, step_of_chain[i]),
                       "chain {} does not wait for the one before it", i);
            part.next = ch.first_product + ch.products;
            part.step = step_of_chain[i];
            part.partial = ch.partial;
            covered[ch.c] += ch.products;
            last_step[ch.c] = std::max(last_step[ch.c], step_of_chain[i]);
            finished[ch.c] += ch.finishes;
            ensure(!ch.finishes || (ch.parts == 1 && ch.partial < 0), "chain {} finishes a shared tile", i);
        }
        std::int64_t all = 0;
        for (std::size_t c = 0; c < tiles; ++c) {
            ensure(!parts[c].empty(), "result tile {} is never worked on", c);
            ensure(covered[c] % static_cast<std::int64_t>(parts[c].size()) == 0, "result tile {}: parts differ", c);
            for (const auto& p : parts[c])
                ensure(p.next == parts[c][0].next, "result tile {}: parts end at products {} and {}", c, p.next,
                       parts[c][0].next);
            all += covered[c] / static_cast<std::int64_t>(parts[c].size());
        }
        ensure(all == static_cast<std::int64_t>(plan.products.size()), "{} of {} products are done", all,
               plan.products.size());
        for (std::size_t f = 0; f < plan.finish_tiles.size(); ++f) ++finished[plan.finish_tiles[f]];
        for (std::size_t c = 0; c < tiles; ++c)
            ensure(finished[c] == 1, "result tile {} is finished {} times", c, finished[c]);
        std::vector<std::int32_t> finish_step(tiles, -1);
        for (std::size_t f = 0; f < plan.finish_tiles.size(); ++f)
            finish_step[plan.finish_tiles[f]] = step_of_finish[f];
        for (std::size_t i = 0; i < plan.chains.size(); ++i)
            if (const auto f = finish_step[plan.chains[i].c]; f >= 0)
                ensure(order.before(step_of_chain[i], f), "step {} finishes a tile before step {} is done", f,
                       step_of_chain[i]);
    }

    /// Made tiles: each once, there before use, and never overwritten while in use.
    void made() {
        const auto slots = [&](Operand o) { return o == Operand::a ? plan.a.tile_count() : plan.b.tile_count(); };
        std::vector<std::int32_t> made_at[2];
        std::vector<std::vector<std::int32_t>> users(plan.made_tiles.size());
        for (int o = 0; o < 2; ++o) made_at[o].assign(static_cast<std::size_t>(slots(static_cast<Operand>(o))), -1);
        for (std::size_t m = 0; m < plan.made_tiles.size(); ++m) {
            const auto& t = plan.made_tiles[m];
            ensure(t.operand != Operand::c && t.slot >= 0 && t.slot < slots(t.operand), "made tile {}: slot {}", m,
                   t.slot);
            ensure(t.offset >= 0 && t.offset % kTileAlignment == 0 && t.offset + t.bytes <= plan.counts.arena_bytes,
                   "made tile {} at {} + {} of an arena of {}", m, t.offset, t.bytes, plan.counts.arena_bytes);
            auto& at = made_at[static_cast<int>(t.operand)][t.slot];
            ensure(at < 0, "tile {} is made twice", t.slot);
            at = static_cast<std::int32_t>(m);
        }
        const auto uses = [&](Operand o, std::int32_t slot, std::int32_t step) {
            if ((o == Operand::a ? plan.source_a : plan.source_b) == SourceKind::stored) return;
            const auto m = made_at[static_cast<int>(o)][slot];
            ensure(m >= 0, "tile {} is used but never made", slot);
            if (users[m].empty() || users[m].back() != step) users[m].push_back(step);
        };
        for (std::size_t i = 0; i < plan.chains.size(); ++i)
            for (auto p = plan.chains[i].first_product; p < plan.chains[i].first_product + plan.chains[i].products;
                 ++p) {
                uses(Operand::a, plan.products[p].a, step_of_chain[i]);
                uses(Operand::b, plan.products[p].b, step_of_chain[i]);
            }
        for (std::size_t m = 0; m < users.size(); ++m) {
            std::sort(users[m].begin(), users[m].end());
            users[m].erase(std::unique(users[m].begin(), users[m].end()), users[m].end());
            ensure(!users[m].empty(), "tile {} is made but never used", plan.made_tiles[m].slot);
            for (auto u : users[m])
                ensure(order.before(step_of_make[m], u), "step {} does not wait for made tile {}", u, m);
        }
        // Neighbours in the arena by offset, in order of making: whoever overlaps must wait for all users of the other.
        std::vector<std::size_t> by_offset(plan.made_tiles.size());
        std::iota(by_offset.begin(), by_offset.end(), 0);
        std::sort(by_offset.begin(), by_offset.end(),
                  [&](auto x, auto y) { return plan.made_tiles[x].offset < plan.made_tiles[y].offset; });
        for (std::size_t i = 0; i < by_offset.size(); ++i)
            for (std::size_t j = i + 1; j < by_offset.size(); ++j) {
                const auto &x = plan.made_tiles[by_offset[i]], &y = plan.made_tiles[by_offset[j]];
                if (y.offset >= x.offset + x.bytes) break;
                const auto early = std::min(by_offset[i], by_offset[j]), late = std::max(by_offset[i], by_offset[j]);
                for (auto u : users[early])
                    ensure(order.before(u, step_of_make[late]),
                           "made tile {} overwrites tile {} before step {} has used it", late, early, u);
            }
        for (const auto& p : plan.partials)
            ensure(p.offset >= 0 && p.offset < plan.counts.arena_bytes, "partial at {} of an arena of {}", p.offset,
                   plan.counts.arena_bytes);
    }
};

}  // namespace

void validate(const Plan& plan, std::int64_t budget_bytes) {
    Reader reader{plan};
    reader.steps();
    reader.chains();
    reader.made();
    const auto& n = plan.counts;
    ensure(static_cast<std::int64_t>(plan.skipped.size()) == (plan.filter > 0 ? plan.c.tile_count() : 0),
           "{} norms of skipped products for {} result tiles", plan.skipped.size(), plan.c.tile_count());
    ensure(n.peak_host_bytes >= n.bytes_a + n.bytes_b + n.bytes_c + n.arena_bytes, "peak bytes are miscounted");
    ensure(budget_bytes <= 0 || n.peak_host_bytes <= budget_bytes, "the plan takes {} of a budget of {}",
           format_bytes(n.peak_host_bytes), format_bytes(budget_bytes));
}

}  // namespace tessera
