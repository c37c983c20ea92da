// B is the giant (Herault et al., IPDPS 2021, section III): a p x q grid of ranks, each grid row works alone on a slice
// of A's tile rows; B's tile columns are dealt to the q ranks of a grid row by flops, in mirrored cyclic order.

#include <algorithm>
#include <numeric>

#include "inspect/algorithms.hpp"

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

std::vector<std::int32_t> ranks_of_sums(const Inspection& in, int p, int q) {
    std::vector<double> row_flops(static_cast<std::size_t>(in.rows));
    for (const auto& s : in.sums) row_flops[in.row[s.c]] += s.flops;
    const auto grid_row = mirrored_deal(row_flops, p);
    std::vector<std::vector<double>> flops(static_cast<std::size_t>(p),
                                           std::vector<double>(static_cast<std::size_t>(in.cols)));
    for (const auto& s : in.sums) flops[grid_row[in.row[s.c]]][in.col[s.c]] += s.flops;
    std::vector<std::vector<std::int32_t>> dealt;
    for (const auto& f : flops) dealt.push_back(mirrored_deal(f, q));
    std::vector<std::int32_t> out;
    out.reserve(in.sums.size());
    for (const auto& s : in.sums) {
        const auto r = grid_row[in.row[s.c]];
        out.push_back(r * q + dealt[r][in.col[s.c]]);
    }
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
    Assignment out;
    out.algorithm = Algorithm::stationary_b;
    out.by_column = true;
    const int ranks = in.machine.ranks;
    int best = 1;
    if (in.request.how.grid_rows > 0) {
        best = in.request.how.grid_rows;
        out.rank_of = ranks_of_sums(in, best, ranks / best);
    } else {
        double least = 0;
        for (int p = 1; p <= ranks && p <= std::max(in.rows, 1); ++p) {
            if (ranks % p != 0) continue;
            auto rank_of = ranks_of_sums(in, p, ranks / p);
            const double seconds = ranks > 1 ? cost(in, rank_of, ranks) : 0;
            if (out.rank_of.empty() || seconds < least) {
                least = seconds;
                best = p;
                out.rank_of = std::move(rank_of);
            }
            if (p >= 8 && in.product.products.size() > 500000) break;  // finer grids were never better by then
        }
    }
    out.grid_rows = best;
    out.grid_cols = ranks / best;
    out.reason = in.stored(Operand::b) ? "columns of B stay with their rank while A passes by"
                                       : "B is made on demand: each tile once per grid row, used by all rows of A";
    const char m = widest_label(in, Operand::a, MatrixPart::row);
    const char n = widest_label(in, Operand::b, MatrixPart::column);
    const char k = widest_label(in, Operand::a, MatrixPart::column);
    const Distribution::Axis rows{out.grid_rows}, cols{out.grid_cols};
    out.lies.a = deal(in, Operand::a, {{m, rows}, {k, cols}});
    out.lies.b = deal(in, Operand::b, {{k, rows}, {n, cols}});
    out.lies.c = deal(in, Operand::c, {{m, rows}, {n, cols}});
    return out;
}

}  // namespace tessera
