// The cores of one rank: result tiles in order, grouped into steps that threads take in turn. An operand that is made
// on demand comes in stages: each tile once, dropped when its column (B) or row (A) is done.

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <ranges>

#include "inspect/host_turns.hpp"

namespace tessera {

namespace {

// Where memory does not decide:
constexpr std::int64_t kStageBytes = 128LL << 20;   // made tiles of one stage
constexpr std::int64_t kWindowBytes = 128LL << 20;  // partial sums of one window
constexpr std::int64_t kTurnBytes = 256LL << 20;    // that come for one turn
constexpr std::int64_t kTurnsInRing = 4;            // one at hand, others on their way

/// Sums that need the same tiles of the streamed operand: a column of C where B streams, a row where A does.
struct Group {
    std::size_t begin, end;           // in the order of sums
    std::vector<std::int32_t> tiles;  // streamed tiles, ascending in k
    std::vector<std::int32_t> k;      // their places along k
};

/// Groups whose partial sums are in memory at the same time; a later window uses their places anew.
struct Window {
    std::size_t end;                  // in the order of sums
    std::vector<std::int32_t> tiles;  // of the result, whose sums the worker joins
    std::int32_t joined = -1;         // the step after which the places are free
};

class HostWorker final : public Worker {
  public:
    HostWorker(PlanWriter& w, int rank, std::vector<std::int32_t> sums)
        : w_(w), in_(w.in), rank_(rank), order_(std::move(sums)), by_column_(w.how.by_column) {
        made_[0] = !in_.stored(Operand::a);
        made_[1] = !in_.stored(Operand::b);
        // With both operands made on demand the one with more to make streams, in the order it asks for.
        if (made_[0] && made_[1]) {
            const auto total = [&](Operand o) {
                std::int64_t bytes = 0;
                for (auto b : in_.bytes(o)) bytes += b;
                return bytes;
            };
            streamed_ = total(Operand::a) > total(Operand::b) ? Operand::a : Operand::b;
        } else {
            streamed_ = made_[0] ? Operand::a : Operand::b;
        }
        if (streams()) {
            by_column_ = streamed_ == Operand::b;
            const auto& key = by_column_ ? in_.col : in_.row;
            std::stable_sort(order_.begin(), order_.end(),
                             [&](auto x, auto y) { return key[in_.sums[x].c] < key[in_.sums[y].c]; });
            std::vector<bool> resident(made_[0] && made_[1] ? in_.bytes(other()).size() : 0);
            for (auto i : order_)
                for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) {
                    largest_ = std::max(largest_, in_.bytes(streamed_)[in_.tile_of(streamed_, p)]);
                    if (resident.empty()) continue;
                    const auto t = in_.tile_of(other(), p);
                    if (!resident[t]) resident_bytes_ += in_.bytes(other())[t];
                    resident[t] = true;
                }
        }
        for (std::size_t begin = 0, end = 0; in_.product.segments > 1 && begin < order_.size(); begin = end) {
            std::int64_t bytes = 0;
            for (end = begin; end < order_.size() && key_of(end) == key_of(begin); ++end) bytes += partial_bytes(end);
            least_partial_ = std::max(least_partial_, bytes);
        }
    }

    std::vector<std::pair<Operand, std::int32_t>> needs() const override {
        std::vector<std::pair<Operand, std::int32_t>> out;
        if (in_.machine.ranks == 1) return out;
        std::vector<bool> seen[2];
        for (const auto o : {Operand::a, Operand::b}) seen[static_cast<int>(o)].resize(in_.bytes(o).size());
        for (auto i : order_)
            for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p)
                for (const auto o : {Operand::a, Operand::b}) {
                    if (made_[static_cast<int>(o)]) continue;
                    const auto t = in_.tile_of(o, p);
                    if (seen[static_cast<int>(o)][t]) continue;
                    seen[static_cast<int>(o)][t] = true;
                    out.emplace_back(o, t);
                }
        return out;
    }

    std::int64_t least_host_bytes() const override { return resident_bytes_ + largest_ + least_partial_; }
    std::int64_t more_host_bytes() const override {
        return (streams() ? 3 * kStageBytes : 0) + (least_partial_ > 0 ? 3 * kWindowBytes : 0);
    }
    std::int64_t least_ring_bytes() const override;

