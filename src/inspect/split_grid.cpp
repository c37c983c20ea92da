// C is small and k long (the rectangular case of Sivkov et al., 2019, on a grid of ranks for each part of k, as in 2.5D
// products): k is cut into layers of its fixed segments, each layer works on a p x q grid of ranks of its own, and C is
// joined in the fixed tree.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "inspect/algorithms.hpp"
#include "inspect/label_table.hpp"

namespace tessera {

namespace {

constexpr double kMostTrials = 2e8;  // sums that are looked at while grids are weighed

/// Heaviest first, each to the one of n that has least.
std::vector<std::int32_t> heaviest_first(const std::vector<double>& weight, int n) {
    std::vector<std::int32_t> order(weight.size()), to(weight.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return weight[x] > weight[y]; });
    std::vector<double> has(static_cast<std::size_t>(n));
    for (const auto i : order) {
        const auto least = std::min_element(has.begin(), has.end());
        *least += weight[i];
        to[i] = static_cast<std::int32_t>(least - has.begin());
    }
    return to;
}

/// Each layer has ranks [layer * p * q, ...); in a layer the rows of C go to p, its columns to q, by the layer's flops.
struct Layers {
    int s = 1, p = 1, q = 1;
    std::vector<std::vector<std::int32_t>> row, col;  // of each layer
    double seconds = INFINITY;

    std::int32_t rank(std::int32_t layer, std::int32_t r, std::int32_t c) const { return (layer * q + c) * p + r; }
};

class Search {
  public:
    explicit Search(const Inspection& in) : in_(in), segment_of_(in.sums.size()) {
        for (std::size_t i = 0; i < in.sums.size(); ++i) {
            const auto& sum = in.sums[i];
            if (sum.first < sum.last && in.product.segments > 1)
                segment_of_[i] = in.product.segment[in.product.k(sum.first)];
        }
        for (const auto o : {Operand::a, Operand::b, Operand::c})
            for (const auto b : in.bytes(o)) bytes_[o] += static_cast<double>(b);
    }

    Layers best(int ranks) const {
        Layers out;
        for (int s = 1; s <= in_.product.segments && s <= ranks; s *= 2) {
            const int each = ranks / s;
            const double as_c = std::sqrt(static_cast<double>(each) * in_.rows / std::max(1, in_.cols));
            const bool all = static_cast<double>(in_.sums.size()) * std::min(each, in_.rows) * 8 < kMostTrials;
            for (int p = 1; p <= std::min(each, in_.rows); ++p) {
                if (!all && std::abs(p - as_c) > 2) continue;
                auto x = weigh(s, p, std::min(each / p, std::max(1, in_.cols)));
                if (x.seconds < out.seconds) out = std::move(x);
            }
        }
        return out;
    }

    Layers weigh(int s, int p, int q) const {
        Layers x{s, p, q, {}, {}};
        std::vector<std::vector<double>> row(static_cast<std::size_t>(s),
                                             std::vector<double>(static_cast<std::size_t>(in_.rows))),
            col(row.size(), std::vector<double>(static_cast<std::size_t>(in_.cols)));
        for (std::size_t i = 0; i < in_.sums.size(); ++i) {
            const auto at = layer(x, segment_of_[i]);
            row[at][in_.row[in_.sums[i].c]] += in_.sums[i].flops;
            col[at][in_.col[in_.sums[i].c]] += in_.sums[i].flops;
        }
        for (int at = 0; at < s; ++at) {
            x.row.push_back(heaviest_first(row[at], p));
            x.col.push_back(heaviest_first(col[at], q));
        }
        std::vector<double> flops(static_cast<std::size_t>(s) * p * q);
        for (std::size_t i = 0; i < in_.sums.size(); ++i) flops[rank_of(x, i)] += in_.sums[i].flops;
        const auto& m = in_.machine;
        const double rate =
            m.devices_per_rank > 0 ? m.device.gemm.flops_per_second * m.devices_per_rank : m.gemm.flops_per_second;
        const double network = m.network.bytes_per_second > 0 ? m.network.bytes_per_second : 1e10;
        const double moved = bytes_.a * (q - 1) + bytes_.b * (p - 1) + bytes_.c * (s - 1);
        x.seconds =
            *std::max_element(flops.begin(), flops.end()) / (rate > 0 ? rate : 1e10) + moved / (network * s * p * q);
        return x;
    }

    std::int32_t layer(const Layers& x, std::int64_t segment) const {
        return static_cast<std::int32_t>(segment * x.s / in_.product.segments);
    }
    std::int32_t rank_of(const Layers& x, std::size_t sum) const {
        const auto c = in_.sums[sum].c;
        const auto at = layer(x, segment_of_[sum]);
        return x.rank(at, x.row[at][in_.row[c]], x.col[at][in_.col[c]]);
    }

