#pragma once
// The terms of (T) of a box of virtual orbitals against all occupied ones.

#include <array>
#include <cstdint>
#include <span>

#include "tessera/kernels/triples.hpp"

namespace tessera::chem {

/// (kc|ad) in panels [k][c][a][d]: for each two of the three ranges of a box the one of c, a within the ranges that
/// begin at `first`.
struct VirtualPanels {
    const double* at[3][3] = {};
    std::array<std::int64_t, 3> first{}, extent{};
};

/// What closed_shell_block makes, with occupied and virtual orbitals in each other's place. panels: in place of
/// tensors.ovvv.
void triples_block(const kernels::ClosedShellTensors& tensors, std::span<const std::int64_t, 3> begin,
                   std::span<const std::int64_t, 3> extent, kernels::ClosedShellBlock& block,
                   const VirtualPanels* panels = nullptr);

}  // namespace tessera::chem