    void prepare(std::int64_t ring) override {
        through_ring_ = ring;
        place();
        cut_sums();
        w_.plan.chains.reserve(w_.plan.chains.size() + order_.size());
        ready_.assign(stages_.size(), -1);
        done_.assign(stages_.size(), -1);
    }
    std::size_t turns() const override { return std::max<std::size_t>(1, stages_.size()); }
    std::vector<RingUse> uses(std::size_t turn) const override {
        return stages_.empty() ? std::vector<RingUse>{} : stages_[turn].uses;
    }
    std::int32_t emit(std::size_t turn) override;
    void finish() override {
        flush_finishes(0);
        for (auto& window : windows_) join_window(window);
    }

  private:
    bool streams() const { return made_[0] || made_[1]; }
    Operand other() const { return streamed_ == Operand::a ? Operand::b : Operand::a; }
    /// Row or column of C: sums in the order that have the same one are a group.
    std::int32_t key_of(std::size_t i) const { return (by_column_ ? in_.col : in_.row)[in_.sums[order_[i]].c]; }
    std::int64_t partial_bytes(std::size_t i) const {
        const auto& s = in_.sums[order_[i]];
        return s.index > 0 && w_.joined_by_worker(s.c) ? in_.bytes(Operand::c)[s.c] : 0;
    }

    void place();
    void place_partials();
    void join_window(Window& window);
    Group group_from(std::size_t begin) const;
    void fill_stages(std::int64_t capacity);
    void fill_turns();
    std::vector<std::int32_t> groups() const {
        return panels(order_.size(), [&](std::size_t i) { return key_of(i) == key_of(i - 1); });
    }
    Passing passing(const std::vector<std::int32_t>& panel_of) const { return {w_, rank_, order_, panel_of}; }
    void cut_sums();
    void make(std::size_t stage);
    std::int32_t emit_makes(Operand o, const std::vector<StageTile>& tiles, std::int64_t base, std::int32_t after);
    void emit_computes(const Stage& stage, const std::vector<std::int32_t>& after);
    void set_places(std::int64_t first, std::int64_t last, std::vector<std::int32_t>& after);
    void flush_finishes(std::size_t keep);

    PlanWriter& w_;
    const Inspection& in_;
    int rank_;
    std::vector<std::int32_t> order_;
    bool by_column_;  // how the order goes
    bool made_[2] = {false, false};
    Operand streamed_ = Operand::b;
    std::int64_t largest_ = 0, resident_bytes_ = 0, least_partial_ = 0;
    std::vector<Window> windows_;
    std::size_t window_ = 0, sets_ = 1;  // the window at hand; how many are in memory
    std::vector<StageTile> resident_;
    std::vector<Stage> stages_;
    int buffers_ = 0;
    std::int64_t ring_ = 0, stage_bytes_ = 0;  // where the stages' buffers begin, and how large each is
    std::vector<std::int32_t> made_at_[2];     // arrival of a made tile
    std::vector<std::int64_t> done_to_;        // per place in order_: products given to chains so far
    std::vector<std::uint16_t> parts_;         // likewise
    std::vector<std::int32_t> computes_;       // steps of the stage at hand
    std::deque<std::pair<std::int32_t, std::vector<std::int32_t>>> to_finish_;  // sum, its steps
    std::map<std::int32_t, std::vector<std::int32_t>> begun_;  // sums that a later stage goes on with: a step per part
    double grain_ = 0;
    std::int32_t resident_step_ = -1;
    std::vector<std::int32_t> ready_, done_;  // per stage: the steps behind which its tiles are made, its sums added to
    std::int64_t through_ring_ = -1;          // bytes of the ring for tiles of other ranks; -1: all of them stay
};

