#include "inspect/host_ring.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/check.hpp"

namespace tessera {

namespace {

constexpr std::size_t kMostSpared = 3;  // turns
constexpr std::int32_t kNever = INT32_MAX;

/// The turn in which each byte of the ring was last used by a tile that is gone.
class History {
  public:
    void set(std::int64_t begin, std::int64_t end, std::int32_t turn) {
        auto it = pieces_.lower_bound(begin);
        if (it != pieces_.begin())
            if (const auto before = std::prev(it); before->second.end > begin) {
                const auto old = before->second;
                before->second.end = begin;
                it = pieces_.emplace_hint(it, begin, old);
            }
        while (it != pieces_.end() && it->first < end) {
            const auto old = it->second;
            it = pieces_.erase(it);
            if (old.end > end) it = pieces_.emplace_hint(it, end, old);
        }
        pieces_.emplace_hint(it, begin, Piece{end, turn});
    }
    std::int32_t latest(std::int64_t begin, std::int64_t end) const {
        std::int32_t turn = -1;
        auto it = pieces_.upper_bound(begin);
        if (it != pieces_.begin() && std::prev(it)->second.end > begin) --it;
        for (; it != pieces_.end() && it->first < end; ++it) turn = std::max(turn, it->second.turn);
        return turn;
    }

  private:
    struct Piece {
        std::int64_t end;
        std::int32_t turn;
    };
    std::map<std::int64_t, Piece> pieces_;
};

/// What is free of the ring, in whole gaps.
class Gaps {
  public:
    explicit Gaps(std::int64_t bytes) { add(0, bytes); }
    /// The beginning of the smallest gap that is large enough; -1: none is.
    std::int64_t take(std::int64_t bytes) {
        const auto it = by_size_.lower_bound({bytes, 0});
        if (it == by_size_.end()) return -1;
        const auto [size, offset] = *it;
        by_size_.erase(it);
        size_at_.erase(offset);
        if (size > bytes) add(offset + bytes, size - bytes);
        return offset;
    }
    void give(std::int64_t offset, std::int64_t bytes) {
        auto next = size_at_.lower_bound(offset);
        if (next != size_at_.end() && next->first == offset + bytes) {
            bytes += next->second;
            by_size_.erase({next->second, next->first});
            next = size_at_.erase(next);
        }
        if (next != size_at_.begin())
            if (const auto before = std::prev(next); before->first + before->second == offset) {
                offset = before->first;
                bytes += before->second;
                by_size_.erase({before->second, before->first});
                size_at_.erase(before);
            }
        add(offset, bytes);
    }

  private:
    void add(std::int64_t offset, std::int64_t bytes) {
        if (bytes == 0) return;
        size_at_[offset] = bytes;
        by_size_.insert({bytes, offset});
    }
    std::map<std::int64_t, std::int64_t> size_at_;
    std::set<std::pair<std::int64_t, std::int64_t>> by_size_;
};

class RingPlanner {
  public:
    RingPlanner(const std::vector<std::vector<RingUse>>& turns, std::int64_t capacity)
        : turns_(turns), capacity_(capacity), gaps_(capacity) {}

    RingPlan plan() {
        number_tiles();
        out_.turns.resize(turns_.size());
        out_.lookahead = static_cast<int>(kMostSpared);
        for (std::size_t t = 0; t < turns_.size(); ++t) serve(static_cast<std::int32_t>(t));
        return std::move(out_);
    }

  private:
    struct Tile {
        std::int64_t bytes = 0, offset = -1;  // -1: not in the ring
        std::int32_t last = -1;               // the turn that used it last
        bool may_go = false;
        std::vector<std::int32_t> uses;  // turns
        std::size_t next = 0;            // of its uses
        std::int32_t next_use() const { return next < uses.size() ? uses[next] : kNever; }
    };

    void number_tiles() {
        std::unordered_map<std::int64_t, std::int32_t> known;
        tiles_of_.resize(turns_.size());
        for (std::size_t t = 0; t < turns_.size(); ++t)
            for (const auto& use : turns_[t]) {
                const auto key = 2 * static_cast<std::int64_t>(use.slot) + (use.operand == Operand::b);
                const auto [it, fresh] = known.try_emplace(key, static_cast<std::int32_t>(tiles_.size()));
                if (fresh) tiles_.push_back({use.bytes, -1, -1, false, {}, 0});
                auto& tile = tiles_[static_cast<std::size_t>(it->second)];
                ensure(tile.uses.empty() || tile.uses.back() < static_cast<std::int32_t>(t),
                       "turn {} uses a tile twice", t);
                tile.uses.push_back(static_cast<std::int32_t>(t));
                tiles_of_[t].push_back(it->second);
            }
    }

