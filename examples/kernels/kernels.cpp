// The dense kernels on their own: a transpose, two terms of a six-index block in one pass, and what a function of ours
// makes of the block without storing it.

#include <cstdio>
#include <tessera/kernels/transpose.hpp>
#include <tessera/kernels/triples.hpp>

int main() {
    using namespace tessera::kernels;
    const std::vector<std::int64_t> extents{3, 4, 5};
    const std::vector<int> permutation{2, 0, 1};
    std::vector<double> a(60), b(60);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i);
    transpose<double>(extents, permutation, a.data(), b.data(), {.alpha = 2.0});
    std::printf("b(4, 2, 3) = %g\n", b[4 * 12 + 2 * 4 + 3]);  // twice a(2, 3, 4), the last element

    const BlockExtents block{2, 2, 2, 3, 3, 3};  // k j i c b a
    const std::vector<double> t2(5 * 3 * 3 * 2, 1.0), v2(2 * 2 * 3 * 5, 0.5);
    std::vector<double> t3(2 * 2 * 2 * 3 * 3 * 3);
    const FusedTerm terms[] = {make_term(-1, "labi", t2.data(), "kjcl", v2.data(), block, 5),
                               make_term(+2, "labj", t2.data(), "kicl", v2.data(), block, 5)};
    fused_contract(block, terms, {t3.data(), packed_strides(block), false}, {});
    std::printf("t3(0) = %g\n", t3[0]);  // (2 - 1) * 5 * 0.5

    const double norm2 = fused_reduce(block, terms, [](const FusedPiece& p) {
        const auto& n = p.extents;
        double sum = 0;
        for (std::int64_t i = 0; i < n[0] * n[1] * n[2] * n[3] * n[4] * n[5]; ++i) {
            std::int64_t at = 0, rest = i;
            for (int x = 0; x < kBlockRank; rest /= n[x++]) at += rest % n[x] * p.stride[x];
            sum += p.sums[0][at] * p.sums[0][at];
        }
        return sum;
    });
    std::printf("|t3|^2 = %g\n", norm2);  // 216 * 2.5 * 2.5
}
