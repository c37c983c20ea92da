#include "chem/triples_energy.hpp"

#include <algorithm>

#include "kernels/triples.hpp"

namespace tessera::chem {

TriplesResult triples_energy(const MoIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             int threads, const std::function<void(double done, double total)>& progress) {
    TriplesResult out;
    kernels::ClosedShellTensors x;
    x.occupied = orbitals.occupied_count();
    x.virtuals = orbitals.virtual_count();
    if (x.occupied < 2 || x.virtuals < 1) return out;  // three electrons of one pair do not exist
    const auto t1 = amplitudes.t1.to_dense(), t2 = amplitudes.t2.to_dense();
    const auto ovvv = integrals.ovvv.to_dense(), ooov = integrals.ooov.to_dense();
    const auto ovov = permute(integrals.oovv, {0, 2, 1, 3}, threads).to_dense();
    x.t1 = t1.data();
    x.t2 = t2.data();
    x.ovov = ovov.data();
    x.ovvv = ovvv.data();
    x.ooov = ooov.data();
    x.occupied_energies = orbitals.occupied_energies.data();
    x.virtual_energies = orbitals.virtual_energies.data();

    // Blocks k <= j <= i of occupied orbitals; the other orders of three ranges give the same energy.
    const std::int64_t size = 1;
    const std::int64_t blocks = (x.occupied + size - 1) / size;
    const auto range = [&](std::int64_t b) { return std::min(size, x.occupied - b * size); };
    kernels::FusedWorkspace workspace;
    kernels::FusedOptions options;
    options.threads = threads;
    options.workspace = &workspace;
    std::int64_t done = 0;
    const std::int64_t total = blocks * (blocks + 1) * (blocks + 2) / 6;
    for (std::int64_t i = 0; i < blocks; ++i)
        for (std::int64_t j = 0; j <= i; ++j)
            for (std::int64_t k = 0; k <= j; ++k) {
                const double orders = i == j && j == k ? 1 : i == j || j == k ? 3 : 6;
                kernels::ClosedShellBlock block;
                kernels::closed_shell_block(x, {k * size, j * size, i * size}, {range(k), range(j), range(i)}, block);
                block.epilogue.scale *= orders;
                out.energy += kernels::fused_energy(block.extents, block.terms, block.epilogue, options);
                out.flops += kernels::fused_flops(block.extents, block.terms);
                if (progress) progress(static_cast<double>(++done), static_cast<double>(total));
            }
    return out;
}

}  // namespace tessera::chem
