#include "inspect/place_deal.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "inspect/label_table.hpp"

namespace tessera {

namespace {

double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

/// Seconds of one part (a rank, a device) at each of its units, which work at the same time.
struct Load {
    double work = 0, make = 0, load = 0, receive = 0;
    Load& operator+=(const Load& x) {
        work += x.work;
        make += x.make;
        load += x.load;
        receive += x.receive;
        return *this;
    }
    double sum() const { return work + make + load + receive; }
    /// Close to the busiest unit's, somewhat more where others are busy too.
    double seconds() const {
        const auto fourth = [](double x) { return x * x * x * x; };
        return std::sqrt(std::sqrt(fourth(work) + fourth(make) + fourth(load) + fourth(receive)));
    }
};

/// Rates of one part; 0 where it does not do such a thing.
struct Rates {
    double flops = 0, make = 0, load = 0, network = 0, tile_seconds = 0;

    Rates(const Inspection& in, bool rank) {
        const auto& m = in.machine;
        const int devices = rank ? m.devices_per_rank : 1;
        const auto source = in.source(Operand::b);
        flops = devices > 0 ? m.device.gemm.flops_per_second * devices : m.gemm.flops_per_second;
        if (source == SourceKind::device_made) make = m.device.make_bytes_per_second * devices;
        if (source == SourceKind::host_made) make = rank ? m.make_bytes_per_second : 0;
        load = m.host_to_device.bytes_per_second * devices;
        if (!rank) return;
        network = m.network.bytes_per_second / std::max(1, m.ranks_per_node);
        tile_seconds = m.network_tile_seconds;
    }
};

/// Where a column lies: the middles of its tiles, as parts of each index's extent. What it costs its part, and what
/// that weighs in the deal.
struct Column {
    std::vector<double> at;
    Load own;
    double weight = 0;
};

using Lists = std::vector<std::vector<std::int32_t>>;  // of sums

/// The columns of these sums. Each list is of parts that make or load tiles of B for themselves.
std::vector<Column> columns_of(const Inspection& in, const Lists& lists, const Rates& rates) {
    std::vector<Column> out(static_cast<std::size_t>(in.cols));
    const auto& grid = in.product.c.grid();
    for (std::int64_t c = 0; c < in.product.c.tile_count(); ++c) {
        auto& column = out[static_cast<std::size_t>(in.col[c])];
        if (!column.at.empty()) continue;
        const auto at = grid.coordinates(in.product.c.tile(c));
        for (int d = 0; d < grid.rank(); ++d) {
            if (in.view.part(Operand::c, d) != MatrixPart::column) continue;
            const auto& tiling = grid.tiling(d);
            column.at.push_back((static_cast<double>(tiling.begin(TileIndex{at[d]}).value) +
                                 static_cast<double>(tiling.size(TileIndex{at[d]})) / 2) /
                                static_cast<double>(tiling.extent()));
        }
    }
    // A tile of B belongs to one column.
    const bool loads = in.source(Operand::b) != SourceKind::device_made;
    const auto share = 1 / static_cast<double>(lists.size());
    std::vector<std::int32_t> seen(in.bytes(Operand::b).size(), -1);
    for (std::size_t list = 0; list < lists.size(); ++list)
        for (const auto i : lists[list]) {
            const auto& s = in.sums[static_cast<std::size_t>(i)];
            auto& own = out[static_cast<std::size_t>(in.col[s.c])].own;
            own.work += share * over(s.flops, rates.flops);
            for (auto q = s.first; q < s.last; ++q) {
                auto& stamp = seen[static_cast<std::size_t>(in.tile_of(Operand::b, q))];
                if (stamp == static_cast<std::int32_t>(list)) continue;
                stamp = static_cast<std::int32_t>(list);
                const auto bytes = share * static_cast<double>(in.bytes(Operand::b)[in.tile_of(Operand::b, q)]);
                own.make += over(bytes, rates.make);
                if (loads) own.load += over(bytes, rates.load);
            }
        }
    for (auto& column : out) column.weight = column.own.sum();
    return out;
}

/// Deals columns [begin, end) of the order to ranks [first, first + n).
void bisect(const std::vector<Column>& columns, std::vector<std::int32_t>& order, std::size_t begin, std::size_t end,
            int first, int n, std::vector<std::int32_t>& to) {
    if (n == 1 || end - begin <= 1) {
        for (auto i = begin; i < end; ++i) to[static_cast<std::size_t>(order[i])] = first;
        return;
    }
    const auto of = [&](std::size_t i) -> const Column& { return columns[static_cast<std::size_t>(order[i])]; };
    double all = 0;
    for (auto i = begin; i < end; ++i) all += of(i).weight;
    // The index along which they spread most, each column by its weight.
    std::size_t widest = 0;
    double most = -1;
    for (std::size_t d = 0; d < of(begin).at.size(); ++d) {
        double mean = 0, spread = 0;
        for (auto i = begin; i < end; ++i) mean += of(i).weight * of(i).at[d];
        mean = over(mean, all);
        for (auto i = begin; i < end; ++i) spread += of(i).weight * (of(i).at[d] - mean) * (of(i).at[d] - mean);
        if (spread > most) most = spread, widest = d;
    }
    if (!of(begin).at.empty())
        std::sort(order.begin() + static_cast<std::ptrdiff_t>(begin), order.begin() + static_cast<std::ptrdiff_t>(end),
                  [&](auto x, auto y) {
                      const auto &a = columns[static_cast<std::size_t>(x)].at,
                                 &b = columns[static_cast<std::size_t>(y)].at;
                      return a[widest] != b[widest] ? a[widest] < b[widest] : a != b ? a < b : x < y;
                  });
    const int left = n / 2;
    const double share = all * left / n;
    double sum = 0;
    auto cut = begin;
    while (cut + 1 < end && sum + of(cut).weight / 2 < share) sum += of(cut++).weight;
    cut = std::max(cut, begin + 1);
    bisect(columns, order, begin, cut, first, left, to);
    bisect(columns, order, cut, end, first + left, n - left, to);
}

/// Calls use(list, part, slot) once for each tile of A that sums of a list need whose columns are dealt to a part.
template <class Use>
void each_need_of_a(const Inspection& in, const Lists& lists, int parts, const std::vector<std::int32_t>& dealt,
                    Use&& use) {
    std::vector<std::int32_t> seen(in.bytes(Operand::a).size(), -1);
    std::int32_t stamp = 0;
    Lists of_part(static_cast<std::size_t>(parts));
    for (std::size_t list = 0; list < lists.size(); ++list) {
        for (auto& sums : of_part) sums.clear();
        for (const auto i : lists[list]) {
            const auto column = in.col[in.sums[static_cast<std::size_t>(i)].c];
            of_part[static_cast<std::size_t>(dealt[static_cast<std::size_t>(column)])].push_back(i);
        }
        for (int part = 0; part < parts; ++part, ++stamp)
            for (const auto i : of_part[static_cast<std::size_t>(part)]) {
                const auto& s = in.sums[static_cast<std::size_t>(i)];
                for (auto t = s.first; t < s.last; ++t) {
                    const auto a = static_cast<std::size_t>(in.tile_of(Operand::a, t));
                    if (std::exchange(seen[a], stamp) != stamp) use(list, part, a);
                }
            }
    }
}

/// Which part has each column. What tiles of A cost a part, and which of its units is busiest, is known once columns
/// are dealt: their weights are then changed so that equal weights are equal seconds, and they are dealt again.
std::vector<std::int32_t> deal_columns(const Inspection& in, const Lists& lists, int parts, const Rates& rates) {
    constexpr int kRounds = 8;
    auto columns = columns_of(in, lists, rates);
    std::vector<std::int32_t> order, dealt(columns.size()), best(columns.size());
    for (std::size_t c = 0; c < columns.size(); ++c)
        if (columns[c].weight > 0) order.push_back(static_cast<std::int32_t>(c));
    if (order.empty()) return best;
    const auto& bytes = in.bytes(Operand::a);
    const auto share = 1 / static_cast<double>(lists.size());
    double least = 0;
    for (int round = 0; round < kRounds; ++round) {
        bisect(columns, order, 0, order.size(), 0, parts, dealt);
        std::vector<Load> of(static_cast<std::size_t>(parts));
        std::vector<double> weight(of.size());
        each_need_of_a(in, lists, parts, dealt, [&](std::size_t, int part, std::size_t a) {
            const auto moved = static_cast<double>(bytes[a]);
            of[static_cast<std::size_t>(part)] +=
                {0, 0, share * over(moved, rates.load), share * (over(moved, rates.network) + rates.tile_seconds)};
        });
        for (const auto c : order) {
            const auto part = static_cast<std::size_t>(dealt[static_cast<std::size_t>(c)]);
            of[part] += columns[static_cast<std::size_t>(c)].own;
            weight[part] += columns[static_cast<std::size_t>(c)].own.sum();
        }
        double most = 0;
        for (const auto& x : of) most = std::max(most, x.seconds());
        if (round == 0 || most < least) least = most, best = dealt;
        for (const auto c : order) {
            auto& column = columns[static_cast<std::size_t>(c)];
            const auto part = static_cast<std::size_t>(dealt[static_cast<std::size_t>(c)]);
            column.weight = column.own.sum() * of[part].seconds() / weight[part];
        }
    }
    return best;
}

/// Each place along k with the grid column that needs most of its tiles of A; of those that need as much, with the one
/// that has least so far.
std::vector<std::int32_t> where_needed(const Inspection& in, const LabelTable& k, const Lists& lists, int q,
                                       const std::vector<std::int32_t>& dealt) {
    const auto& bytes = in.bytes(Operand::a);
    std::vector<std::int64_t> entry(bytes.size());
    std::vector<double> held(static_cast<std::size_t>(k.size())), need(static_cast<std::size_t>(k.size() * q));
    for (std::size_t a = 0; a < bytes.size(); ++a) {
        entry[a] = k.entry(in, Operand::a, static_cast<std::int64_t>(a));
        held[static_cast<std::size_t>(entry[a])] += static_cast<double>(bytes[a]);
    }
    each_need_of_a(in, lists, q, dealt, [&](std::size_t, int part, std::size_t a) {
        need[static_cast<std::size_t>(entry[a] * q + part)] += static_cast<double>(bytes[a]);
    });
    std::vector<std::int32_t> order(held.size()), to(held.size(), 0);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return held[x] > held[y]; });
    std::vector<double> has(static_cast<std::size_t>(q), 0);
    for (const auto e : order) {
        const auto first = need.begin() + static_cast<std::ptrdiff_t>(e) * q;
        const double enough = 0.9 * *std::max_element(first, first + q);
        int best = -1;
        for (int g = 0; g < q; ++g)
            if (first[g] >= enough && (best < 0 || has[g] < has[best])) best = g;
        to[static_cast<std::size_t>(e)] = best;
        has[best] += held[static_cast<std::size_t>(e)];
    }
    return to;
}

}  // namespace

