#pragma once
// MP2 with fitted integrals as block-sparse tensors dealt to ranks: each rank makes its own (P|mn), assembles them,
// and holds its part of everything with three indices.

#include "chem/ao_integrals.hpp"
#include "chem/orbitals.hpp"

namespace tessera::chem {

struct RiMp2Options {
    Resources here;     // its communicator's ranks share tensors and work
    double filter = 0;  // tiles of (P|mn) whose norm is below this are left out
};

struct RiMp2Result {
    double energy = 0;
    std::int64_t tiles = 0, tiles_kept = 0;  // of (P|mn), both halves
    double left_out = 0;                     // Frobenius norm of the tiles of (P|mn) that were left out
    std::int64_t dropped_functions = 0;      // near-dependent combinations of auxiliary functions
    double condition = 0;                    // of (P|Q), from its Cholesky factor, or its eigenvalues
    std::int64_t rank_bytes = 0;             // that tensors took at most, on the rank with most
    double transform_seconds = 0, flops = 0;
};

/// The same bits on any number of ranks and threads. Collective.
RiMp2Result ri_mp2(const Integrals& integrals, const AoTiling& functions, const Basis& auxiliary,
                   const Orbitals& orbitals, const RiMp2Options& options);

/// Bytes of tensors that a rank of so many takes at most, about.
std::int64_t ri_mp2_bytes(const AoTiling& functions, std::int64_t auxiliary, std::int64_t occupied,
                          std::int64_t virtuals, int ranks);

}  // namespace tessera::chem