    Tile& tile(std::int32_t id) { return tiles_[static_cast<std::size_t>(id)]; }
    /// The one that is used again last goes first; of those that are never used again the oldest.
    static std::tuple<std::int32_t, std::int32_t, std::int32_t> rank_of(const Tile& t, std::int32_t id) {
        return {-t.next_use(), t.last, id};
    }

    void serve(std::int32_t t) {
        now_ = t;
        const auto& mine = tiles_of_[static_cast<std::size_t>(t)];
        std::int64_t bytes = 0;
        for (const auto id : mine) {
            bytes += tile(id).bytes;
            keep(id);
        }
        ensure(bytes <= capacity_, "turn {} uses {} bytes of a ring of {}", t, bytes, capacity_);
        while (!spared_.empty() && (spared_.size() > kMostSpared || spared_bytes_ + bytes > capacity_ / 4 * 3))
            stop_sparing();
        fresh_.assign(mine.size(), false);
        bool placed = true;
        for (std::size_t i = 0; i < mine.size() && placed; ++i) {
            auto& x = tile(mine[i]);
            if (x.offset >= 0) continue;
            fresh_[i] = placed = (x.offset = find_room(x.bytes)) >= 0;
        }
        if (!placed) lay_anew(mine);
        for (std::size_t i = 0; i < mine.size(); ++i) {
            auto& x = tile(mine[i]);
            const auto& use = turns_[static_cast<std::size_t>(t)][i];
            if (fresh_[i]) {
                const auto after = history_.latest(x.offset, x.offset + x.bytes);
                out_.turns[static_cast<std::size_t>(t)].push_back({use.operand, use.slot, x.offset, x.bytes, after});
                out_.bytes = std::max(out_.bytes, x.offset + x.bytes);
                if (after >= 0) out_.lookahead = std::min(out_.lookahead, t - 1 - after);
            }
            x.last = t;
            ++x.next;
        }
        spared_.push_back({t, bytes});
        spared_bytes_ += bytes;
    }

    /// Whole again: the turn's tiles one behind the other, those that were there come again.
    void lay_anew(const std::vector<std::int32_t>& mine) {
        while (!spared_.empty()) stop_sparing();
        while (!may_go_.empty()) evict(std::get<2>(*may_go_.begin()));
        for (std::size_t i = 0; i < mine.size(); ++i) {
            auto& x = tile(mine[i]);
            if (x.offset >= 0 && !fresh_[i]) history_.set(x.offset, x.offset + x.bytes, x.last);
        }
        gaps_ = Gaps(capacity_);
        for (std::size_t i = 0; i < mine.size(); ++i) {
            tile(mine[i]).offset = gaps_.take(tile(mine[i]).bytes);
            fresh_[i] = true;
        }
    }

    std::int64_t find_room(std::int64_t bytes) {
        while (true) {
            if (const auto offset = gaps_.take(bytes); offset >= 0) return offset;
            while (may_go_.empty() && !spared_.empty()) stop_sparing();
            if (may_go_.empty()) return -1;
            evict(std::get<2>(*may_go_.begin()));
        }
    }

    void evict(std::int32_t id) {
        keep(id);
        auto& x = tile(id);
        history_.set(x.offset, x.offset + x.bytes, x.last);
        gaps_.give(x.offset, x.bytes);
        x.offset = -1;
    }
    void keep(std::int32_t id) {
        auto& x = tile(id);
        if (x.may_go) may_go_.erase(rank_of(x, id));
        x.may_go = false;
    }
    /// From now on the tiles of the oldest spared turn may go, but for those that a later one used.
    void stop_sparing() {
        const auto [turn, bytes] = spared_.front();
        spared_.pop_front();
        spared_bytes_ -= bytes;
        for (const auto id : tiles_of_[static_cast<std::size_t>(turn)]) {
            auto& x = tile(id);
            if (x.last != turn || x.offset < 0 || x.next_use() == now_) continue;  // or the turn at hand uses
            x.may_go = true;
            may_go_.insert(rank_of(x, id));
        }
    }

    const std::vector<std::vector<RingUse>>& turns_;
    const std::int64_t capacity_;
    RingPlan out_;
    std::vector<Tile> tiles_;
    std::vector<std::vector<std::int32_t>> tiles_of_;  // per turn, as it lists them
    std::vector<bool> fresh_;                          // of the turn at hand: it comes for it
    History history_;
    Gaps gaps_;
    std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> may_go_;
    struct Spared {
        std::int32_t turn;
        std::int64_t bytes;
    };
    std::deque<Spared> spared_;
    std::int64_t spared_bytes_ = 0;
    std::int32_t now_ = 0;  // the turn at hand
};

}  // namespace

RingPlan plan_ring(const std::vector<std::vector<RingUse>>& turns, std::int64_t capacity) {
    return RingPlanner(turns, capacity).plan();
}

}  // namespace tessera
