#include "inspect/place_deal.hpp"

#include <algorithm>
#include <numeric>

namespace tessera {

namespace {

constexpr std::int64_t kLongestTable = std::int64_t{1} << 22;

double over(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

/// Tiles of a group of labels, numbered with the last label fastest.
class LabelTable {
  public:
    LabelTable(const Inspection& in, std::string labels) : labels_(std::move(labels)) {
        for (const char label : labels_) {
            const auto o = in.view.labels.c.find(label) != std::string::npos ? Operand::c : Operand::a;
            const auto d = static_cast<int>(in.view.labels[o].find(label));
            tiles_.push_back(in.shape(o).grid().tiling(d).tile_count());
            size_ = tiles_.back() == 0 || size_ > kLongestTable ? kLongestTable + 1 : size_ * tiles_.back();
        }
    }
    bool fits() const { return size_ <= kLongestTable; }
    std::int64_t size() const { return size_; }

    /// The entry of a tile of an operand that has all of these labels.
    std::int64_t entry(const Inspection& in, Operand o, std::int64_t slot) const {
        const auto& shape = in.shape(o);
        const auto at = shape.grid().coordinates(shape.tile(slot));
        std::int64_t out = 0;
        for (std::size_t i = 0; i < labels_.size(); ++i)
            out = out * tiles_[i] + at[static_cast<int>(in.view.labels[o].find(labels_[i]))];
        return out;
    }
    /// The same table for the indices of an operand that carry these labels, in the operand's own order.
    Distribution::Patches patches(const Inspection& in, Operand o, int ranks,
                                  const std::vector<std::int32_t>& map) const {
        const auto& names = in.view.labels[o];
        Distribution::Patches out;
        out.ranks = ranks;
        std::vector<std::int64_t> strides;  // of the table, in the operand's order
        for (std::size_t d = 0; d < names.size(); ++d) {
            const auto i = labels_.find(names[d]);
            if (i == std::string::npos) continue;
            out.indices.push_back(static_cast<std::int32_t>(d));
            out.tiles.push_back(tiles_[i]);
            strides.push_back(std::accumulate(tiles_.begin() + static_cast<std::ptrdiff_t>(i) + 1, tiles_.end(),
                                              std::int64_t{1}, std::multiplies<>()));
        }
        out.map.resize(map.size());
        for (std::size_t entry = 0; entry < map.size(); ++entry) {
            auto rest = static_cast<std::int64_t>(entry);
            std::int64_t from = 0;
            for (std::size_t j = strides.size(); j-- > 0; rest /= out.tiles[j])
                from += rest % out.tiles[j] * strides[j];
            out.map[entry] = map[static_cast<std::size_t>(from)];
        }
        return out;
    }

  private:
    std::string labels_;
    std::vector<std::int64_t> tiles_;
    std::int64_t size_ = 1;
};

/// Where a column lies: the middles of its tiles, as parts of each index's extent. And what it costs its rank.
struct Column {
    std::vector<double> at;
    double seconds = 0;
};

/// The columns of these sums; each of the lists is of ranks that make or load tiles of B for themselves. `devices`
/// share the work of a rank.
std::vector<Column> columns_of(const Inspection& in, const std::vector<std::vector<std::int32_t>>& lists, int devices) {
    const auto& m = in.machine;
    const double flops = devices > 0 ? m.device.gemm.flops_per_second * devices : m.gemm.flops_per_second;
    const auto source = in.source(Operand::b);
    const double make = source == SourceKind::stored      ? 0
                        : source == SourceKind::host_made ? m.make_bytes_per_second
                                                          : m.device.make_bytes_per_second * devices;
    const double load = source == SourceKind::device_made ? 0 : m.host_to_device.bytes_per_second * devices;
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
    std::vector<std::int32_t> seen(in.bytes(Operand::b).size(), -1);
    for (std::size_t list = 0; list < lists.size(); ++list)
        for (const auto i : lists[list]) {
            const auto& s = in.sums[static_cast<std::size_t>(i)];
            auto& column = out[static_cast<std::size_t>(in.col[s.c])];
            column.seconds += over(s.flops, flops);
            for (auto q = s.first; q < s.last; ++q) {
                auto& stamp = seen[static_cast<std::size_t>(in.tile_of(Operand::b, q))];
                if (stamp == static_cast<std::int32_t>(list)) continue;
                stamp = static_cast<std::int32_t>(list);
                const auto bytes = static_cast<double>(in.bytes(Operand::b)[in.tile_of(Operand::b, q)]);
                column.seconds += over(bytes, make) + over(bytes, load);
            }
        }
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
    for (auto i = begin; i < end; ++i) all += of(i).seconds;
    // The index along which they spread most, each column by its weight.
    std::size_t widest = 0;
    double most = -1;
    for (std::size_t d = 0; d < of(begin).at.size(); ++d) {
        double mean = 0, spread = 0;
        for (auto i = begin; i < end; ++i) mean += of(i).seconds * of(i).at[d];
        mean = over(mean, all);
        for (auto i = begin; i < end; ++i) spread += of(i).seconds * (of(i).at[d] - mean) * (of(i).at[d] - mean);
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
    while (cut + 1 < end && sum + of(cut).seconds / 2 < share) sum += of(cut++).seconds;
    cut = std::max(cut, begin + 1);
    bisect(columns, order, begin, cut, first, left, to);
    bisect(columns, order, cut, end, first + left, n - left, to);
}

/// Tiles of A by the ranks that need them. Calls use(rank, slot) once for each pair.
template <class Use>
void each_need_of_a(const Inspection& in, const std::vector<std::int32_t>& rank_of, int ranks, Use&& use) {
    std::vector<std::vector<std::int32_t>> of_rank(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < rank_of.size(); ++i)
        of_rank[static_cast<std::size_t>(rank_of[i])].push_back(static_cast<std::int32_t>(i));
    std::vector<std::int32_t> seen(in.bytes(Operand::a).size(), -1);
    for (int r = 0; r < ranks; ++r)
        for (const auto i : of_rank[static_cast<std::size_t>(r)]) {
            const auto& s = in.sums[static_cast<std::size_t>(i)];
            for (auto t = s.first; t < s.last; ++t) {
                const auto a = static_cast<std::size_t>(in.tile_of(Operand::a, t));
                if (seen[a] == r) continue;
                seen[a] = r;
                use(r, a);
            }
        }
}

std::vector<std::int32_t> ranks_of(const Inspection& in, int q, const std::vector<std::int32_t>& grid_row,
                                   const std::vector<std::int32_t>& dealt) {
    std::vector<std::int32_t> out;
    out.reserve(in.sums.size());
    for (const auto& s : in.sums) out.push_back(grid_row[in.row[s.c]] * q + dealt[in.col[s.c]]);
    return out;
}

/// Which of q has each column. What tiles of A cost a rank is known once columns are dealt: it is then laid on the
/// rank's columns, and they are dealt again.
std::vector<std::int32_t> deal_columns(const Inspection& in, int p, int q, const std::vector<std::int32_t>& grid_row) {
    constexpr int kRounds = 6;
    const auto& m = in.machine;
    std::vector<std::vector<std::int32_t>> of_grid_row(static_cast<std::size_t>(p));
    for (std::size_t i = 0; i < in.sums.size(); ++i)
        of_grid_row[static_cast<std::size_t>(grid_row[in.row[in.sums[i].c]])].push_back(static_cast<std::int32_t>(i));
    const auto own = columns_of(in, of_grid_row, m.devices_per_rank);
    auto columns = own;
    std::vector<std::int32_t> order(own.size()), dealt(own.size()), best;
    std::iota(order.begin(), order.end(), 0);
    if (own.empty()) return dealt;
    double least = 0;
    const double load = m.host_to_device.bytes_per_second * m.devices_per_rank,
                 network = m.network.bytes_per_second / std::max(1, m.ranks_per_node);
    const auto& bytes = in.bytes(Operand::a);
    for (int round = 0; round < kRounds; ++round) {
        bisect(columns, order, 0, order.size(), 0, q, dealt);
        std::vector<double> seconds(static_cast<std::size_t>(q)), of_a(seconds.size());
        std::vector<double> count(seconds.size());
        each_need_of_a(in, ranks_of(in, q, grid_row, dealt), p * q, [&](int r, std::size_t a) {
            of_a[static_cast<std::size_t>(r % q)] +=
                (over(static_cast<double>(bytes[a]), load) + over(static_cast<double>(bytes[a]), network) +
                 m.network_tile_seconds) /
                p;
        });
        for (std::size_t i = 0; i < own.size(); ++i) {
            seconds[static_cast<std::size_t>(dealt[i])] += own[i].seconds / p;
            ++count[static_cast<std::size_t>(dealt[i])];
        }
        double most = 0;
        for (std::size_t g = 0; g < seconds.size(); ++g) most = std::max(most, seconds[g] + of_a[g]);
        if (best.empty() || most < least) least = most, best = dealt;
        for (std::size_t i = 0; i < own.size(); ++i) {
            const auto g = static_cast<std::size_t>(dealt[i]);
            columns[i].seconds = own[i].seconds / p + of_a[g] / count[g];
        }
    }
    return best;
}

/// Each place along k with the grid column that needs most of its tiles of A; of those that need as much, with the one
/// that has least so far.
std::vector<std::int32_t> where_needed(const Inspection& in, const LabelTable& k,
                                       const std::vector<std::int32_t>& rank_of, int p, int q) {
    const auto& bytes = in.bytes(Operand::a);
    std::vector<std::int64_t> entry(bytes.size());
    std::vector<double> held(static_cast<std::size_t>(k.size())), need(static_cast<std::size_t>(k.size() * q));
    for (std::size_t a = 0; a < bytes.size(); ++a) {
        entry[a] = k.entry(in, Operand::a, static_cast<std::int64_t>(a));
        held[static_cast<std::size_t>(entry[a])] += static_cast<double>(bytes[a]);
    }
    each_need_of_a(in, rank_of, p * q, [&](int r, std::size_t a) {
        need[static_cast<std::size_t>(entry[a] * q + r % q)] += static_cast<double>(bytes[a]);
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
    if (k.size() * q > kLongestTable) return std::nullopt;

    const auto dealt = deal_columns(in, p, q, grid_row);
    Assignment out;
    out.grid_rows = p;
    out.grid_cols = q;
    out.rank_of = ranks_of(in, q, grid_row, dealt);

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
    const auto k_map = where_needed(in, k, out.rank_of, p, q);
    const auto lie = [&](Operand o, const LabelTable& slow, int slow_ranks, const std::vector<std::int32_t>& slow_map,
                         const LabelTable& fast, const std::vector<std::int32_t>& fast_map) {
        std::vector<Distribution::Patches> patches;
        for (auto&& x : {slow.patches(in, o, slow_ranks, slow_map), fast.patches(in, o, q, fast_map)})
            if (!x.indices.empty()) patches.push_back(x);
        return Distribution::from_patches(in.machine.ranks, in.shape(o).grid().rank(), std::move(patches));
    };
    out.lies.a = lie(Operand::a, rows, p, row_map, k, k_map);
    out.lies.b = lie(Operand::b, batch_and_k, p, b_map, columns, column_map);
    out.lies.c = lie(Operand::c, rows, p, row_map, columns, column_map);
    return out;
}

std::vector<std::vector<std::int32_t>> columns_by_place(const Inspection& in, const std::vector<std::int32_t>& sums,
                                                        int parts) {
    const auto columns = columns_of(in, {sums}, 1);
    std::vector<std::vector<std::int32_t>> of_column(columns.size()), out(static_cast<std::size_t>(parts));
    for (const auto i : sums) of_column[static_cast<std::size_t>(in.col[in.sums[i].c])].push_back(i);
    std::vector<std::int32_t> order, dealt(columns.size());
    for (std::size_t c = 0; c < columns.size(); ++c)
        if (!of_column[c].empty()) order.push_back(static_cast<std::int32_t>(c));
    if (order.empty()) return out;
    bisect(columns, order, 0, order.size(), 0, parts, dealt);
    for (const auto c : order)
        for (const auto i : of_column[static_cast<std::size_t>(c)])
            out[static_cast<std::size_t>(dealt[static_cast<std::size_t>(c)])].push_back(i);
    return out;
}

}  // namespace tessera
