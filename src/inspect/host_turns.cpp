#include "inspect/host_turns.hpp"

#include <algorithm>
#include <map>

namespace tessera {

Passing::Passing(const PlanWriter& w, int rank, const std::vector<std::int32_t>& order,
                 const std::vector<std::int32_t>& panel_of) {
    const auto& in = w.in;
    for (std::size_t i = 0; i < panel_of.size(); ++i) {
        const auto& s = in.sums[order[i]];
        for (auto p = s.first; p < s.last; ++p)
            for (const auto o : {Operand::a, Operand::b}) {
                if (!in.stored(o)) continue;
                const auto slot = in.place(o, in.tile_of(o, p));
                if (w.owner(o, slot) == rank) continue;
                needs_.push_back({panel_of[i], in.product.k(p), o, slot, in.bytes(o)[slot]});
            }
    }
    std::ranges::sort(needs_, {}, &Need::key);
    const auto same = [](const Need& x, const Need& y) { return x.key() == y.key(); };
    needs_.erase(std::unique(needs_.begin(), needs_.end(), same), needs_.end());
}

std::span<const Passing::Need> Passing::range(Place first, Place last) const {
    const auto at = [](const Need& n) { return Place(n.panel, n.k); };
    return {std::ranges::lower_bound(needs_, first, {}, at), std::ranges::upper_bound(needs_, last, {}, at)};
}

std::int64_t Passing::largest_slice(bool a, bool b) const {
    std::int64_t most = 0, bytes = 0;
    for (std::size_t i = 0; i < needs_.size(); ++i) {
        if (i > 0 && (needs_[i].panel != needs_[i - 1].panel || needs_[i].k != needs_[i - 1].k)) bytes = 0;
        if (needs_[i].operand == Operand::a ? a : b) bytes += needs_[i].bytes;
        most = std::max(most, bytes);
    }
    return most;
}

std::vector<std::int32_t> cut_into_patches(const PlanWriter& w, int rank, std::vector<std::int32_t>& order,
                                           std::int64_t most) {
    const auto& in = w.in;
    const auto numbers = [&](const std::vector<std::int32_t>& of_tile) {
        std::vector<std::int32_t> all;
        for (const auto i : order) all.push_back(of_tile[in.sums[i].c]);
        std::ranges::sort(all);
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    };
    const auto rows = numbers(in.row), cols = numbers(in.col);
    const auto usual = order;
    std::vector<std::int32_t> panel(in.sums.size()), panel_of(order.size());
    const auto part = [](const std::vector<std::int32_t>& all, std::int32_t number, std::size_t parts) {
        return static_cast<std::size_t>(std::ranges::lower_bound(all, number) - all.begin()) * parts / all.size();
    };
    for (std::size_t x = 1, y = 1;;) {
        for (const auto i : usual) {
            const auto c = in.sums[i].c;
            panel[i] = static_cast<std::int32_t>(part(rows, in.row[c], x) * y + part(cols, in.col[c], y));
        }
        order = usual;
        std::ranges::stable_sort(order, {}, [&](std::int32_t i) { return panel[i]; });
        for (std::size_t i = 0; i < order.size(); ++i) panel_of[i] = panel[order[i]];
        const Passing needs(w, rank, order, panel_of);
        if (needs.largest_slice() <= most || (x == rows.size() && y == cols.size())) return panel_of;
        // Rows are cut where tiles of A fill the ring, columns where those of B do.
        const bool more_a = needs.largest_slice(true, false) >= needs.largest_slice(false, true);
        if (y == cols.size() || (x < rows.size() && more_a))
            x = std::min(rows.size(), 2 * x);
        else
            y = std::min(cols.size(), 2 * y);
    }
}

std::vector<std::int32_t> join_groups(const PlanWriter& w, const Passing& needs, std::vector<std::int32_t> group_of,
                                      const std::vector<std::size_t>& ends, std::int64_t most) {
    std::map<std::int32_t, std::int64_t> slices;  // bytes by place along k
    PerOperand<std::vector<std::int32_t>> seen;   // by the panel
    for (const auto o : {Operand::a, Operand::b}) seen[o].assign(w.in.bytes(o).size(), -1);
    std::int32_t panel = -1;
    const auto add = [&](std::int32_t group) {
        bool fits = true;
        for (const auto& n : needs.of(group))
            if (std::exchange(seen[n.operand][n.slot], panel) != panel) fits = (slices[n.k] += n.bytes) <= most && fits;
        return fits;
    };
    auto next_end = ends.begin();
    bool anew = true;
    for (std::size_t begin = 0, end = 0; begin < group_of.size(); begin = end) {
        const auto group = group_of[begin];
        while (end < group_of.size() && group_of[end] == group) ++end;
        if (anew || !add(group)) {
            ++panel;
            slices.clear();
            add(group);
        }
        for (auto i = begin; i < end; ++i) group_of[i] = panel;
        anew = next_end != ends.end() && end >= *next_end;
        if (anew) ++next_end;
    }
    return group_of;
}

std::vector<Stage> turns_along_k(const Passing& needs, const std::vector<std::int32_t>& panel_of, std::int64_t most) {
    std::vector<Stage> out;
    for (std::size_t begin = 0, end = 0; begin < panel_of.size(); begin = end) {
        while (end < panel_of.size() && panel_of[end] == panel_of[begin]) ++end;
        Stage stage;
        std::int64_t filled = 0;
        const auto mine = needs.of(panel_of[begin]);
        for (std::size_t first = 0, last = 0; first < mine.size(); first = last) {
            std::int64_t slice = 0;
            while (last < mine.size() && mine[last].k == mine[first].k) slice += mine[last++].bytes;
            if (filled > 0 && filled + slice > most) {
                stage.pieces.push_back({begin, end, mine[first].k});
                out.push_back(std::exchange(stage, {}));
                filled = 0;
            }
            filled += slice;
            for (auto i = first; i < last; ++i) stage.uses.push_back({mine[i].operand, mine[i].slot, mine[i].bytes});
        }
        stage.pieces.push_back({begin, end, INT32_MAX});
        out.push_back(std::move(stage));
    }
    return out;
}

}  // namespace tessera
