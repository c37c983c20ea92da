#include "chem/triples_device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <thread>

#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "device/discovery.hpp"
#include "device/fused.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kLane = 8, kLoop = 4;  // the kernel's tile: 8 of one occupied index, 4 of the others

std::int64_t round_up(std::int64_t x, std::int64_t unit) { return (x + unit - 1) / unit * unit; }

/// The tensors of the correction in the memory of one device.
class DeviceTensors {
  public:
    explicit DeviceTensors(const kernels::ClosedShellTensors& host) : device_(host) {
        const auto o = host.occupied, v = host.virtuals;
        const double** to[] = {&device_.t1,
                               &device_.t2,
                               &device_.ovov,
                               &device_.ovvv,
                               &device_.ooov,
                               &device_.occupied_energies,
                               &device_.virtual_energies};
        const std::int64_t count[] = {o * v, o * o * v * v, o * o * v * v, o * v * v * v, o * o * o * v, o, v};
        for (std::size_t n = 0; n < buffers_.size(); ++n) {
            const auto bytes = static_cast<std::size_t>(count[n]) * sizeof(double);
            buffers_[n] = device::DeviceBuffer(bytes);
            device::copy_to_device(buffers_[n].data(), *to[n], bytes);
            *to[n] = static_cast<const double*>(buffers_[n].data());
        }
    }
    const kernels::ClosedShellTensors& tensors() const { return device_; }

  private:
    kernels::ClosedShellTensors device_;
    std::array<device::DeviceBuffer, 7> buffers_;
};

struct BlockResult {
    double energy = 0, flops = 0;
};

BlockResult run_block(const kernels::ClosedShellTensors& x, const TripleBlock& b) {
    kernels::ClosedShellBlock block;
    kernels::closed_shell_block(x, {b.k.begin, b.j.begin, b.i.begin}, {b.k.extent, b.j.extent, b.i.extent}, block);
    block.epilogue.scale *= b.orders;
    const device::DeviceFused kernel(block.extents, block.terms, block.epilogue);
    kernel.run();
    return {kernel.energy(), kernels::fused_flops(block.extents, block.terms)};
}

}  // namespace

std::vector<TripleBlock> device_blocks(std::int64_t occupied, std::int64_t longest_k) {
    std::vector<TripleBlock> out;
    const auto add = [&](TripleBlock::Range k, TripleBlock::Range j, TripleBlock::Range i, double orders) {
        for (std::int64_t first = 0; first < k.extent; first += longest_k)
            out.push_back({{k.begin + first, std::min(longest_k, k.extent - first)}, j, i, orders});
    };
    // k below both others: six orders. j and i of one tile with a k outside of it: three. All of one tile: all orders
    // are in the block.
    for (std::int64_t j = 0; j < occupied; j += kLoop) {
        const TripleBlock::Range tile{j, std::min(kLoop, occupied - j)};
        const auto end = j + tile.extent;
        for (std::int64_t i = end; i < occupied; i += kLoop) add({0, j}, tile, {i, std::min(kLoop, occupied - i)}, 6);
        add({0, j}, tile, tile, 3);
        add({end, occupied - end}, tile, tile, 3);
        add(tile, tile, tile, 1);
    }
    return out;
}

double device_triples_bytes(std::int64_t occupied, std::int64_t virtuals, std::int64_t longest_k, int multiprocessors) {
    const auto o = static_cast<double>(occupied), v = static_cast<double>(virtuals);
    const auto k = static_cast<double>(round_up(std::min(longest_k, occupied), kLane));
    const auto po = static_cast<double>(round_up(occupied, kLane)), pv = static_cast<double>(round_up(virtuals, kLane));
    const auto l = static_cast<double>(kLane);
    const double tensors = o * v * v * v + 2 * o * o * v * v + o * o * o * v + o * v + o + v;
    // Each occupied index is in two of the six operands (v v v) and in four of the six (o v v); those of the sum over
    // occupied orbitals likewise. All is padded to whole tiles, as if every one were the longest.
    const double packed = 2 * (k + 2 * l) * pv * pv * pv + 2 * (2 * k * l + l * l) * pv * pv +
                          2 * po * (2 * k * l + l * l) * pv + 2 * po * (k + 2 * l) * pv * pv;
    const double singles = 2 * (3 * k * l * pv * pv + 3 * k * pv);
    const double tiles = pv / kLoop;
    const double orbits = k / kLane * 4 * tiles * (tiles + 1) * (tiles + 2) / 6;
    const double scratch = 2.0 * multiprocessors * 6 * 8192;
    return 8 * (tensors + packed + singles + 8 * orbits + scratch) +
           (32 << 20);  // tables, and the allocator's rounding
}

TriplesResult device_triples(const kernels::ClosedShellTensors& host, std::span<const int> devices, std::int64_t memory,
                             Communicator& ranks, const TriplesProgress& progress) {
    TriplesResult out;
    // All ranks must cut alike.
    int most = 0;
    for (const int d : devices) most = std::max(most, device::info(d).multiprocessors);
    const int multiprocessors = static_cast<int>(largest_on_all(ranks, most));
    std::int64_t longest_k = round_up(host.occupied, kLane);
    const auto bytes = [&] { return device_triples_bytes(host.occupied, host.virtuals, longest_k, multiprocessors); };
    while (longest_k > kLane && bytes() > static_cast<double>(memory)) longest_k -= kLane;
    if (bytes() > static_cast<double>(memory)) {
        out.why_not = "(T) needs " + format_bytes(static_cast<std::int64_t>(std::min(bytes(), 9e18))) +
                      " on a device, which may take " + format_bytes(memory) + ": it ran on the cores";
        return out;
    }
    std::vector<TripleBlock> mine;
    const auto all = device_blocks(host.occupied, longest_k);
    for (auto n = static_cast<std::size_t>(ranks.rank()); n < all.size(); n += static_cast<std::size_t>(ranks.size()))
        mine.push_back(all[n]);

    // Each entry takes the next block; the sum is in their order, whoever did them.
    std::vector<BlockResult> results(mine.size());
    std::vector<std::exception_ptr> failures(devices.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&](std::size_t entry) {
        try {
            device::set_current(devices[entry]);
            const DeviceTensors x(host);
            for (std::size_t n; (n = next.fetch_add(1)) < mine.size();) {
                results[n] = run_block(x.tensors(), mine[n]);
                if (entry == 0 && progress) progress(static_cast<double>(n + 1), static_cast<double>(mine.size()));
            }
        } catch (...) {
            failures[entry] = std::current_exception();
            next = mine.size();
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t entry = 1; entry < devices.size(); ++entry) others.emplace_back(work, entry);
        work(0);
    }
    for (const auto& failure : failures)
        if (failure) std::rethrow_exception(failure);
    for (const auto& r : results) {
        out.energy += r.energy;
        out.flops += r.flops;
    }
    out.device_flops = out.flops;
    return out;
}

}  // namespace tessera::chem
