// Dense or near-square (Herault et al., ScalA 2019): tiles dealt cyclically over a p x q grid; the owner of a tile of C
// computes it, and gets the tiles of A and B that it needs.

#include "inspect/algorithms.hpp"

namespace tessera {

Assignment outer_product(const Inspection& in) {
    Assignment out;
    out.algorithm = Algorithm::outer_product;
    out.reason = "tiles of C stay where they are stored; A and B come to them";
    // Rows are worked off in turn, so that tiles of A are used while they are in cache.
    out.by_column = !in.stored(Operand::b) && in.stored(Operand::a);
    const int ranks = in.machine.ranks;
    auto [p, q] = near_square(ranks);
    if (in.rows > in.cols) std::swap(p, q);
    if (in.request.how.grid_rows > 0) {
        p = in.request.how.grid_rows;
        q = ranks / p;
    }
    const char m = widest_label(in, Operand::a, MatrixPart::row);
    const char n = widest_label(in, Operand::b, MatrixPart::column);
    const char k = widest_label(in, Operand::a, MatrixPart::column);
    const char h = widest_label(in, Operand::c, MatrixPart::batch);
    const char row = m ? m : h, col = n ? n : h;
    if (!row || row == col) q = row || col ? ranks : 1, p = 1;
    if (row && !col) p = ranks, q = 1;
    out.grid_rows = p;
    out.grid_cols = q;
    const Distribution::Axis rows{p}, cols{q};
    out.lies.a = deal(in, Operand::a, {{k, cols}, {row, rows}});
    out.lies.b = deal(in, Operand::b, {{k, rows}, {col, cols}});
    out.lies.c = deal(in, Operand::c, {{row, rows}, {col, cols}});
    out.rank_of.assign(in.sums.size(), 0);
    if (ranks == 1) return out;
    const auto& owner = in.distribution(Operand::c, out.lies);
    for (std::size_t i = 0; i < in.sums.size(); ++i)
        out.rank_of[i] = owner.owner(in.product.c.grid(), in.product.c.tile(in.sums[i].c));
    return out;
}

}  // namespace tessera
