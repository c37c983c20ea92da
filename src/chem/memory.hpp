#pragma once
// How much memory an energy takes, told before it begins.

#include <cstdint>

#include "chem/ao_integrals.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

struct MemoryQuestion {
    const Basis* basis = nullptr;
    const AoTiling* stored = nullptr;  // tiles of the stored integrals
    const AoTiling* direct = nullptr;  // tiles of those made anew, with Abcd::direct
    std::int64_t occupied = 0, virtuals = 0;
    Method method = Method::ccsd_t;
    Abcd abcd = Abcd::stored;
    std::int64_t tile = 32;  // of orbitals
    int threads = 1, ranks = 1;
    bool checkpoint = false;
};

/// Bytes that the process holds at its worst moment: no less, and not much more. Follows the steps of rhf(),
/// transform(), ccsd() and triples_energy(); whoever changes what they hold changes this (tests hold it against the
/// real peak).
struct NeededMemory {
    std::int64_t bytes = 0;
    /// Of these, what the Hartree-Fock iterations may keep of their integrals (TwoElectron): what is needed later
    /// anyway, kFockKept at least.
    std::int64_t fock = 0;
};
NeededMemory needed_memory(const MemoryQuestion& q);

}  // namespace tessera::chem
