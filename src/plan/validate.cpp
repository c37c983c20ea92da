#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/units.hpp"
#include "plan/plan_facts.hpp"
#include "plan/step_order.hpp"
#include "plan/summation.hpp"
#include "tessera/index/contraction_spec.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

namespace {

/// A piece of an arena from its first writer to its last reader.
struct Life {
    std::int64_t offset = 0, bytes = 0;
    std::vector<std::int32_t> births, users;  // steps
};

class Validator {
  public:
    Validator(const Plan& plan, const PlanBudget& budget)
        : plan_(plan), facts_(plan), budget_(budget), summation_(plan), order_(plan) {}

    void run() {
        steps();
        order_.index();
        messages();
        arrivals();
        chains();
        uses();
        sums();
        memory();
        check_counts(facts_, budget_);
    }

  private:
    bool stored(Operand o) const { return facts_.stored(o); }
    const Shape& shape(Operand o) const { return facts_.shape(o); }
    int owner(Operand o, std::int32_t slot) const { return facts_.owner(o, slot); }
    std::int64_t host_bytes(Operand o, std::int32_t slot) const { return facts_.host_bytes(o, slot); }
    const PlanStep& step(std::int32_t i) const { return plan_.steps[i]; }
    std::size_t memory_of(int rank, int device) const {
        return static_cast<std::size_t>(rank) * static_cast<std::size_t>(plan_.devices_per_rank + 1) +
               static_cast<std::size_t>(device + 1);
    }
    std::size_t memory_of(const PlanStep& s) const { return memory_of(s.rank, s.device); }
    /// As which slot a tile comes into the memory of a step: hosts have what is stored, devices tiles as they are seen.
    std::int32_t slot_in(const PlanStep& s, Operand o, std::int32_t slot) const {
        return s.device < 0 ? plan_.place(o, slot) : slot;
    }
    static bool is_transfer_in(StepKind k) {
        return k == StepKind::make || k == StepKind::receive || k == StepKind::load || k == StepKind::copy;
    }
    void steps() {
        arrival_step_.assign(plan_.arrivals.size(), -1);
        chain_step_.assign(plan_.chains.size(), -1);
        move_step_.assign(plan_.moves.size(), -1);
        finish_step_.assign(plan_.finish_sums.size(), -1);
        std::int64_t listed = 0;
        for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
            const auto& s = plan_.steps[i];
            const auto number = static_cast<std::int32_t>(i);
            ensure(s.rank >= 0 && s.rank < plan_.ranks && s.device >= -1 && s.device < plan_.devices_per_rank,
                   "step {}: rank {}, device {}", i, s.rank, s.device);
            ensure(s.first_dependency >= 0 && s.dependencies >= 0 &&
                       s.first_dependency + s.dependencies <= static_cast<std::int64_t>(plan_.dependencies.size()),
                   "step {}: dependencies out of range", i);
            ensure(s.dependencies == 0 || s.first_dependency >= listed, "step {}: shares its dependencies", i);
            if (s.dependencies > 0) listed = s.first_dependency + s.dependencies;
            for (std::int64_t d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d) {
                const auto from = plan_.dependencies[d];
                ensure(from >= 0 && from < number, "step {} waits for step {}", i, from);
                ensure(plan_.steps[from].rank == s.rank, "step {} waits for a step of another rank", i);
            }
            std::vector<std::int32_t>* of = nullptr;
            std::size_t size = 0;
            switch (s.kind) {
                case StepKind::make:
                case StepKind::receive:
                case StepKind::load:
                case StepKind::copy:
                    of = &arrival_step_;
                    break;
                case StepKind::compute:
                    of = &chain_step_;
                    break;
                case StepKind::store:
                case StepKind::receive_sums:
                case StepKind::merge:
                    of = &move_step_;
                    break;
                case StepKind::finish:
                    of = &finish_step_;
                    break;
                case StepKind::send:
                case StepKind::evict:
                    size = plan_.arrivals.size();
                    break;
                case StepKind::send_sums:
                    size = plan_.moves.size();
                    break;
                case StepKind::join:
                    continue;
            }
            if (of) size = of->size();
            ensure(s.begin >= 0 && s.begin <= s.end && s.end <= static_cast<std::int64_t>(size),
                   "step {}: range {}..{} of {}", i, s.begin, s.end, size);
            if (!of) continue;
            for (auto k = s.begin; k < s.end; ++k) {
                ensure((*of)[k] < 0, "steps {} and {} do the same", (*of)[k], i);
                (*of)[k] = number;
            }
        }
        for (const auto* of : {&arrival_step_, &chain_step_, &move_step_, &finish_step_})
            for (std::size_t k = 0; k < of->size(); ++k) ensure((*of)[k] >= 0, "item {} is in no step", k);
    }

