// B is tiny next to A and C: both lie on a linear grid of ranks by rows and stay there, B goes to whoever needs it.

#include "inspect/algorithms.hpp"

namespace tessera {

Assignment replicate_b(const Inspection& in) {
    Assignment out;
    out.algorithm = Algorithm::replicate_b;
    const int ranks = in.machine.ranks;
    char row = widest_label(in, Operand::a, MatrixPart::row);
    if (!row) row = widest_label(in, Operand::c, MatrixPart::batch);
    out.possible = row != 0 || ranks == 1;
    out.reason = out.possible ? "rows of A and C stay with their rank, B goes to all who need it"
                              : "A has no free index to deal its rows by";
    if (!out.possible) return out;
    out.grid_rows = ranks;
    const Distribution::Axis rows{ranks, Distribution::Deal::blocked};
    out.lies.a = deal(in, Operand::a, {{row, rows}});
    out.lies.c = deal(in, Operand::c, {{row, rows}});
    out.lies.b = Distribution::even(in.request.b->grid(), ranks);
    out.rank_of.reserve(in.sums.size());
    for (const auto& s : in.sums) out.rank_of.push_back(out.lies.c.owner(in.product.c.grid(), in.product.c.tile(s.c)));
    return out;
}

}  // namespace tessera