void HostWorker::place() {
    auto& arena = w_.arena[rank_];
    for (int o = 0; o < 2; ++o)
        if (made_[o]) made_at_[o].assign(in_.bytes(static_cast<Operand>(o)).size(), -1);
    if (made_[0] && made_[1]) {
        std::vector<bool> used(in_.bytes(other()).size());
        for (auto i : order_)
            for (auto p = in_.sums[i].first; p < in_.sums[i].last; ++p) used[in_.tile_of(other(), p)] = true;
        for (std::size_t t = 0; t < used.size(); ++t)
            if (used[t]) {
                resident_.push_back({static_cast<std::int32_t>(t), arena, in_.bytes(other())[t]});
                arena += in_.bytes(other())[t];
            }
    }
    place_partials();
    if (!streams()) {
        if (through_ring_ >= 0)
            fill_turns();
        else
            stages_.push_back({{{0, order_.size(), INT32_MAX}}, {}, {}});
        return;
    }
    const std::int64_t room = w_.host_limit() - w_.fixed[rank_] - arena;
    buffers_ = room / 3 >= largest_ ? 3 : room / 2 >= largest_ ? 2 : 1;
    fill_stages(std::max(largest_, std::min(room / buffers_, kStageBytes)));
    buffers_ = std::max(1, std::min(buffers_, static_cast<int>(stages_.size())));
    for (const auto& s : stages_)
        if (!s.tiles.empty()) stage_bytes_ = std::max(stage_bytes_, s.tiles.back().offset + s.tiles.back().bytes);
    ring_ = arena;
    arena += buffers_ * stage_bytes_;
    w_.plan.stages = std::max(w_.plan.stages, static_cast<int>(stages_.size()));
    w_.plan.buffers = std::max(w_.plan.buffers, buffers_);
}

/// Three windows where there is room: one at hand, one whose last parts other threads have, one that is joined.
void HostWorker::place_partials() {
    if (least_partial_ == 0) return;
    auto& arena = w_.arena[rank_];
    const std::int64_t room = w_.host_limit() - w_.fixed[rank_] - arena - largest_;
    const std::int64_t most = std::clamp<std::int64_t>(room / least_partial_, 1, 3);
    const std::int64_t capacity =
        most < 3 ? least_partial_ : std::max(least_partial_, std::min(kWindowBytes, room / 6));
    std::vector<std::int64_t> offset(order_.size());
    std::int64_t filled = 0, largest = 0;
    for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
        std::int64_t bytes = 0;
        for (end = begin; end < order_.size() && key_of(end) == key_of(begin); ++end) {
            offset[end] = bytes;
            bytes += partial_bytes(end);
        }
        if (windows_.empty() || filled + bytes > capacity) {
            windows_.push_back({});
            filled = 0;
        }
        auto& window = windows_.back();
        window.end = end;
        for (auto i = begin; i < end; ++i) {
            offset[i] += filled;
            const auto& s = in_.sums[order_[i]];
            if (s.index == 0 && w_.joined_by_worker(s.c)) window.tiles.push_back(s.c);
        }
        filled += bytes;
        largest = std::max(largest, filled);
    }
    sets_ = std::min(static_cast<std::size_t>(most), windows_.size());
    std::size_t w = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
        while (i >= windows_[w].end) ++w;
        if (partial_bytes(i) == 0) continue;
        w_.plan.sums[order_[i]].offset = arena + static_cast<std::int64_t>(w % sets_) * largest + offset[i];
    }
    arena += static_cast<std::int64_t>(sets_) * largest;
}

void HostWorker::join_window(Window& window) {
    if (window.joined >= 0) return;
    flush_finishes(0);
    std::vector<std::int32_t> steps;
    for (const auto c : window.tiles) {
        const auto first = in_.first_sum[c], sums = in_.first_sum[c + 1] - first;
        std::vector<PlanMove> moves;
        fixed_tree(static_cast<std::size_t>(sums), [&](std::size_t to, std::size_t from) {
            moves.push_back({first + static_cast<std::int32_t>(from), first + static_cast<std::int32_t>(to)});
        });
        steps.push_back(w_.add_merge(rank_, moves));
        w_.add_finish(first, steps.back());
    }
    window.joined = w_.add_step(StepKind::join, rank_, -1, -1, 0, 0, std::move(steps));
}