    /// Every receive has its send, earlier in the plan, with the same items and ranks.
    void messages() {
        std::map<std::pair<bool, std::int64_t>, std::int32_t> sends;
        std::size_t receives = 0;
        for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
            const auto& s = plan_.steps[i];
            const bool sums = s.kind == StepKind::send_sums || s.kind == StepKind::receive_sums;
            if (s.kind == StepKind::send || s.kind == StepKind::send_sums) {
                ensure(s.peer >= 0 && s.peer < plan_.ranks && s.peer != s.rank, "step {} sends to rank {}", i, s.peer);
                ensure(sends.emplace(std::pair{sums, s.begin}, static_cast<std::int32_t>(i)).second,
                       "step {} sends what another sends", i);
            } else if (s.kind == StepKind::receive || s.kind == StepKind::receive_sums) {
                const auto it = sends.find({sums, s.begin});
                ensure(it != sends.end(), "step {} receives what nobody sends", i);
                const auto& from = step(it->second);
                ensure(from.end == s.end && from.rank == s.peer && from.peer == s.rank,
                       "step {} receives {}..{} from rank {}, step {} sends {}..{} from rank {} to {}", i, s.begin,
                       s.end, s.peer, it->second, from.begin, from.end, from.rank, from.peer);
                // A send may be over only when its receive has begun: what that waits for must not come behind the
                // send.
                for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
                    ensure(plan_.dependencies[d] < it->second,
                           "step {} receives only after step {}, its send is step {}", i, plan_.dependencies[d],
                           it->second);
                ++receives;
            }
        }
        ensure(receives == sends.size(), "{} messages are sent, {} received", sends.size(), receives);
    }

    /// Tiles come from where they are; made ones at most once per rank.
    void arrivals() {
        std::set<std::tuple<int, int, std::int32_t>> made;
        arrival_users_.resize(plan_.arrivals.size());
        for (std::size_t i = 0; i < plan_.arrivals.size(); ++i) {
            const auto& t = plan_.arrivals[i];
            const auto number = arrival_step_[i];
            const auto& s = step(number);
            ensure(t.operand != Operand::c && t.slot >= 0 && t.slot < shape(t.operand).tile_count(),
                   "arrival {}: slot {}", i, t.slot);
            const auto bytes = s.device < 0 ? host_bytes(t.operand, t.slot) : facts_.device_bytes(t.operand, t.slot);
            ensure(t.bytes == bytes, "arrival {}: {} bytes for a tile of {}", i, t.bytes, bytes);
            switch (s.kind) {
                case StepKind::make:
                    ensure(!stored(t.operand), "step {} makes a stored tile", number);
                    ensure(made.emplace(s.rank, static_cast<int>(t.operand), t.slot).second,
                           "tile {} is made twice on rank {}", t.slot, s.rank);
                    break;
                case StepKind::receive:
                    ensure(stored(t.operand) && owner(t.operand, t.slot) == s.peer &&
                               plan_.place(t.operand, t.slot) == t.slot,
                           "step {}: rank {} does not have tile {}", number, s.peer, t.slot);
                    ensure(s.device < 0, "step {} receives into a device", number);
                    break;
                default: {  // load, copy
                    ensure(s.device >= 0, "step {} loads into the host", number);
                    const int home = plan_.home(t.operand, t.slot);
                    if (t.from < 0 && home >= 0) {
                        ensure(s.kind == StepKind::copy && home == s.peer && stored(t.operand),
                               "step {}: tile {} is stored on device {}", number, t.slot, home);
                        break;
                    }
                    if (t.from < 0) {
                        ensure(s.kind == StepKind::load && stored(t.operand) && owner(t.operand, t.slot) == s.rank,
                               "step {}: tile {} is not stored on rank {}", number, t.slot, s.rank);
                        break;
                    }
                    ensure(t.from < static_cast<std::int32_t>(i), "arrival {} from arrival {}", i, t.from);
                    const auto& from = plan_.arrivals[t.from];
                    const auto& fs = step(arrival_step_[t.from]);
                    ensure(from.operand == t.operand && from.slot == slot_in(fs, t.operand, t.slot),
                           "arrival {} is of another tile", t.from);
                    ensure(fs.rank == s.rank && fs.device == (s.kind == StepKind::load ? -1 : s.peer),
                           "step {}: arrival {} is elsewhere", number, t.from);
                    ensure(order_.before(arrival_step_[t.from], number), "step {} does not wait for arrival {}", number,
                           t.from);
                    arrival_users_[t.from].push_back(number);
                }
            }
        }
    }

    /// Every sum sees consecutive products in order, each product is done once, with its tiles at hand.
    void chains() {
        struct Part {
            std::int64_t first = -1, next = -1;
            std::int32_t step = -1;
        };
        std::vector<std::vector<Part>> parts(plan_.sums.size());
        sum_writers_.resize(plan_.sums.size());
        sum_births_.resize(plan_.sums.size());
        ensure(plan_.places.empty() || plan_.places.size() == plan_.products.size(), "places of {} of {} products",
               plan_.places.size(), plan_.products.size());
        std::vector<std::uint8_t> done(plan_.products.size());
        std::vector<std::pair<int, std::int32_t>> finished_in_chain;
        for (std::size_t i = 0; i < plan_.chains.size(); ++i) {
            const auto& ch = plan_.chains[i];
            const auto number = chain_step_[i];
            const auto& s = step(number);
            ensure(ch.sum >= 0 && ch.sum < static_cast<std::int32_t>(plan_.sums.size()), "chain {}: sum {}", i, ch.sum);
            const auto& sum = plan_.sums[ch.sum];
            ensure(sum.rank == s.rank && sum.device == s.device, "chain {}: its sum is elsewhere", i);
            ensure(sum.device < 0 || sum.offset >= 0 || ch.products == 0 || facts_.fits_in_place(Operand::c, sum.c),
                   "chain {}: result tile {} is not stored as it is summed", i, sum.c);
            ensure(sum.offset >= 0 || sum.device == plan_.home(Operand::c, sum.c),
                   "chain {}: its result tile is elsewhere", i);
            ensure(ch.parts >= 1 && ch.part < ch.parts, "chain {}: part {} of {}", i, ch.part, ch.parts);
            ensure(ch.first_product >= 0 && ch.products >= 0 &&
                       ch.first_product + ch.products <= static_cast<std::int64_t>(plan_.products.size()),
                   "chain {}: products out of range", i);
            auto& all = parts[ch.sum];
            if (all.empty()) all.resize(ch.parts);
            ensure(all.size() == ch.parts, "sum {} is cut into {} and {} parts", ch.sum, all.size(), ch.parts);
            auto& part = all[ch.part];
            ensure(part.next < 0 || part.next == ch.first_product, "sum {}: product {} follows {}", ch.sum,
                   ch.first_product, part.next);
            ensure(ch.starts == (part.step < 0), "chain {} {} its sum", i, ch.starts ? "starts anew" : "never started");
            if (!ch.starts)
                ensure(part.step == number || order_.before(part.step, number),
                       "chain {} does not wait for the one before it", i);
            else
                sum_births_[ch.sum].push_back(number);
            if (part.first < 0) part.first = ch.first_product;
            part.next = ch.first_product + ch.products;
            part.step = number;
            sum_writers_[ch.sum].push_back(number);
            if (ch.finishes) {
                ensure(ch.parts == 1, "chain {} finishes a shared tile", i);
                finished_in_chain.emplace_back(number, ch.sum);
            }
            for (auto p = ch.first_product; p < part.next; ++p) {
                const auto& product = plan_.products[p];
                const auto at = plan_.places_of(p);
                use(Operand::a, product.a, at.a, number);
                use(Operand::b, product.b, at.b, number);
                if (ch.part == 0) {
                    ensure(!done[p], "product {} is done twice", p);
                    done[p] = 1;
                }
            }
            check_coordinates(facts_.view().labels, ch);
        }
        for (std::size_t i = 0; i < parts.size(); ++i)
            for (const auto& p : parts[i])
                ensure(p.first == parts[i][0].first && p.next == parts[i][0].next,
                       "sum {}: its parts see different products", i);
        for (std::size_t p = 0; p < done.size(); ++p) ensure(done[p], "product {} is never done", p);
        values_.assign(plan_.sums.size(), 0);
        for (std::size_t i = 0; i < parts.size(); ++i)
            if (!parts[i].empty())
                values_[i] = summation_.segment(plan_.sums[i].c, parts[i][0].first, parts[i][0].next);
        finished_.assign(static_cast<std::size_t>(plan_.c.tile_count()), 0);
        for (const auto& [number, sum] : finished_in_chain) {
            ++finished_[plan_.sums[sum].c];
            check_result(sum);
            ensure(sum_writers_[sum].back() == number, "sum {} is written after it is finished", sum);
        }
    }

    void use(Operand o, std::int32_t slot, std::int32_t at, std::int32_t number) {
        const auto& s = step(number);
        if (at < 0 && s.device >= 0) {
            ensure(stored(o) && plan_.home(o, slot) == s.device && facts_.fits_in_place(o, slot),
                   "step {}: tile {} is not stored on device {} as it is used", number, slot, s.device);
            return;
        }
        if (at < 0) {
            ensure(plan_.home(o, slot) < 0 && stored(o) && owner(o, slot) == s.rank,
                   "step {}: tile {} is not stored on rank {}", number, slot, s.rank);
            return;
        }
        const auto& t = plan_.arrivals[at];
        const auto& from = step(arrival_step_[at]);
        ensure(t.operand == o && t.slot == slot_in(from, o, slot), "step {}: arrival {} is of another tile", number,
               at);
        ensure(from.rank == s.rank && from.device == s.device, "step {}: arrival {} is elsewhere", number, at);
        auto& users = arrival_users_[at];
        if (!users.empty() && users.back() == number) return;
        ensure(order_.before(arrival_step_[at], number), "step {} does not wait for arrival {}", number, at);
        users.push_back(number);
    }

    /// Every tile that comes is used, and none after it is given up.
    void uses() {
        for (std::size_t i = 0; i < plan_.arrivals.size(); ++i)
            ensure(!arrival_users_[i].empty(), "arrival {}: nobody uses the tile", i);
        std::vector<std::uint8_t> evicted(plan_.arrivals.size());
        for (std::size_t n = 0; n < plan_.steps.size(); ++n) {
            const auto& s = plan_.steps[n];
            if (s.kind != StepKind::evict) continue;
            for (auto i = s.begin; i < s.end; ++i) {
                ensure(memory_of(step(arrival_step_[i])) == memory_of(s), "step {} evicts from elsewhere", n);
                ensure(!std::exchange(evicted[i], 1), "arrival {} is evicted twice", i);
                for (auto u : arrival_users_[i])
                    ensure(order_.before(u, static_cast<std::int32_t>(n)), "step {} evicts what step {} uses", n, u);
            }
        }
    }

    /// A and B's tiles belong to this result tile and to each other: every label has one coordinate.
    void check_coordinates(const PerOperand<std::string>& labels, const PlanChain& ch) {
        const auto at_c = plan_.c.grid().coordinates(plan_.c.tile(plan_.sums[ch.sum].c));
        std::int64_t at[128];
        for (auto p = ch.first_product; p < ch.first_product + ch.products; ++p) {
            const auto at_a = plan_.a.grid().coordinates(plan_.a.tile(plan_.products[p].a));
            const auto at_b = plan_.b.grid().coordinates(plan_.b.tile(plan_.products[p].b));
            for (int d = 0; d < at_a.size(); ++d)
                at[static_cast<unsigned char>(labels.a[static_cast<std::size_t>(d)])] = at_a[d];
            for (int d = 0; d < at_b.size(); ++d) {
                const auto l = labels.b[static_cast<std::size_t>(d)];
                if (labels.a.find(l) != std::string::npos)
                    ensure(at[static_cast<unsigned char>(l)] == at_b[d], "product {}: tiles of A and B differ in '{}'",
                           p, l);
                at[static_cast<unsigned char>(l)] = at_b[d];
            }
            for (int d = 0; d < at_c.size(); ++d) {
                const auto l = labels.c[static_cast<std::size_t>(d)];
                ensure(at[static_cast<unsigned char>(l)] == at_c[d], "product {} does not belong to result tile {}", p,
                       plan_.sums[ch.sum].c);
            }
        }
    }

    /// The result tile itself, and the sum that it should be.
    void check_result(std::int32_t sum) const {
        const auto& s = plan_.sums[sum];
        ensure(values_[sum] == summation_.result(s.c), "result tile {} is not summed in the order of summation", s.c);
        ensure(s.offset < 0 && s.device == plan_.home(Operand::c, s.c) && s.rank == owner(Operand::c, s.c),
               "sum {} is finished away from its tile", sum);
    }

    /// Sums flow into the stored result tile: each is passed on once, after it is complete.
    void sums() {
        std::vector<int> passed(plan_.sums.size());
        sum_readers_.resize(plan_.sums.size());
        std::vector<std::int32_t> send_of(plan_.moves.size(), -1);
        for (std::size_t i = 0; i < plan_.steps.size(); ++i)
            if (const auto& s = plan_.steps[i]; s.kind == StepKind::send_sums)
                for (auto m = s.begin; m < s.end; ++m) send_of[m] = static_cast<std::int32_t>(i);
        // In order of the steps, so that a sum's writers are known when it is passed on.
        std::vector<std::size_t> order(plan_.moves.size());
        for (std::size_t m = 0; m < order.size(); ++m) order[m] = m;
        std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return move_step_[x] < move_step_[y]; });
        for (const auto m : order) {
            const auto [from, to] = plan_.moves[m];
            ensure(
                from >= 0 && to >= 0 && std::max(from, to) < static_cast<std::int32_t>(plan_.sums.size()) && from != to,
                "move {}: sums {} and {}", m, from, to);
            const auto &f = plan_.sums[from], &t = plan_.sums[to];
            const auto number = move_step_[m];
            const auto& s = step(number);
            ensure(f.c == t.c, "move {} joins different tiles", m);
            ensure(++passed[from] == 1, "sum {} is passed on twice", from);
            const bool stays = s.kind == StepKind::store && s.peer >= 0;
            const bool there = stays || s.kind == StepKind::merge;
            ensure(t.rank == s.rank && t.device == (there ? s.device : -1) &&
                       (!stays || (s.peer == s.device && t.offset < 0)),
                   "move {}: its target is elsewhere", m);
            const auto reader = s.kind == StepKind::receive_sums ? send_of[m] : number;
            if (s.kind == StepKind::store)
                ensure(f.device == s.device && f.rank == s.rank, "move {} stores from elsewhere", m);
            if (s.kind == StepKind::merge)
                ensure(f.device == s.device && f.rank == s.rank, "move {} merges from elsewhere", m);
            if (s.kind == StepKind::receive_sums)
                ensure(reader >= 0 && f.rank == s.peer && f.device < 0, "move {} receives from elsewhere", m);
            ensure(!sum_writers_[from].empty(), "sum {} is passed on but never written", from);
            for (auto w : sum_writers_[from])
                ensure(w == reader || order_.before(w, reader), "step {} passes on sum {} before step {} is done",
                       reader, from, w);
            sum_readers_[from].push_back(reader);
            if (s.kind == StepKind::merge) {
                ensure(!sum_writers_[to].empty(), "sum {} is added to but never written", to);
                for (auto w : sum_writers_[to])
                    ensure(w == number || order_.before(w, number), "step {} adds to sum {} before step {} is done",
                           number, to, w);
                values_[to] = Summation::joined(values_[to], values_[from]);
            } else {
                values_[to] = values_[from];
                ensure(sum_writers_[to].empty(), "sum {} is overwritten", to);
                sum_births_[to].push_back(number);
            }
            sum_writers_[to].push_back(number);
        }
        for (std::size_t f = 0; f < plan_.finish_sums.size(); ++f) {
            const auto sum = plan_.finish_sums[f];
            check_result(sum);
            ensure(step(finish_step_[f]).device == plan_.sums[sum].device, "step {} finishes sum {} from elsewhere",
                   finish_step_[f], sum);
            ++finished_[plan_.sums[sum].c];
            ensure(!sum_writers_[sum].empty(), "sum {} is finished but never written", sum);
            for (auto w : sum_writers_[sum])
                ensure(order_.before(w, finish_step_[f]), "step {} finishes a tile before step {} is done",
                       finish_step_[f], w);
            ensure(passed[sum] == 0, "sum {} is finished and passed on", sum);
        }
        for (std::size_t c = 0; c < finished_.size(); ++c)
            ensure(finished_[c] == 1, "result tile {} is finished {} times", c, finished_[c]);
        std::vector<int> ends(finished_.size());
        for (std::size_t i = 0; i < plan_.sums.size(); ++i)
            if (!sum_writers_[i].empty() && passed[i] == 0) ++ends[plan_.sums[i].c];
        for (std::size_t c = 0; c < ends.size(); ++c)
            ensure(ends[c] == 1, "result tile {} has {} sums at the end", c, ends[c]);
    }

    /// No byte of an arena is written while an earlier owner of it may still be read.
    void memory() {
        const auto memories =
            static_cast<std::size_t>(plan_.ranks) * static_cast<std::size_t>(plan_.devices_per_rank + 1);
        std::vector<std::vector<Life>> lives(memories);
        for (std::size_t i = 0; i < plan_.arrivals.size(); ++i) {
            const auto& t = plan_.arrivals[i];
            lives[memory_of(step(arrival_step_[i]))].push_back(
                {t.offset, t.bytes, {arrival_step_[i]}, arrival_users_[i]});
        }
        for (std::size_t i = 0; i < plan_.sums.size(); ++i) {
            const auto& s = plan_.sums[i];
            if (s.offset < 0 || sum_births_[i].empty()) continue;
            auto users = sum_readers_[i];
            users.insert(users.end(), sum_writers_[i].begin(), sum_writers_[i].end());
            lives[memory_of(s.rank, s.device)].push_back(
                {s.offset, s.device < 0 ? host_bytes(Operand::c, s.c) : facts_.device_bytes(Operand::c, s.c),
                 sum_births_[i], users});
        }
        for (int r = 0; r < plan_.ranks; ++r)
            for (int d = -1; d < plan_.devices_per_rank; ++d) {
                const auto limit =
                    d < 0 ? plan_.rank_counts[r].arena_bytes
                          : plan_.device_counts[static_cast<std::size_t>(r * plan_.devices_per_rank + d)].peak_bytes;
                check_lives(lives[memory_of(r, d)], limit, r, d);
            }
    }

    void check_lives(std::vector<Life>& lives, std::int64_t limit, int rank, int device) {
        std::stable_sort(lives.begin(), lives.end(), [](const Life& x, const Life& y) {
            return *std::min_element(x.births.begin(), x.births.end()) <
                   *std::min_element(y.births.begin(), y.births.end());
        });
        std::map<std::int64_t, std::pair<std::int64_t, const Life*>> held;  // begin -> end, who
        for (auto& life : lives) {
            if (life.bytes == 0) continue;
            // A user that comes before the next one is over when that one is.
            auto& users = life.users;
            std::sort(users.begin(), users.end());
            std::size_t kept = 0;
            for (std::size_t i = 0; i < users.size(); ++i)
                if (i + 1 == users.size() || (users[i] != users[i + 1] && !order_.before(users[i], users[i + 1])))
                    users[kept++] = users[i];
            users.resize(kept);
            ensure(life.offset >= 0 && life.offset + life.bytes <= limit,
                   "rank {} device {}: {} bytes at {} of an arena of {}", rank, device, life.bytes, life.offset, limit);
            ensure(life.offset % kTileAlignment == 0, "rank {} device {}: a tile at {}", rank, device, life.offset);
            const auto begin = life.offset, end = life.offset + life.bytes;
            auto it = held.upper_bound(begin);
            if (it != held.begin() && std::prev(it)->second.first > begin) --it;
            while (it != held.end() && it->first < end) {
                const auto [from, rest] = *it;
                const auto [to, who] = rest;
                for (const auto* list : {&who->births, &who->users})
                    for (auto u : *list)
                        for (auto b : life.births)
                            ensure(order_.before(u, b), "rank {} device {}: step {} writes over what step {} uses",
                                   rank, device, b, u);
                it = held.erase(it);
                if (from < begin) held.emplace(from, std::pair{begin, who});
                if (to > end) it = held.emplace(end, std::pair{to, who}).first;
            }
            held.emplace(begin, std::pair{end, &life});
        }
    }

    const Plan& plan_;
    const PlanFacts facts_;
    const PlanBudget& budget_;
    const Summation summation_;
    StepOrder order_;
    std::vector<Summation::Value> values_;  // per sum, as far as it is known
    std::vector<std::int32_t> arrival_step_, chain_step_, move_step_, finish_step_;
    std::vector<std::vector<std::int32_t>> arrival_users_;                           // per arrival: steps
    std::vector<std::vector<std::int32_t>> sum_births_, sum_writers_, sum_readers_;  // per sum: steps
    std::vector<int> finished_;                                                      // per result tile
};

}  // namespace

void validate(const Plan& plan, const PlanBudget& budget) { Validator(plan, budget).run(); }

}  // namespace tessera
