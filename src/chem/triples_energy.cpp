#include "chem/triples_energy.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "chem/dense_array.hpp"
#include "chem/triples_device.hpp"
#include "device/sharing.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::chem {

namespace {

/// (kc|ad) of the runs of k that are in use.
class Panels {
  public:
    Panels(const TriplesIntegrals& from, std::int64_t occupied) : from_(from), runs_(even_tiling(occupied, from.run)) {}
    const Tiling& runs() const { return runs_; }
    /// These three, which may be the same, and no others.
    void hold(std::array<std::int64_t, 3> wanted) {
        std::erase_if(held_, [&](const auto& x) { return std::ranges::find(wanted, x.first) == wanted.end(); });
        for (const auto run : wanted)
            if (!held_.contains(run))
                held_.emplace(run, *from_.ovvv(runs_.begin(TileIndex{run}).value, runs_.size(TileIndex{run})));
    }
    /// Of k and those after it in its run.
    const double* from(std::int64_t k, std::int64_t virtuals) const {
        const auto run = runs_.tile_of(ElementIndex{k});
        return held_.at(run.value).data() + (k - runs_.begin(run).value) * virtuals * virtuals * virtuals;
    }

  private:
    const TriplesIntegrals& from_;
    Tiling runs_;
    std::map<std::int64_t, DenseArray> held_;
};

void on_cores(kernels::ClosedShellTensors x, Panels& panels, int threads, int rank, int size,
              const TriplesProgress& progress, TriplesResult& out) {
    kernels::FusedWorkspace workspace;
    kernels::FusedOptions options;
    options.threads = threads;
    options.workspace = &workspace;
    using Range = TripleBlock::Range;
    const auto add = [&](Range k, Range j, Range i, double orders) {
        if (k.extent < 1 || i.extent < 1) return;
        kernels::ClosedShellBlock block;
        x.ovvv_from = {panels.from(k.begin, x.virtuals), panels.from(j.begin, x.virtuals),
                       panels.from(i.begin, x.virtuals)};
        kernels::closed_shell_block(x, {k.begin, j.begin, i.begin}, {k.extent, j.extent, i.extent}, block);
        block.epilogue.scale *= orders;
        out.energy += kernels::fused_energy(block.extents, block.terms, block.epilogue, options);
        out.flops += kernels::fused_flops(block.extents, block.terms);
    };
    // All orders of i, j, k give the same energy. For each j: all k < j < i at once, which stand for six orders, then
    // all (k, j, j), for three; k = j adds nothing. The kernel runs its vectors along the longest of the ranges.
    // Where (kc|ad) comes in runs of k, so do k, j and i. Ranks take the j in turn.
    const auto runs = panels.runs().tile_count();
    const auto range = [&](std::int64_t run) {
        return Range{panels.runs().begin(TileIndex{run}).value, panels.runs().size(TileIndex{run})};
    };
    double done = 0;
    const double total = static_cast<double>(x.occupied * (runs + 1) * (runs + 2) / 6);
    for (std::int64_t rk = 0; rk < runs; ++rk)
        for (std::int64_t ri = rk; ri < runs; ++ri)
            for (std::int64_t rj = rk; rj <= ri; ++rj) {
                panels.hold({rk, rj, ri});
                const Range all_k = range(rk), all_j = range(rj), all_i = range(ri);
                const auto end_i = all_i.begin + all_i.extent;
                for (auto j = all_j.begin; j < all_j.begin + all_j.extent; ++j) {
                    if (j % size != rank) continue;
                    const auto first_i = std::max(all_i.begin, j + 1);
                    add({all_k.begin, std::min(all_k.extent, j - all_k.begin)}, {j, 1}, {first_i, end_i - first_i}, 6);
                    // Each run of k once for each j: with the j of the last run, and those after it with the first.
                    if (rj == ri)
                        add(all_k, {j, 1}, {j, 1}, 3);
                    else if (rj == rk)
                        add(all_i, {j, 1}, {j, 1}, 3);
                    if (progress) progress(std::min(done += size, total), total);
                }
            }
}

/// The kernel's own copies of its operands, in whole vectors, with at most `most` occupied orbitals in k, j and i.
std::int64_t workspace_bytes(std::int64_t occupied, std::int64_t virtuals, std::int64_t most) {
    const auto o = most + 8, v = (virtuals + 3) / 4 * 4;
    return 8 * (2 * o * v * v * v + 4 * o * occupied * v * v);
}

}  // namespace