Group HostWorker::group_from(std::size_t begin) const {
    Group g{begin, begin, {}, {}};
    std::vector<std::pair<std::int32_t, std::int32_t>> seen;  // place along k, tile
    for (; g.end < order_.size() && key_of(g.end) == key_of(begin); ++g.end) {
        const auto& s = in_.sums[order_[g.end]];
        for (auto p = s.first; p < s.last; ++p) seen.emplace_back(in_.product.k(p), in_.tile_of(streamed_, p));
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    for (const auto& [k, tile] : seen) {
        g.k.push_back(k);
        g.tiles.push_back(tile);
    }
    return g;
}

/// Groups in order, each whole where it fits a stage, cut along k where it does not. So it is with what the ring takes
/// of the other operand's tiles that other ranks store.
void HostWorker::fill_stages(std::int64_t capacity) {
    const auto& bytes = in_.bytes(streamed_);
    const auto needs = passing(through_ring_ < 0 ? std::vector<std::int32_t>{} : groups());
    const auto most = through_ring_ < 0 ? INT64_MAX : std::max(needs.largest_slice(), through_ring_ / kTurnsInRing);
    Stage stage;
    std::int64_t filled = 0, passes = 0;
    std::int32_t stamp = 1;
    std::vector<std::int32_t> seen(through_ring_ < 0 ? 0 : in_.bytes(other()).size(), 0);
    const auto close = [&] {
        if (!stage.pieces.empty()) stages_.push_back(std::move(stage));
        stage = Stage{};
        filled = passes = 0;
        ++stamp;
    };
    // What a range of slices adds to the stage; takes it in, or only counts it.
    const auto pass = [&](std::span<const Passing::Need> some, bool take) {
        std::int64_t sum = 0;
        for (const auto& n : some) {
            if (seen[n.slot] == stamp) continue;
            sum += n.bytes;
            if (!take) continue;
            seen[n.slot] = stamp;
            stage.uses.push_back({n.operand, n.slot, n.bytes});
        }
        if (take) passes += sum;
        return sum;
    };
    std::int32_t number = 0;
    for (std::size_t begin = 0; begin < order_.size(); ++number) {
        const Group g = group_from(begin);
        std::int64_t all = 0;
        for (auto t : g.tiles) all += bytes[t];
        if (filled + all > capacity || passes + pass(needs.of(number), false) > most) close();
        for (std::size_t i = 0; i < g.tiles.size(); ++i) {
            const auto b = bytes[g.tiles[i]];
            const auto slice = needs.of(number, g.k[i]);
            if (filled + b > capacity || passes + pass(slice, false) > most) {
                stage.pieces.push_back({g.begin, g.end, g.k[i]});
                close();
            }
            pass(slice, true);
            stage.tiles.push_back({g.tiles[i], filled, b});
            filled += b;
        }
        stage.pieces.push_back({g.begin, g.end, INT32_MAX});
        begin = g.end;
    }
    close();
}

std::int64_t HostWorker::least_ring_bytes() const {
    if (streams() || least_partial_ > 0) return passing(groups()).largest_slice();
    const auto place = [&](std::size_t i) {
        const auto c = in_.sums[order_[i]].c;
        return std::pair(in_.row[c], in_.col[c]);
    };
    return passing(panels(order_.size(), [&](std::size_t i) { return place(i) == place(i - 1); })).largest_slice();
}

/// Panels of the result in turn, each along k: a turn is a range of k whose tiles of other ranks come together.
void HostWorker::fill_turns() {
    const auto half = through_ring_ / 2;
    std::vector<std::int32_t> panel_of;
    if (windows_.empty()) {
        panel_of = cut_into_patches(w_, rank_, order_, half);
    } else {
        std::vector<std::size_t> ends;
        for (const auto& window : windows_) ends.push_back(window.end);
        panel_of = join_groups(w_, passing(groups()), groups(), ends, half);
    }
    const auto needs = passing(panel_of);
    const auto most = std::max(needs.largest_slice(), std::min(through_ring_ / kTurnsInRing, kTurnBytes));
    stages_ = turns_along_k(needs, panel_of, most);
}

/// A sum whose work is a large part of one thread's is cut into parts that several threads take.
void HostWorker::cut_sums() {
    parts_.assign(order_.size(), 1);
    done_to_.resize(order_.size());
    double all = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
        done_to_[i] = in_.sums[order_[i]].first;
        all += in_.sums[order_[i]].flops;
    }
    const int threads = in_.machine.threads_per_rank;
    grain_ = std::max(2e6, all / (128.0 * threads));
    if (threads == 1) return;
    const double a_thread = all / threads;
    const auto& c = in_.product.c;
    for (std::size_t i = 0; i < order_.size(); ++i) {
        const auto& s = in_.sums[order_[i]];
        if (s.flops < 1e7) continue;
        // Each part packs B anew, so parts stay wide, unless so few sums have the work that threads would idle.
        const double side = std::sqrt(static_cast<double>(c.grid().tile_elements(c.tile(s.c))));
        const double wide = std::min(std::ceil(64 * s.flops / a_thread), side / 256);
        const double narrow = std::min(std::ceil(2 * s.flops / a_thread), side / 48);
        parts_[i] = static_cast<std::uint16_t>(std::clamp(std::max(wide, narrow), 1.0, 65535.0));
    }
}

