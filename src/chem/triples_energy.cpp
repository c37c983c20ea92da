#include "chem/triples_energy.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "base/hash.hpp"
#include "chem/dense_array.hpp"
#include "chem/triples_block.hpp"
#include "chem/triples_device.hpp"
#include "chem/triples_rows.hpp"
#include "device/sharing.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kPanelBytes = std::int64_t{768} << 20;  // of (kc|ad) at a time, where it is made

/// (kc|ad) of the ranges of c and a that are in use.
class Panels {
  public:
    Panels(const TriplesIntegrals& from, int threads) : from_(from), threads_(threads) {}
    /// Those of a part, and no others.
    VirtualPanels of(const TriplesPart& part) {
        VirtualPanels out;
        out.first = part.begin;
        out.extent = part.extent;
        const auto key = [&](std::size_t p, std::size_t q) { return std::pair(part.begin[p], part.begin[q]); };
        std::erase_if(held_, [&](const auto& x) {
            for (std::size_t p = 0; p < 3; ++p)
                for (std::size_t q = 0; q < 3; ++q)
                    if (p != q && x.first == key(p, q)) return false;
            return true;
        });
        for (std::size_t p = 0; p < 3; ++p)
            for (std::size_t q = 0; q < 3; ++q) {
                if (p == q) continue;
                const auto range = [&](std::size_t n) {
                    return ElementRange{part.begin[n], part.begin[n] + part.extent[n]};
                };
                if (!held_.contains(key(p, q))) held_.try_emplace(key(p, q), *from_.ovvv(range(p), range(q)), threads_);
                out.at[p][q] = held_.at(key(p, q)).data();
            }
        return out;
    }

  private:
    const TriplesIntegrals& from_;
    int threads_;
    std::map<std::pair<std::int64_t, std::int64_t>, DenseArray> held_;
};

/// All of (kc|ad) where it is small or stored anyway, else the six panels of three ranges.
std::int64_t longest_range(std::int64_t occupied, std::int64_t virtuals, bool fitted) {
    const auto all = (virtuals + 7) / 8 * 8;
    const double row = 8.0 * static_cast<double>(occupied * virtuals), most = static_cast<double>(kPanelBytes);
    if (!fitted || row * static_cast<double>(virtuals * virtuals) <= most) return all;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::sqrt(most / (6 * row))) / 8 * 8, 8, all);
}

/// Of the orbital energies, amplitudes and integrals.
std::uint64_t key_of(const TriplesIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes) {
    std::uint64_t key = 0;
    const auto add = [&](std::uint64_t x) { key = combine(key, x); };
    for (const auto* energies : {&orbitals.occupied_energies, &orbitals.virtual_energies})
        for (const double e : *energies) add(std::bit_cast<std::uint64_t>(e));
    add(checksum(amplitudes.t1));
    add(checksum(amplitudes.t2));
    if (const FittedOrbitals* b = integrals.fitted) {
        for (const auto* x : {&b->oo, &b->ov, &b->vv}) add(checksum(*x));
    } else {
        for (const auto* x : {&integrals.oovv(), &integrals.ooov(), &*integrals.ovvv({}, {})}) add(checksum(*x));
    }
    if (integrals.fock) add(checksum(*integrals.fock));
    return key;
}

double on_cores(const kernels::ClosedShellTensors& x, Panels& panels, std::span<const TriplesPart> parts, int threads,
                Communicator& ranks, const TriplesProgress& progress, TriplesRecord* record, std::uint64_t key,
                double& recorded) {
    kernels::FusedWorkspace workspace;
    kernels::FusedOptions options;
    options.threads = threads;
    options.workspace = &workspace;
    std::vector<std::vector<TriplesBox>> boxes;
    double total = 0, done = 0;
    for (const auto& part : parts) {
        boxes.push_back(core_boxes(part));
        total += static_cast<double>(boxes.back().size());
    }
    std::vector<double> known(static_cast<std::size_t>(total), std::nan(""));
    if (record) {
        for (const auto& p : parts)
            for (std::size_t n = 0; n < 3; ++n) key = combine(combine(key, p.begin[n]), p.extent[n]);
        known = record->open(key, known.size());
    }
    recorded = known_share(known);
    std::vector<double> energies;  // of all boxes, zero where they are another rank's
    kernels::ClosedShellBlock block;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        // Ranks may share the work of panels: all of them make those, or none does.
        const auto of_part = std::span(known).subspan(energies.size(), boxes[p].size());
        const bool some = std::ranges::any_of(of_part, [](double e) { return std::isnan(e); });
        const VirtualPanels here = some ? panels.of(parts[p]) : VirtualPanels();
        for (const auto& box : boxes[p]) {
            const auto number = energies.size();
            energies.push_back(0);
            if (static_cast<int>(energies.size() % static_cast<std::size_t>(ranks.size())) == ranks.rank()) {
                if (!std::isnan(known[number])) {
                    energies.back() = known[number];
                } else {
                    triples_block(x, box.begin, box.extent, block, &here);
                    block.epilogue.scale *= box.orders;
                    energies.back() = kernels::fused_energy(block.extents, block.terms, block.epilogue, options);
                    if (record) record->done(number, energies.back());
                }
            }
            if (progress) progress(++done, total);
        }
    }
    if (ranks.size() > 1) ranks.sum(std::span<double>(energies));
    return tree_sum(energies);
}

/// The kernel's own copies of the operands of a box, in whole vectors.
std::int64_t workspace_bytes(std::int64_t occupied, std::int64_t virtuals) {
    const auto o = occupied + 4;
    return 8 * (virtuals + 2 * o) * (4 * 32 * 8 + 2 * 8 * 8 + (2 * 32 + 4 * 8) * o) * o;
}

