#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "chem/spin_bricks.hpp"
#include "chem/triples_rows.hpp"
#include "device/fused.hpp"
#include "device/sharing.hpp"
#include "tessera/comm/world.hpp"

namespace tessera::chem {

namespace {

/// Energies and operations of bricks, a number for each.
struct OfBricks {
    explicit OfBricks(std::size_t n) : energies(n, 0.0), flops(n, 0.0) {}
    TriplesResult summed(Communicator& ranks) {
        if (ranks.size() > 1) {
            ranks.sum(std::span<double>(energies));  // each is zero on all ranks but one
            ranks.sum(std::span<double>(flops));
        }
        TriplesResult out;
        out.energy = tree_sum(energies);
        out.flops = tree_sum(flops);
        return out;
    }
    std::vector<double> energies, flops;
};

constexpr int kLanes = 2;  // of a device: one packs and is planned while the other one computes

/// Bytes of the packed operands of a brick, at most.
double packed_bytes(const SpinBrick& brick, std::span<const kernels::FusedTerm> terms) {
    const auto extents = brick.extents();
    double doubles = 0;
    for (const auto& t : terms) {
        double of_a = 1, of_b = 1;
        for (int n = 0; n < 6; ++n)
            ((t.a_indices >> n & 1U) != 0 ? of_a : of_b) *=
                static_cast<double>(align_up(extents[static_cast<std::size_t>(n)], 8));
        doubles += (of_a + of_b) * static_cast<double>(align_up(t.sum_extent, 32));
    }
    return 8 * doubles;
}

/// What one entry of the device list holds: all arrays; its lanes plan, pack and sum brick after brick.
class Device {
  public:
    Device(int number, const SpinTerms& terms) : number_(number), terms_(terms) {
        device::set_current(number_);
        for (const auto& x : terms.arrays()) {
            host_.push_back(x);
            there_.emplace_back(std::max<std::size_t>(x.size_bytes(), 8));
            if (!x.empty()) device::copy_to_device(there_.back().data(), x.data(), x.size_bytes());
        }
        device::synchronize();
    }
    class Lane {
      public:
        explicit Lane(const Device& of) : of_(of) { device::set_current(of.number_); }
        /// Its energy; the operations that count go to `flops`.
        double energy(const SpinBrick& brick, double& flops) {
            of_.terms_.of(brick, sums_, singles_);
            if (sums_.empty()) return 0;
            flops = counted_flops(brick, sums_);
            for (auto* list : {&sums_, &singles_})
                for (auto& t : *list) {
                    t.a.data = of_.there(t.a.data);
                    t.b.data = of_.there(t.b.data);
                }
            auto epilogue = of_.terms_.epilogue(brick, singles_);
            for (auto& e : epilogue.orbital_energies) e = of_.there(e);
            const device::DeviceFused kernel(brick.extents(), sums_, epilogue);
            device::copy_to_host(&flag_, of_.there_.front().data(),
                                 sizeof flag_);  // what plans write goes by the default stream
            kernel.run(stream_.handle());
            return kernel.energy(stream_.handle());
        }

      private:
        const Device& of_;
        device::Stream stream_;
        std::vector<kernels::FusedTerm> sums_, singles_;
        double flag_ = 0;
    };