  private:
    const Inspection& in_;
    std::vector<std::int64_t> segment_of_;
    PerOperand<double> bytes_{};
};

}  // namespace

Assignment split_grid(const Inspection& in) {
    Assignment out;
    out.algorithm = Algorithm::split_grid;
    const int ranks = in.machine.ranks;
    const LabelTable rows(in, in.view.m), columns(in, in.view.n), k(in, in.view.k), all_of_a(in, in.view.m + in.view.k),
        all_of_b(in, in.view.k + in.view.n), all_of_c(in, in.view.m + in.view.n);
    out.possible = false;
    if (ranks > 1 && in.product.segments == 1)
        out.reason = "C is not 16 times smaller than A and B: k stays in one piece";
    else if (!in.view.batch.empty())
        out.reason = "there are batch indices: k is not one range";
    else if (!all_of_a.fits() || !all_of_b.fits() || !all_of_c.fits())
        out.reason = "the tables of its distributions would be too long";
    else
        out.possible = true;
    if (!out.possible) return out;

    const Search search(in);
    const bool asked = in.request.how.grid_rows > 0;
    const auto x = asked ? search.weigh(1, in.request.how.grid_rows, in.request.how.grid_cols) : search.best(ranks);
    out.grid_rows = x.p;
    out.grid_cols = x.q;
    out.reason = ranks == 1 ? "the whole range of k is one rank's"
                            : fmt::format("C is small, k long: {} layer{} of k, each on a grid of {} x {} ranks", x.s,
                                          x.s == 1 ? "" : "s", x.p, x.q);
    for (std::size_t i = 0; i < in.sums.size(); ++i) out.rank_of.push_back(search.rank_of(x, i));

    // A tile of A lies in its layer and row, dealt over the layer's columns; one of B in its layer and column, dealt
    // over the rows; one of C with a rank that sums it, the layers taking turns.
    std::vector<std::int32_t> row_of(static_cast<std::size_t>(rows.size())),
        col_of(static_cast<std::size_t>(columns.size())), layer_of(static_cast<std::size_t>(k.size()));
    PerOperand<std::vector<std::int32_t>> at{std::vector<std::int32_t>(static_cast<std::size_t>(all_of_a.size())),
                                             std::vector<std::int32_t>(static_cast<std::size_t>(all_of_b.size())),
                                             std::vector<std::int32_t>(static_cast<std::size_t>(all_of_c.size()))};
    for (std::int64_t t = 0; t < in.product.c.tile_count(); ++t) {
        const auto layer = static_cast<std::size_t>(t % x.s);
        row_of[static_cast<std::size_t>(rows.entry(in, Operand::c, t))] = in.row[t];
        col_of[static_cast<std::size_t>(columns.entry(in, Operand::c, t))] = in.col[t];
        at.c[static_cast<std::size_t>(all_of_c.entry(in, Operand::c, t))] =
            x.rank(static_cast<std::int32_t>(layer), x.row[layer][in.row[t]], x.col[layer][in.col[t]]);
    }
    for (std::int64_t t = 0; in.cols > 0 && t < in.shape(Operand::b).tile_count(); ++t) {
        const auto of_k = k.entry(in, Operand::b, t);
        const auto segment = in.product.segments > 1 ? in.product.segment[in.product.k_of_b[t]] : 0;
        const auto layer = layer_of[static_cast<std::size_t>(of_k)] = search.layer(x, segment);
        const auto column = col_of[static_cast<std::size_t>(columns.entry(in, Operand::b, t))];
        at.b[static_cast<std::size_t>(all_of_b.entry(in, Operand::b, t))] =
            x.rank(layer, static_cast<std::int32_t>(of_k % x.p), x.col[static_cast<std::size_t>(layer)][column]);
    }
    for (std::int64_t t = 0; in.rows > 0 && t < in.shape(Operand::a).tile_count(); ++t) {
        const auto of_k = k.entry(in, Operand::a, t);
        const auto layer = layer_of[static_cast<std::size_t>(of_k)];
        const auto row = row_of[static_cast<std::size_t>(rows.entry(in, Operand::a, t))];
        at.a[static_cast<std::size_t>(all_of_a.entry(in, Operand::a, t))] =
            x.rank(layer, x.row[static_cast<std::size_t>(layer)][row], static_cast<std::int32_t>(of_k % x.q));
    }
    out.lies.a = lie_by(in, Operand::a, {all_of_a.patches(in, Operand::a, at.a)});
    out.lies.b = lie_by(in, Operand::b, {all_of_b.patches(in, Operand::b, at.b)});
    out.lies.c = lie_by(in, Operand::c, {all_of_c.patches(in, Operand::c, at.c)});
    return out;
}

}  // namespace tessera
