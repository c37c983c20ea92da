#pragma once
// How much memory an energy takes, told before it begins.

#include <cstdint>

#include "chem/ao_integrals.hpp"
#include "chem/tensor_work.hpp"
#include "tessera/chem/energy.hpp"

namespace tessera::chem {

struct MemoryQuestion {
    const Basis* basis = nullptr;
    const AoTiling* stored = nullptr;                // tiles of the stored integrals
    const AoTiling* direct = nullptr;                // tiles of those made anew, with Abcd::direct
    const Basis *jkfit = nullptr, *rifit = nullptr;  // auxiliary ones, where integrals are fitted
    std::int64_t occupied = 0, virtuals = 0;
    Method method = Method::ccsd_t;
    Abcd abcd = Abcd::stored;
    std::int64_t tile = 32;  // of orbitals
    int threads = 1;
    TensorWorkers workers;  // of what comes after Hartree-Fock
    bool checkpoint = false, diis_on_disk = false, scf_direct = false;
    bool once_more = false;  // integrals over functions stay for another transformation
    /// CCSD lives on a device, and (T) runs there; with the vectors of DIIS on the host.
    bool on_device = false, vectors_on_host = false;
};

/// Bytes that the process holds at its worst moment: no less, and not much more (tests hold it against the real peak).
/// Tensors and arrays are counted by a DryRun of transform(), ccsd(), triples_energy() and of the Fock matrix; the
/// program, the integral library, matrices and workspaces of kernels are estimates.
struct NeededMemory {
    std::int64_t bytes = 0;
    /// Of these, what the Hartree-Fock iterations may keep of their integrals (TwoElectron): what is needed later
    /// anyway, kFockKept at least.
    std::int64_t fock = 0;
};
NeededMemory needed_memory(const MemoryQuestion& q);

}  // namespace tessera::chem
