// C is tiny next to A and B (the tall-and-skinny case of Sivkov et al., 2019): the contracted range is dealt out in its
// fixed segments, every rank multiplies what it has, and C is joined in the fixed tree.

#include "inspect/algorithms.hpp"

namespace tessera {

Assignment split_k(const Inspection& in) {
    Assignment out;
    out.algorithm = Algorithm::split_k;
    const int ranks = in.machine.ranks;
    out.possible = in.product.segments > 1 || ranks == 1;
    out.reason = ranks == 1     ? "the whole range of k is one rank's"
                 : out.possible ? "C is tiny: each rank sums its own range of k, joined in a fixed tree"
                                : "C is not 16 times smaller than A and B: k stays in one piece";
    if (!out.possible) return out;
    const char k = widest_label(in, Operand::a, MatrixPart::column);
    const Distribution::Axis pieces{ranks, Distribution::Deal::blocked};
    out.grid_cols = ranks;
    out.lies.a = deal(in, Operand::a, {{k, pieces}});
    out.lies.b = deal(in, Operand::b, {{k, pieces}});
    out.lies.c = Distribution::even(in.product.c.grid(), ranks);
    out.rank_of.reserve(in.sums.size());
    for (const auto& s : in.sums) {
        std::int64_t segment = 0;
        if (s.first < s.last && in.product.segments > 1) segment = in.product.segment[in.product.k(s.first)];
        out.rank_of.push_back(static_cast<std::int32_t>(segment * ranks / in.product.segments));
    }
    return out;
}

}  // namespace tessera