std::int32_t HostWorker::emit_makes(Operand o, const std::vector<StageTile>& tiles, std::int64_t base,
                                    std::int32_t after) {
    std::vector<std::int32_t> makes;
    auto& n = w_.plan.rank_counts[rank_];
    for (const auto& t : tiles) {
        const auto i = w_.add_arrival(o, t.slot, base + t.offset, t.bytes);
        made_at_[static_cast<int>(o)][t.slot] = i;
        makes.push_back(w_.add_step(StepKind::make, rank_, -1, -1, i, i + 1, {after}));
        ++n.made_tiles;
        n.made_bytes += t.bytes;
    }
    return makes.empty() ? after : w_.add_step(StepKind::join, rank_, -1, -1, 0, 0, std::move(makes));
}

void HostWorker::make(std::size_t s) {
    if (s >= stages_.size() || buffers_ == 0) return;
    // The buffer is free once the stage that had it is done.
    const auto buffers = static_cast<std::size_t>(buffers_);
    ready_[s] = emit_makes(streamed_, stages_[s].tiles, ring_ + static_cast<std::int64_t>(s % buffers) * stage_bytes_,
                           s >= buffers ? done_[s - buffers] : -1);
}

std::int32_t HostWorker::emit(std::size_t s) {
    const bool ahead = buffers_ > 1;
    if (s == 0) {
        resident_step_ = emit_makes(other(), resident_, 0, -1);
        if (ahead) make(0);
    }
    if (s >= stages_.size()) return -1;
    make(ahead ? s + 1 : s);
    emit_computes(stages_[s], {resident_step_, ready_[s]});
    // With a ring a stage is over when those before are, too.
    if (through_ring_ >= 0 && s > 0) computes_.push_back(done_[s - 1]);
    if (buffers_ > 0 || through_ring_ >= 0) done_[s] = w_.add_step(StepKind::join, rank_, -1, -1, 0, 0, computes_);
    return done_[s];
}

/// Late by a few steps, so that no thread waits for the parts that others still have in hand.
void HostWorker::flush_finishes(std::size_t keep) {
    for (; to_finish_.size() > keep; to_finish_.pop_front()) {
        auto& [sum, steps] = to_finish_.front();
        const auto last = steps.size() == 1 ? steps[0] : w_.add_step(StepKind::join, rank_, -1, -1, 0, 0, steps);
        w_.ready[sum] = last;
        if (w_.finished_by_worker(sum)) w_.add_finish(sum, last);
    }
}

/// Where the tiles of these products are; what must have come before.
void HostWorker::set_places(std::int64_t first, std::int64_t last, std::vector<std::int32_t>& after) {
    if (!streams() && in_.machine.ranks == 1) return;  // all where they are stored
    for (auto p = first; p < last; ++p) {
        const auto& product = in_.product.products[p];
        auto& at = w_.plan.places[p];
        at.a = made_[0] ? made_at_[0][product.a] : w_.at(Operand::a, product.a);
        at.b = made_[1] ? made_at_[1][product.b] : w_.at(Operand::b, product.b);
        if (!made_[0] && at.a >= 0) after.push_back(w_.step_of_arrival[at.a]);
        if (!made_[1] && at.b >= 0) after.push_back(w_.step_of_arrival[at.b]);
    }
}