  private:
    /// The device's place of an element of an array.
    const double* there(const double* here) const {
        for (std::size_t n = 0; n < host_.size(); ++n)
            if (here >= host_[n].data() && here < host_[n].data() + host_[n].size())
                return static_cast<const double*>(there_[n].data()) + (here - host_[n].data());
        ensure(false, "an operand of (T) is on no device");
        return nullptr;
    }
    int number_;
    const SpinTerms& terms_;
    std::vector<std::span<const double>> host_;
    std::vector<device::DeviceBuffer> there_;
};

/// Bricks that fit; none where `memory` is too little.
std::vector<SpinBrick> bricks_for(const SpinTerms& terms, const SpinOrbitals& orbitals, std::int64_t memory,
                                  double& needed) {
    double arrays = 16 << 20;  // and the allocator's rounding, tables, partial sums
    for (const auto& x : terms.arrays()) arrays += static_cast<double>(x.size_bytes());
    BrickSizes sizes = kDeviceBricks;
    for (;;) {
        auto bricks = spin_bricks(orbitals, sizes);
        double most = 0;
        std::vector<kernels::FusedTerm> sums, singles;
        for (const auto& b : bricks) {
            terms.of(b, sums, singles);
            sums.insert(sums.end(), singles.begin(), singles.end());
            most = std::max(most, packed_bytes(b, sums));
        }
        needed = arrays + kLanes * most;
        if (needed <= static_cast<double>(memory)) return bricks;
        if (sizes.virtuals[0] <= 8) return {};
        sizes.virtuals[0] /= 2;
        for (const std::size_t n : {1, 2}) sizes.virtuals[n] = std::min(sizes.virtuals[n], sizes.virtuals[0]);
    }
}

TriplesResult on_devices(const SpinTerms& terms, const SpinOrbitals& orbitals, std::span<const int> devices,
                         std::int64_t memory, Communicator& ranks, const TriplesProgress& progress) {
    double needed = 0;
    const auto bricks = bricks_for(terms, orbitals, memory, needed);
    TriplesResult out;
    if (bricks.empty()) {
        out.why_not = "(T) needs " + format_bytes(static_cast<std::int64_t>(std::min(needed, 9e18))) +
                      " on a device, which may take " + format_bytes(memory) + ": it ran on the cores";
        return out;
    }
    const double begin = now_seconds();
    std::vector<std::unique_ptr<Device>> workers;
    for (const int d : devices) workers.push_back(std::make_unique<Device>(d, terms));
    const double operands = now_seconds() - begin;
    // Large bricks first: the last ones are soon done.
    std::vector<std::size_t> order(bricks.size());
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = n;
    std::stable_sort(order.begin(), order.end(), [&](auto x, auto y) { return bricks[x].unique > bricks[y].unique; });
    OfBricks found(bricks.size());
    const auto size = static_cast<std::size_t>(ranks.size());
    std::vector<std::exception_ptr> failures(devices.size() * kLanes);
    std::atomic<std::size_t> next = static_cast<std::size_t>(ranks.rank()), done = 0;
    const auto work = [&](std::size_t number) {
        try {
            Device::Lane lane(*workers[number / kLanes]);
            for (std::size_t n; (n = next.fetch_add(size)) < order.size();) {
                const auto at = order[n];
                found.energies[at] = lane.energy(bricks[at], found.flops[at]);
                const auto ready = done.fetch_add(1) + 1;
                if (number == 0 && progress)
                    progress(static_cast<double>(ready * size), static_cast<double>(order.size()));
            }
        } catch (...) {
            failures[number] = std::current_exception();
            next = order.size();
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t n = 1; n < failures.size(); ++n) others.emplace_back(work, n);
        work(0);
    }
    for (const auto& failure : failures)
        if (failure) std::rethrow_exception(failure);
    out = found.summed(ranks);
    out.device_flops = out.flops;
    out.operands_seconds = operands;
    return out;
}

}  // namespace

TriplesResult spin_triples_on_cores(const SpinTerms& terms, std::span<const SpinBrick> bricks, Communicator& ranks,
                                    int threads, const TriplesProgress& progress) {
    OfBricks found(bricks.size());
    const auto mine = [&](std::int64_t n) { return n % ranks.size() == ranks.rank(); };
    // A brick is for one thread: many of them are small.
    const auto count = static_cast<std::int64_t>(bricks.size());
    std::vector<kernels::FusedWorkspace> workspaces(static_cast<std::size_t>(threads));
    const std::int64_t turn = std::max<std::int64_t>(1, count / 20);
    for (std::int64_t first = 0; first < count; first += turn) {
        const auto here = std::min(turn, count - first);
        std::atomic<std::int64_t> next{0};
        parallel_region(threads, [&](int thread, int) {
            kernels::FusedOptions options;
            options.threads = 1;
            options.workspace = &workspaces[static_cast<std::size_t>(thread)];
            std::vector<kernels::FusedTerm> sums, singles;
            for (std::int64_t n; (n = first + next++) < first + here;) {
                if (!mine(n)) continue;
                const auto at = static_cast<std::size_t>(n);
                terms.of(bricks[at], sums, singles);
                if (sums.empty()) continue;
                found.energies[at] =
                    kernels::fused_energy(bricks[at].extents(), sums, terms.epilogue(bricks[at], singles), options);
                found.flops[at] = counted_flops(bricks[at], sums);
            }
        });
        if (progress) progress(static_cast<double>(first + here), static_cast<double>(count));
    }
    return found.summed(ranks);
}

TriplesResult spin_triples(const AntisymmetricIntegrals& integrals, const SpinOrbitals& orbitals, const Amplitudes& t,
                           const TensorWorkers& workers, const TriplesProgress& progress) {
    const int threads = resolve_threads(workers.here.threads);
    const SpinTerms terms(integrals, orbitals, t, threads);
    Communicator& ranks = workers.here.communicator ? *workers.here.communicator : self_communicator();
    const auto bricks = spin_bricks(orbitals, kCoreBricks);
    TriplesResult there;
    if (!workers.here.devices.empty() && !bricks.empty()) {
        const auto memory = device_memory_for(ranks, workers.here.devices, workers.here.device_memory);
        there = on_devices(terms, orbitals, workers.here.devices, memory, ranks, progress);
        if (there.why_not.empty()) return there;
    }
    TriplesResult out = spin_triples_on_cores(terms, bricks, ranks, threads, progress);
    out.why_not = there.why_not;
    return out;
}

}  // namespace tessera::chem
