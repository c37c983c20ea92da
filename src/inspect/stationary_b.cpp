// B is the giant (Herault et al., IPDPS 2021, section III): a p x q grid of ranks, each grid row works alone on a slice
// of A's tile rows; B's tile columns are dealt to the q ranks of a grid row by flops, in mirrored cyclic order, or by
// place.

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/check.hpp"
#include "inspect/algorithms.hpp"
#include "inspect/place_deal.hpp"

namespace tessera {

namespace {

/// Heaviest first, to 0, 1, .., n-1, n-1, .., 1, 0, 0, 1, ..
std::vector<std::int32_t> mirrored_deal(const std::vector<double>& weight, int n) {
    std::vector<std::int32_t> order(weight.size()), to(weight.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return weight[x] > weight[y]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
        const auto turn = static_cast<std::int32_t>(i % (2 * static_cast<std::size_t>(n)));
        to[order[i]] = turn < n ? turn : 2 * n - 1 - turn;
    }
    return to;
}

std::vector<std::int32_t> deal_rows(const Inspection& in, int p) {
    std::vector<double> flops(static_cast<std::size_t>(in.rows));
    for (const auto& s : in.sums) flops[in.row[s.c]] += s.flops;
    return mirrored_deal(flops, p);
}

Assignment mirrored(const Inspection& in, int p, int q, const std::vector<std::int32_t>& grid_row) {
    std::vector<std::vector<double>> flops(static_cast<std::size_t>(p),
                                           std::vector<double>(static_cast<std::size_t>(in.cols)));
    for (const auto& s : in.sums) flops[grid_row[in.row[s.c]]][in.col[s.c]] += s.flops;
    std::vector<std::vector<std::int32_t>> dealt;
    for (const auto& f : flops) dealt.push_back(mirrored_deal(f, q));
    Assignment out;
    out.grid_rows = p;
    out.grid_cols = q;
    out.rank_of.reserve(in.sums.size());
    for (const auto& s : in.sums) {
        const auto r = grid_row[in.row[s.c]];
        out.rank_of.push_back(r * q + dealt[r][in.col[s.c]]);
    }
    const char m = widest_label(in, Operand::a, MatrixPart::row);
    const char n = widest_label(in, Operand::b, MatrixPart::column);
    const char k = widest_label(in, Operand::a, MatrixPart::column);
    const Distribution::Axis rows{p}, cols{q};
    out.lies.a = deal(in, Operand::a, {{m, rows}, {k, cols}});
    out.lies.b = deal(in, Operand::b, {{k, rows}, {n, cols}});
    out.lies.c = deal(in, Operand::c, {{m, rows}, {n, cols}});
    return out;
}

/// Seconds of moving what ranks need and making B once per grid row, so that grids can be compared.
double cost(const Inspection& in, const std::vector<std::int32_t>& rank_of, int ranks) {
    const auto& m = in.machine;
    const double network = m.network.bytes_per_second > 0 ? m.network.bytes_per_second : 1e10;
    const double make = in.source(Operand::b) == SourceKind::device_made && m.device.make_bytes_per_second > 0
                            ? m.device.make_bytes_per_second * m.devices_per_rank
                        : m.make_bytes_per_second > 0 ? m.make_bytes_per_second
                                                      : 1e10;
    std::vector<std::vector<std::int32_t>> of_rank(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < rank_of.size(); ++i) of_rank[rank_of[i]].push_back(static_cast<std::int32_t>(i));
    double moved = 0, made = 0;
    std::vector<std::int32_t> seen_a(in.bytes(Operand::a).size(), -1), seen_b(in.bytes(Operand::b).size(), -1);
    for (int r = 0; r < ranks; ++r)
        for (auto i : of_rank[r])
            for (auto p = in.sums[i].first; p < in.sums[i].last; ++p) {
                const auto a = in.tile_of(Operand::a, p), b = in.tile_of(Operand::b, p);
                if (seen_a[a] != r) moved += static_cast<double>(in.bytes(Operand::a)[a]);
                if (seen_b[b] != r)
                    (in.stored(Operand::b) ? moved : made) += static_cast<double>(in.bytes(Operand::b)[b]);
                seen_a[a] = seen_b[b] = r;
            }
    return moved / network + made / make;
}

}  // namespace

Assignment stationary_b(const Inspection& in) {
    const int ranks = in.machine.ranks;
    const auto wanted = in.request.how.deal;
    std::optional<Assignment> best;
    double least = 0;
    const auto take = [&](Assignment x) {
        const double seconds = ranks > 1 ? cost(in, x.rank_of, ranks) : 0;
        // The published deal gives way only to a clearly cheaper one.
        const bool published_first = best && best->lies.c.patches().empty() && !x.lies.c.patches().empty();
        if (best && seconds >= (published_first ? 1 - kSameTime : 1) * least) return;
        least = seconds;
        best = std::move(x);
    };
    const auto weigh = [&](int p) {
        const auto grid_row = deal_rows(in, p);
        if (wanted != Deal::place || ranks == 1) take(mirrored(in, p, ranks / p, grid_row));
        if (wanted == Deal::mirrored || ranks == 1) return;
        auto by_place = place_deal(in, p, ranks / p, grid_row);
        require(by_place || wanted != Deal::place, "deal 'place': its tables for '{}' would be too long",
                in.request.spec->text());
        if (by_place) take(std::move(*by_place));
    };
    if (in.request.how.grid_rows > 0) {
        weigh(in.request.how.grid_rows);
    } else {
        for (int p = 1; p <= ranks && p <= std::max(in.rows, 1); ++p) {
            if (ranks % p != 0) continue;
            weigh(p);
            if (p >= 8 && in.product.products.size() > 500000) break;  // finer grids were never better by then
        }
    }
    Assignment out = std::move(*best);
    out.algorithm = Algorithm::stationary_b;
    out.by_column = true;
    const bool by_place = !out.lies.c.patches().empty();
    if (in.stored(Operand::b))
        out.reason = by_place ? "columns of B, dealt by place, stay with their rank; A passes by"
                              : "columns of B stay with their rank while A passes by";
    else
        out.reason = by_place ? "B is made on demand, once per grid row; columns are dealt by place"
                              : "B is made on demand: each tile once per grid row, used by all rows of A";
    return out;
}

}  // namespace tessera