TriplesIntegrals stored_triples_integrals(const MoIntegrals& integrals) {
    return {&integrals.oovv, &integrals.ooov,
            [&](std::int64_t, std::int64_t) {
                return std::shared_ptr<const RealTensor>(std::shared_ptr<const RealTensor>(), &integrals.ovvv);
            },
            integrals.ovvv.grid().tiling(0).extent()};
}

TriplesIntegrals fitted_triples_integrals(const FittedOrbitals& b, std::int64_t run, MoIntegrals& kept,
                                          TensorWork& work) {
    kept.oovv = work.product("Qia,Qjb->ijab", b.ov, b.ov);
    kept.ooov = work.product("Qki,Qlc->kilc", b.oo, b.ov);
    return {&kept.oovv, &kept.ooov,
            [&](std::int64_t first, std::int64_t count) {
                const RealTensor rows = rows_of(b.ov, first, even_tiling(count, count), work.threads());
                return std::make_shared<const RealTensor>(work.product("Qkc,Qad->kcad", rows, b.vv));
            },
            run};
}

std::int64_t triples_run(std::int64_t virtuals) {
    return std::max<std::int64_t>(2, (std::int64_t{256} << 20) / (8 * virtuals * virtuals * virtuals));
}

TriplesResult triples_energy(const TriplesIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             const TensorWorkers& workers, const TriplesProgress& progress) {
    TriplesResult out;
    const int threads = workers.here.threads;
    Communicator* const ranks = workers.here.communicator;
    kernels::ClosedShellTensors x;
    x.occupied = orbitals.occupied_count();
    x.virtuals = orbitals.virtual_count();
    if (x.occupied < 2 || x.virtuals < 1) return out;  // three electrons of one pair do not exist
    const bool dry = DryRun::current();
    const DenseArray t1(amplitudes.t1), t2(amplitudes.t2), ooov(*integrals.ooov);
    const std::optional<DenseArray> fock = integrals.fock ? std::optional<DenseArray>(*integrals.fock) : std::nullopt;
    const DenseArray ovov(dry ? *integrals.oovv : permute(*integrals.oovv, {0, 2, 1, 3}, threads));
    Panels panels(integrals, x.occupied);
    if (dry) {
        const auto last = panels.runs().tile_count() - 1;
        panels.hold({0, std::min<std::int64_t>(1, last), last});
        const auto most = std::min(x.occupied, 2 * panels.runs().largest_tile() + 1);
        const DryArray copies(workspace_bytes(x.occupied, x.virtuals, most));
        return out;
    }
    x.t1 = t1.data();
    x.t2 = t2.data();
    x.ovov = ovov.data();
    x.ooov = ooov.data();
    x.occupied_energies = orbitals.occupied_energies.data();
    x.virtual_energies = orbitals.virtual_energies.data();
    if (fock) x.fock = fock->data();

    const int rank = ranks ? ranks->rank() : 0, size = workers.rank_count();
    bool done_there = false;
    if (!workers.here.devices.empty() && fock) {
        out.why_not = "(T) with a Fock matrix between occupied and virtual orbitals runs on the cores";
    } else if (!workers.here.devices.empty()) {
        // Nearly what is free where nothing is said.
        Communicator& all = ranks ? *ranks : self_communicator();
        const DenseArray ovvv(*integrals.ovvv(0, x.occupied));
        x.ovvv = ovvv.data();
        const auto memory = device_memory_for(all, workers.here.devices, workers.here.device_memory);
        out = device_triples(x, workers.here.devices, memory, all, progress);
        done_there = out.why_not.empty();
    }
    if (!done_there) on_cores(x, panels, threads, rank, size, progress, out);
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
