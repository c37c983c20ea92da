#include "chem/triples_energy.hpp"

#include "chem/dense_array.hpp"
#include "chem/triples_device.hpp"
#include "device/sharing.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::chem {

namespace {

void on_cores(const kernels::ClosedShellTensors& x, int threads, int rank, int size, const TriplesProgress& progress,
              TriplesResult& out) {
    kernels::FusedWorkspace workspace;
    kernels::FusedOptions options;
    options.threads = threads;
    options.workspace = &workspace;
    std::int64_t done = 0;
    const std::int64_t o = x.occupied;
    using Range = TripleBlock::Range;
    const auto add = [&](Range k, Range j, Range i, double orders) {
        if (k.extent < 1 || i.extent < 1) return;
        kernels::ClosedShellBlock block;
        kernels::closed_shell_block(x, {k.begin, j.begin, i.begin}, {k.extent, j.extent, i.extent}, block);
        block.epilogue.scale *= orders;
        out.energy += kernels::fused_energy(block.extents, block.terms, block.epilogue, options);
        out.flops += kernels::fused_flops(block.extents, block.terms);
    };
    // All orders of i, j, k give the same energy. For each j: all k < j < i at once, which stand for six orders, then
    // all (k, j, j), for three; k = j adds nothing. The kernel runs its vectors along the longest of the ranges.
    // Ranks take the j in turn.
    for (std::int64_t j = rank; j < o; j += size) {
        add({0, j}, {j, 1}, {j + 1, o - 1 - j}, 6);
        add({0, o}, {j, 1}, {j, 1}, 3);
        if (progress) progress(static_cast<double>(done += size), static_cast<double>(o));
    }
}

/// The kernel's own copies of its operands, in whole vectors.
std::int64_t workspace_bytes(std::int64_t occupied, std::int64_t virtuals) {
    const auto o = occupied + 8, v = (virtuals + 3) / 4 * 4;
    return 8 * (2 * o * v * v * v + 4 * o * occupied * v * v);
}

}  // namespace

TriplesResult triples_energy(const MoIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             const TensorWorkers& workers, const TriplesProgress& progress) {
    TriplesResult out;
    const int threads = workers.here.threads;
    Communicator* const ranks = workers.here.communicator;
    kernels::ClosedShellTensors x;
    x.occupied = orbitals.occupied_count();
    x.virtuals = orbitals.virtual_count();
    if (x.occupied < 2 || x.virtuals < 1) return out;  // three electrons of one pair do not exist
    const bool dry = DryRun::current();
    const DenseArray t1(amplitudes.t1), t2(amplitudes.t2), ovvv(integrals.ovvv), ooov(integrals.ooov);
    const DenseArray ovov(dry ? integrals.oovv : permute(integrals.oovv, {0, 2, 1, 3}, threads));
    if (dry) {
        const DryArray copies(workspace_bytes(x.occupied, x.virtuals));
        return out;
    }
    x.t1 = t1.data();
    x.t2 = t2.data();
    x.ovov = ovov.data();
    x.ovvv = ovvv.data();
    x.ooov = ooov.data();
    x.occupied_energies = orbitals.occupied_energies.data();
    x.virtual_energies = orbitals.virtual_energies.data();

    const int rank = ranks ? ranks->rank() : 0, size = workers.rank_count();
    bool done_there = false;
    if (!workers.here.devices.empty()) {
        // Nearly what is free where nothing is said.
        Communicator& all = ranks ? *ranks : self_communicator();
        const auto memory = device_memory_for(all, workers.here.devices, workers.here.device_memory);
        out = device_triples(x, workers.here.devices, memory, all, progress);
        done_there = out.why_not.empty();
    }
    if (!done_there) on_cores(x, threads, rank, size, progress, out);
    if (size > 1) {
        double all[] = {out.energy, out.flops, out.device_flops};
        ranks->sum(std::span<double>(all));
        out.energy = all[0];
        out.flops = all[1];
        out.device_flops = all[2];
    }
    return out;
}

}  // namespace tessera::chem
