#include "chem/triples_block.hpp"

#include <algorithm>

namespace tessera::chem {

namespace {

/// Of the term's operand a, which is (kc|ad): into its panel. It carries one occupied index (p + 3 now), which pairs
/// with p; q is the other virtual one.
void put_in_panel(kernels::FusedTerm& t, std::span<const std::int64_t, 3> begin, std::int64_t virtuals,
                  const VirtualPanels& panels) {
    std::size_t p = 0, q = 0;
    for (std::size_t n = 0; n < 3; ++n)
        if ((t.a_indices >> (n + 3) & 1U) != 0) p = n;
    for (std::size_t n = 0; n < 3; ++n)
        if (n != p && (t.a_indices >> n & 1U) != 0) q = n;
    const auto row = panels.extent[q] * virtuals;
    t.a.stride[p + 3] = panels.extent[p] * row;
    t.a.stride[p] = row;
    t.a.stride[q] = virtuals;
    t.a.data = panels.at[p][q] + (begin[p] - panels.first[p]) * row + (begin[q] - panels.first[q]) * virtuals;
}

}  // namespace

void triples_block(const kernels::ClosedShellTensors& tensors, std::span<const std::int64_t, 3> begin,
                   std::span<const std::int64_t, 3> extent, kernels::ClosedShellBlock& block,
                   const VirtualPanels* panels) {
    const auto o = tensors.occupied;
    kernels::ClosedShellTensors x = tensors;
    if (panels) x.ovvv = panels->at[0][1];
    kernels::closed_shell_block(x, {0, 0, 0}, {o, o, o}, block);
    const auto turn = [&](kernels::FusedTerm& t) {
        t.a_indices = (t.a_indices << 3U | t.a_indices >> 3U) & 0x3fU;
        for (auto* y : {&t.a, &t.b}) {
            std::rotate(y->stride.begin(), y->stride.begin() + 3, y->stride.end());
            for (std::size_t n = 0; n < 3; ++n)
                if (((t.a_indices >> n & 1U) != 0) == (y == &t.a)) y->data += begin[n] * y->stride[n];
        }
    };
    // Terms come in pairs, of which the first has (kc|ad).
    for (std::size_t n = 0; n < block.terms.size(); ++n) {
        turn(block.terms[n]);
        if (panels && n % 2 == 0) put_in_panel(block.terms[n], begin, tensors.virtuals, *panels);
    }
    for (auto& t : block.singles) turn(t);
    block.extents = {extent[0], extent[1], extent[2], o, o, o};
    for (std::size_t n = 0; n < 3; ++n) {
        block.epilogue.orbital_energies[n] = tensors.virtual_energies + begin[n];
        block.epilogue.orbital_energies[n + 3] = tensors.occupied_energies;
    }
    block.epilogue.scale = -block.epilogue.scale;  // and so has each denominator
}

}  // namespace tessera::chem