std::optional<Assignment> place_deal(const Inspection& in, int p, int q, const std::vector<std::int32_t>& grid_row) {
    const LabelTable rows(in, in.view.batch + in.view.m), columns(in, in.view.n), k(in, in.view.k),
        batch_and_k(in, in.view.batch + in.view.k);
    for (const auto* t : {&rows, &columns, &k, &batch_and_k})
        if (!t->fits()) return std::nullopt;
    if (k.size() * q > LabelTable::kLongest) return std::nullopt;

    Lists lists(static_cast<std::size_t>(p));  // of grid rows
    for (std::size_t i = 0; i < in.sums.size(); ++i)
        lists[static_cast<std::size_t>(grid_row[in.row[in.sums[i].c]])].push_back(static_cast<std::int32_t>(i));
    const auto dealt = deal_columns(in, lists, q, Rates(in, true));
    Assignment out;
    out.grid_rows = p;
    out.grid_cols = q;
    out.rank_of.reserve(in.sums.size());
    for (const auto& s : in.sums) out.rank_of.push_back(grid_row[in.row[s.c]] * q + dealt[in.col[s.c]]);

    std::vector<std::int32_t> row_map(static_cast<std::size_t>(rows.size())),
        column_map(static_cast<std::size_t>(columns.size())), b_map(static_cast<std::size_t>(batch_and_k.size()));
    for (std::size_t e = 0; e < row_map.size(); ++e)
        row_map[e] = static_cast<std::int32_t>(e % static_cast<std::size_t>(p));
    for (std::size_t e = 0; e < column_map.size(); ++e)
        column_map[e] = static_cast<std::int32_t>(e % static_cast<std::size_t>(q));
    for (std::size_t e = 0; e < b_map.size(); ++e)
        b_map[e] = static_cast<std::int32_t>(e % static_cast<std::size_t>(p));
    for (std::int64_t c = 0; c < in.product.c.tile_count(); ++c) {
        row_map[static_cast<std::size_t>(rows.entry(in, Operand::c, c))] = grid_row[in.row[c]];
        column_map[static_cast<std::size_t>(columns.entry(in, Operand::c, c))] = dealt[in.col[c]];
    }
    const auto k_map = where_needed(in, k, lists, q, dealt);
    // The rank is that of the slow table times q and that of the fast one.
    const auto lie = [&](Operand o, const LabelTable& slow, std::vector<std::int32_t> slow_map, const LabelTable& fast,
                         const std::vector<std::int32_t>& fast_map) {
        for (auto& r : slow_map) r *= q;
        return lie_by(in, o, {slow.patches(in, o, slow_map), fast.patches(in, o, fast_map)});
    };
    out.lies.a = lie(Operand::a, rows, row_map, k, k_map);
    out.lies.b = lie(Operand::b, batch_and_k, b_map, columns, column_map);
    out.lies.c = lie(Operand::c, rows, row_map, columns, column_map);
    return out;
}

std::vector<std::vector<std::int32_t>> columns_by_place(const Inspection& in, const std::vector<std::int32_t>& sums,
                                                        int parts) {
    const auto dealt = deal_columns(in, {sums}, parts, Rates(in, false));
    auto by_column = sums;
    std::stable_sort(by_column.begin(), by_column.end(),
                     [&](auto x, auto y) { return in.col[in.sums[x].c] < in.col[in.sums[y].c]; });
    Lists out(static_cast<std::size_t>(parts));
    for (const auto i : by_column) out[static_cast<std::size_t>(dealt[in.col[in.sums[i].c]])].push_back(i);
    return out;
}

}  // namespace tessera
