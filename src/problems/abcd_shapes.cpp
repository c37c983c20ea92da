#include "problems/abcd_shapes.hpp"

#include <algorithm>

namespace tessera {

namespace {

/// For each row of a table of factors, the columns that can matter (weight above `least`), ascending, and their
/// weights.
struct Candidates {
    std::vector<std::int64_t> column;
    std::vector<double> weight;
    double largest = 0;
};

/// q_CA / (N_C N_A): V is kept where the product of two of these is above `least`.
std::vector<Candidates> candidates_of_q(const std::vector<std::int64_t>& sizes, const Table& q, double least) {
    const auto n = static_cast<std::int64_t>(sizes.size());
    const auto weight = [&](std::int64_t c, std::int64_t a) {
        return q(c, a) / static_cast<double>(sizes[c] * sizes[a]);
    };
    double largest = 0;
    for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t a = 0; a < n; ++a) largest = std::max(largest, weight(c, a));
    std::vector<Candidates> out(n);
    for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t a = 0; a < n; ++a) {
            const double w = weight(c, a);
            if (w * largest <= least * kRoundingSlack) continue;
            out[c].column.push_back(a);
            out[c].weight.push_back(w);
            out[c].largest = std::max(out[c].largest, w);
        }
    return out;
}

std::vector<std::int64_t> sizes_of(const Tiling& t) {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < t.tile_count(); ++i) out.push_back(t.size(TileIndex{i}));
    return out;
}

}  // namespace

Shape shape_of_v(const Tiling& ao, const Table& q, double least) {
    const auto sizes = sizes_of(ao);
    const std::vector<Candidates> near = candidates_of_q(sizes, q, least);
    std::vector<std::int64_t> ordinals;
    std::vector<double> norms;
    const std::int64_t n = ao.tile_count();
    for (std::int64_t c = 0; c < n; ++c)
        for (std::int64_t d = 0; d < n; ++d)
            for (std::size_t ia = 0; ia < near[c].column.size(); ++ia) {
                if (near[c].weight[ia] * near[d].largest <= least * kRoundingSlack) continue;
                const std::int64_t a = near[c].column[ia];
                for (const std::int64_t b : near[d].column) {
                    const double norm = q(c, a) * q(d, b);
                    const std::int64_t elements = sizes[c] * sizes[d] * sizes[a] * sizes[b];
                    if (!(norm > least * static_cast<double>(elements))) continue;
                    ordinals.push_back(((c * n + d) * n + a) * n + b);
                    norms.push_back(norm);
                }
            }
    ordinals.shrink_to_fit();
    norms.shrink_to_fit();
    return Shape::from_sorted({ao, ao, ao, ao}, std::move(ordinals), std::move(norms));
}

Shape shape_of_r(const Tiling& rows, const Shape& t, const Shape& v, double least) {
    const Tiling& ao = v.grid().tiling(0);
    const auto sizes = sizes_of(ao);
    const std::int64_t n = ao.tile_count(), square = n * n;
    // V's tiles of one CD stand together: where they begin.
    std::vector<std::int64_t> begin(square + 1, 0);
    for (const std::int64_t ordinal : v.ordinals()) ++begin[ordinal / square + 1];
    for (std::int64_t cd = 0; cd < square; ++cd) begin[cd + 1] += begin[cd];

    std::vector<std::int64_t> ordinals;
    std::vector<double> norms, sum(square, 0.0);
    std::int64_t slot = 0;
    for (std::int64_t p = 0; p < rows.tile_count(); ++p) {
        const std::int64_t height = rows.size(TileIndex{p});
        std::int64_t first = square, last = -1;  // the range of AB that anything was added to
        for (; slot < t.tile_count() && t.tile(slot).value / square == p; ++slot) {
            const std::int64_t cd = t.tile(slot).value % square, base = cd * square;
            const double factor = t.norm_of(slot);
            if (begin[cd] == begin[cd + 1]) continue;
            for (std::int64_t s = begin[cd]; s < begin[cd + 1]; ++s)
                sum[v.tile(s).value - base] += factor * v.norm_of(s);
            first = std::min(first, v.tile(begin[cd]).value - base);
            last = std::max(last, v.tile(begin[cd + 1] - 1).value - base);
        }
        for (std::int64_t ab = first; ab <= last; ++ab) {
            if (sum[ab] > least * static_cast<double>(height * sizes[ab / n] * sizes[ab % n])) {
                ordinals.push_back(p * square + ab);
                norms.push_back(sum[ab]);
            }
            sum[ab] = 0;
        }
    }
    return Shape::from_sorted({rows, ao, ao}, std::move(ordinals), std::move(norms));
}

}  // namespace tessera