/// B goes there, or stored integrals.
TriplesResult on_devices(const kernels::ClosedShellTensors& x, const TriplesIntegrals& integrals,
                         const TensorWorkers& workers, std::int64_t memory, Communicator& ranks,
                         const TriplesProgress& progress, TriplesRecord* record, std::uint64_t key) {
    DeviceTriplesInput input;
    input.tensors = x;
    const int threads = workers.here.threads;
    if (const FittedOrbitals* b = integrals.fitted) {
        const DenseArray oo(b->oo, threads), ov(b->ov, threads), vv(b->vv, threads);
        input.auxiliary = b->ov.grid().tiling(0).extent();
        input.oo = oo.data();
        input.ov = ov.data();
        input.vv = vv.data();
        return device_triples(input, workers.here.devices, memory, ranks, progress, record, key);
    }
    const DenseArray ooov(integrals.ooov(), threads), ovvv(*integrals.ovvv({}, {}), threads);
    const DenseArray ovov(permute(integrals.oovv(), {0, 2, 1, 3}, threads), threads);
    input.tensors.ooov = ooov.data();
    input.tensors.ovov = ovov.data();
    input.tensors.ovvv = ovvv.data();
    return device_triples(input, workers.here.devices, memory, ranks, progress, record, key);
}

}  // namespace

double triples_flops(std::int64_t occupied, std::int64_t virtuals) {
    const auto o = static_cast<double>(occupied), v = static_cast<double>(virtuals);
    return 2 * v * v * v * (v + o) * o * (o + 1) * (o + 2);
}

TriplesIntegrals stored_triples_integrals(const MoIntegrals& integrals) {
    return {[&]() -> const RealTensor& { return integrals.oovv; },
            [&]() -> const RealTensor& { return integrals.ooov; },
            nullptr,
            [&](ElementRange, ElementRange) {
                return std::shared_ptr<const RealTensor>(std::shared_ptr<const RealTensor>(), &integrals.ovvv);
            },
            0,
            nullptr};
}

TriplesIntegrals fitted_triples_integrals(const FittedOrbitals& b, MoIntegrals& kept, TensorWork& work) {
    return {[&]() -> const RealTensor& { return kept.oovv = work.product("Qia,Qjb->ijab", b.ov, b.ov); },
            [&]() -> const RealTensor& { return kept.ooov = work.product("Qki,Qlc->kilc", b.oo, b.ov); },
            &b,
            [&](ElementRange c, ElementRange a) {
                const auto tiles = [](ElementRange x) { return even_tiling(x.hi - x.lo, 32); };
                const RealTensor columns = columns_of(b.ov, c.lo, tiles(c), work.threads());
                const RealTensor rows = rows_of(b.vv, a.lo, tiles(a), work.threads());
                return std::make_shared<const RealTensor>(work.product("Qkc,Qad->kcad", columns, rows));
            },
            0,
            nullptr};
}

TriplesResult triples_energy(const TriplesIntegrals& integrals, const Orbitals& orbitals, const Amplitudes& amplitudes,
                             const TensorWorkers& workers, const TriplesProgress& progress, TriplesRecord* record) {
    TriplesResult out;
    const int threads = workers.here.threads;
    kernels::ClosedShellTensors x;
    x.occupied = orbitals.occupied_count();
    x.virtuals = orbitals.virtual_count();
    if (x.occupied < 2 || x.virtuals < 1) return out;  // three electrons of one pair do not exist
    const bool dry = DryRun::current();
    const DenseArray t1(amplitudes.t1, threads), t2(amplitudes.t2, threads);
    const std::optional<DenseArray> fock = integrals.fock ? std::optional<DenseArray>(*integrals.fock) : std::nullopt;
    if (fock) x.fock = fock->data();
    x.t1 = t1.data();
    x.t2 = t2.data();
    x.occupied_energies = orbitals.occupied_energies.data();
    x.virtual_energies = orbitals.virtual_energies.data();
    const auto key = record ? key_of(integrals, orbitals, amplitudes) : 0;
    Communicator& ranks = workers.here.communicator ? *workers.here.communicator : self_communicator();
    if (!workers.here.devices.empty() && fock) {
        out.why_not = "(T) with a Fock matrix between occupied and virtual orbitals runs on the cores";
    } else if (!workers.here.devices.empty() && !dry) {
        // Nearly what is free where nothing is said.
        const auto memory = device_memory_for(ranks, workers.here.devices, workers.here.device_memory);
        out = on_devices(x, integrals, workers, memory, ranks, progress, record, key);
        if (out.why_not.empty()) return out;
    }
    const DenseArray ooov(integrals.ooov(), threads);
    const DenseArray ovov(dry ? integrals.oovv() : permute(integrals.oovv(), {0, 2, 1, 3}, threads), threads);
    Panels panels(integrals, threads);
    const auto parts = triples_parts(
        x.virtuals,
        integrals.longest > 0 ? integrals.longest : longest_range(x.occupied, x.virtuals, integrals.fitted != nullptr));
    if (dry) {
        panels.of(parts.front());
        for (const auto& part : parts)
            if (!part.same(0, 1) && !part.same(1, 2)) {  // the first that has six
                panels.of(part);
                break;
            }
        const DryArray copies(workspace_bytes(x.occupied, x.virtuals));
        return out;
    }
    x.ovov = ovov.data();
    x.ooov = ooov.data();
    out.energy = on_cores(x, panels, parts, threads, ranks, progress, record, key, out.recorded);
    out.flops = triples_flops(x.occupied, x.virtuals);
    return out;
}

}  // namespace tessera::chem