void HostWorker::emit_computes(const Stage& stage, const std::vector<std::int32_t>& after) {
    auto& chains = w_.plan.chains;
    computes_.clear();
    auto first_chain = chains.size();
    double flops = 0;
    std::vector<std::int32_t> received, open, cut;  // what the open step waits for; its sums, whole and not
    const auto step_of = [&](std::size_t begin, std::size_t end, std::int32_t part_before = -1) {
        auto all = after;
        all.push_back(part_before);
        all.insert(all.end(), received.begin(), received.end());
        if (window_ >= sets_ && !windows_.empty()) all.push_back(windows_[window_ - sets_].joined);
        const auto step = w_.add_step(StepKind::compute, rank_, -1, -1, static_cast<std::int64_t>(begin),
                                      static_cast<std::int64_t>(end), std::move(all));
        computes_.push_back(step);
        return step;
    };
    const auto close = [&] {
        if (chains.size() > first_chain) {
            const auto step = step_of(first_chain, chains.size());
            for (auto s : open) w_.ready[s] = step;
            for (auto s : cut) begun_[s] = {step};
        }
        open.clear();
        cut.clear();
        received.clear();
        first_chain = chains.size();
        flops = 0;
        flush_finishes(4 * static_cast<std::size_t>(in_.machine.threads_per_rank));
    };
    for (const auto& piece : stage.pieces)
        for (auto i = piece.begin; i < piece.end; ++i) {
            const auto sum = order_[i];
            const auto& s = in_.sums[sum];
            if (!windows_.empty() && i >= windows_[window_].end) {
                close();
                const std::size_t late = sets_ == 3 ? 1 : 0;  // no thread waits for parts that others have in hand
                if (window_ >= late) join_window(windows_[window_ - late]);
                ++window_;
            }
            const auto first = done_to_[i];
            auto last = s.last;
            if (piece.k_end != INT32_MAX)
                last = *std::ranges::partition_point(std::views::iota(first, s.last),
                                                     [&](std::int64_t p) { return in_.product.k(p) < piece.k_end; });
            if (first == last && !(s.first == s.last && piece.k_end == INT32_MAX)) continue;
            done_to_[i] = last;
            const bool complete = last == s.last, shared = parts_[i] > 1;
            if (shared) close();  // each part is a step of its own, so that threads share the tile
            set_places(first, last, received);
            std::vector<std::int32_t> steps, before;
            if (const auto it = begun_.find(sum); it != begun_.end()) {
                before = std::move(it->second);
                begun_.erase(it);
                if (!shared) received.push_back(before[0]);
            }
            for (int part = 0; part < parts_[i]; ++part) {
                PlanChain chain;
                chain.sum = sum;
                chain.first_product = first;
                chain.products = static_cast<std::int32_t>(last - first);
                chain.part = static_cast<std::uint16_t>(part);
                chain.parts = parts_[i];
                chain.starts = first == s.first;
                chain.finishes = complete && !shared && w_.finished_by_worker(sum);
                chains.push_back(chain);
                if (shared)
                    steps.push_back(step_of(chains.size() - 1, chains.size(), before.empty() ? -1 : before[part]));
            }
            if (shared) {
                if (complete)
                    to_finish_.emplace_back(sum, std::move(steps));
                else
                    begun_[sum] = std::move(steps);
                first_chain = chains.size();
                received.clear();
                continue;
            }
            (complete ? open : cut).push_back(sum);
            const double all = static_cast<double>(std::max<std::int64_t>(1, s.last - s.first));
            if ((flops += s.flops * static_cast<double>(last - first) / all) >= grain_) close();
        }
    close();
}

}  // namespace

std::unique_ptr<Worker> host_worker(PlanWriter& writer, int rank, std::vector<std::int32_t> sums) {
    return std::make_unique<HostWorker>(writer, rank, std::move(sums));
}

}  // namespace tessera
