#include "chem/triples_device.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/units.hpp"
#include "chem/triples_block.hpp"
#include "chem/triples_rows.hpp"
#include "comm/same_on_all.hpp"
#include "device/discovery.hpp"
#include "device/fused.hpp"
#include "device/products.hpp"

namespace tessera::chem {

namespace {

constexpr std::int64_t kLane = 8, kLoop = 4;  // the kernel's tiles

device::DeviceBuffer buffer_of(std::int64_t doubles) {
    return device::DeviceBuffer(static_cast<std::size_t>(doubles) * 8);
}
double* data_of(const device::DeviceBuffer& x) { return static_cast<double*>(x.data()); }

/// What the device of this thread holds, and its work.
class Worker {
  public:
    Worker(const DeviceTriplesInput& host, std::span<const TriplesPart> parts,
           std::span<const std::vector<device::OrbitRow>> rows_of_parts, std::int64_t most_rows, std::size_t chunks)
        : host_(host),
          parts_(parts),
          rows_of_parts_(rows_of_parts),
          most_rows_(most_rows),
          x_(host.tensors),
          energies_(buffer_of(static_cast<std::int64_t>(chunks))) {
        const auto o = x_.occupied, v = x_.virtuals;
        upload(x_.t1, o * v);
        upload(x_.t2, o * o * v * v);
        upload(x_.occupied_energies, o);
        upload(x_.virtual_energies, v);
        slab_ = buffer_of(std::min(o, kLoop) * v * v * v);
        x_.ovvv = data_of(slab_);
        if (host.auxiliary == 0) {
            upload(x_.ovov, o * o * v * v);
            upload(x_.ooov, o * o * o * v);
            return;
        }
        oo_ = host.oo;
        ov_ = host.ov;
        vv_ = host.vv;
        upload(oo_, host.auxiliary * o * o);
        upload(ov_, host.auxiliary * o * v);
        upload(vv_, host.auxiliary * v * v);
        double* const ovov = reserve(o * o * v * v);
        double* const ooov = reserve(o * o * o * v);
        product(ovov, ov_, o * v, o * v, ov_, o * v);
        product(ooov, oo_, o * o, o * o, ov_, o * v);
        x_.ovov = ovov;
        x_.ooov = ooov;
    }

    /// Asynchronous, once the operands of its part are packed.
    void start(const TriplesChunk& chunk, std::size_t number) {
        if (!kernel_ || part_ != chunk.part) pack(chunk.part);
        kernel_->run_rows(static_cast<const device::OrbitRow*>(rows_.data()) + chunk.first, chunk.count,
                          data_of(energies_) + number, work_.handle());
        done_[turn_++ % 2].record(work_.handle());
    }
    /// Waits for the one before the last one that was started, or for the last one; `number` is which.
    double energy(std::size_t number, bool last) const {
        done_[(last ? turn_ + 1 : turn_) % 2].wait();
        double value = 0;
        device::copy_to_host(&value, data_of(energies_) + number, sizeof value, copies_.handle());
        return value;
    }

  private:
    void upload(const double*& x, std::int64_t count) {
        double* const to = reserve(count);
        device::copy_to_device(to, x, static_cast<std::size_t>(count) * 8, work_.handle());
        x = to;
    }
    double* reserve(std::int64_t count) {
        buffers_.push_back(buffer_of(count));
        return data_of(buffers_.back());
    }
    /// c = a^T b, summed over Q; a has `columns` columns of `lda`.
    void product(double* c, const double* a, std::int64_t lda, std::int64_t columns, const double* b, std::int64_t n) {
        const device::MatrixProduct p{c, a, b, columns, n, host_.auxiliary, n, lda, n, true};
        products_.run({&p, 1}, work_.handle());
    }
    /// All operands of a part; (kc|ad) for four k at a time, which is made here or sent.
    void pack(std::size_t part) {
        kernel_.reset();
        part_ = part;
        const TriplesPart& p = parts_[part];
        triples_block(x_, p.begin, p.extent, block_);
        device::OrbitTable table;
        table.most_rows = most_rows_;
        for (int n = 0; n < static_cast<int>(block_.terms.size()); ++n)
            if (const auto* at = block_.terms[static_cast<std::size_t>(n)].a.data;
                at >= data_of(slab_) && at < data_of(slab_) + slab_.bytes() / 8)
                table.in_pieces.push_back(n);
        kernel_.emplace(block_.extents, block_.terms, block_.epilogue, table);
        kernel_->pack(work_.handle());
        const auto o = x_.occupied, v = x_.virtuals;
        for (std::int64_t k = 0; k < o; k += kLoop) {
            const auto count = std::min(kLoop, o - k);
            if (host_.auxiliary > 0)
                product(data_of(slab_), ov_ + k * v, o * v, count * v, vv_, v * v);
            else
                device::copy_to_device(slab_.data(), host_.tensors.ovvv + k * v * v * v,
                                       static_cast<std::size_t>(count * v * v * v) * 8, work_.handle());
            for (const int term : table.in_pieces)
                kernel_->pack_piece(term, static_cast<int>(k / kLoop), work_.handle());
        }
        const auto& rows = rows_of_parts_[part];
        const auto bytes = rows.size() * sizeof(device::OrbitRow);
        if (rows_.bytes() < bytes) rows_ = device::DeviceBuffer(bytes);
        device::copy_to_device(rows_.data(), rows.data(), bytes, work_.handle());  // waits for all of it
    }

    const DeviceTriplesInput& host_;
    std::span<const TriplesPart> parts_;
    std::span<const std::vector<device::OrbitRow>> rows_of_parts_;
    std::int64_t most_rows_;
    kernels::ClosedShellTensors x_;  // of the device
    const double *oo_ = nullptr, *ov_ = nullptr, *vv_ = nullptr;
    device::Stream work_, copies_;
    device::Event done_[2];
    std::size_t turn_ = 0;
    std::vector<device::DeviceBuffer> buffers_;
    device::DeviceBuffer slab_, rows_, energies_;
    device::MatrixProducts products_;
    kernels::ClosedShellBlock block_;
    std::optional<device::DeviceFused> kernel_;
    std::size_t part_ = 0;
};

}  // namespace

double device_triples_bytes(std::int64_t occupied, std::int64_t virtuals, std::int64_t auxiliary, std::int64_t longest,
                            int multiprocessors) {
    const auto o = static_cast<double>(occupied), v = static_cast<double>(virtuals), q = static_cast<double>(auxiliary);
    const auto po = static_cast<double>(align_up(occupied, kLoop));
    const auto g = static_cast<double>(align_up(std::min(longest, virtuals), kLane));
    const auto sum = static_cast<double>(align_up(occupied + virtuals, kLane));
    const double tensors = 2 * o * o * v * v + o * o * o * v + o * v + o + v + q * (o * o + o * v + v * v);
    const double slab = static_cast<double>(std::min(occupied, kLoop)) * v * v * v;
    // Six splits, each with an operand of two virtual orbitals and one of two occupied ones; and three disconnected
    // terms.
    const double packed = 6 * sum * (po * g * g + po * po * g) + 3 * (2 * po * g + po * po * g * g);
    const double tiles = po / kLoop, orbits = tiles * (tiles + 1) * (tiles + 2) / 6;
    const double most_rows = std::min(65536.0, 1 + 1e13 / (12 * 128 * po * po * po * (o + v)));
    const double rows = 20 * (g / kLoop) * (g / kLoop) * (g / kLane + 1);
    const double scratch = 2.0 * multiprocessors * 6 * 8192;
    return 8 * (tensors + slab + packed + 8 * orbits * most_rows + scratch) + rows +
           (48 << 20);  // tables, the description of a product, and the allocator's rounding
}

TriplesResult device_triples(const DeviceTriplesInput& input, std::span<const int> devices, std::int64_t memory,
                             Communicator& ranks, const TriplesProgress& progress, TriplesRecord* record,
                             std::uint64_t key) {
    TriplesResult out;
    const auto o = input.tensors.occupied, v = input.tensors.virtuals;
    // All ranks must cut alike.
    int most = 0;
    for (const int d : devices) most = std::max(most, device::info(d).multiprocessors);
    const int multiprocessors = static_cast<int>(largest_on_all(ranks, most));
    std::int64_t longest = align_up(v, kLane);
    const auto bytes = [&] { return device_triples_bytes(o, v, input.auxiliary, longest, multiprocessors); };
    for (std::int64_t ranges = 2; longest > kLane && bytes() > static_cast<double>(memory); ++ranges)
        longest = align_up((v + ranges - 1) / ranges, kLane);
    if (bytes() > static_cast<double>(memory)) {
        out.why_not = "(T) needs " + format_bytes(static_cast<std::int64_t>(std::min(bytes(), 9e18))) +
                      " on a device, which may take " + format_bytes(memory) + ": it ran on the cores";
        return out;
    }
    kernels::check_denominators({o, o, o, v, v, v}, {input.tensors.occupied_energies, input.tensors.occupied_energies,
                                                     input.tensors.occupied_energies, input.tensors.virtual_energies,
                                                     input.tensors.virtual_energies, input.tensors.virtual_energies});
    const auto parts = triples_parts(v, longest);
    std::vector<std::vector<device::OrbitRow>> rows;
    for (const auto& p : parts) rows.push_back(device_rows(p));
    const auto chunks = triples_chunks(rows, o, v);
    std::int64_t most_rows = 0;
    for (const auto& c : chunks) most_rows = std::max(most_rows, c.count);

    // Ranks take the chunks in turn; each entry takes the next one of its rank.
    std::vector<double> energies(chunks.size(), 0.0), known(chunks.size(), std::nan(""));
    if (record) {
        key = combine(combine(key, 1), longest);  // of devices
        for (const auto& c : chunks) key = combine(combine(combine(key, c.part), c.first), c.count);
        known = record->open(key, chunks.size());
        out.recorded = known_share(known);
    }
    std::vector<std::exception_ptr> failures(devices.size());
    const auto size = static_cast<std::size_t>(ranks.size());
    std::atomic<std::size_t> next = static_cast<std::size_t>(ranks.rank()), done = 0;
    const double begin = now_seconds();
    const auto work = [&](std::size_t entry) {
        try {
            device::set_current(devices[entry]);
            Worker worker(input, parts, rows, most_rows, chunks.size());
            // One is in work while the next one waits on the device.
            std::optional<std::size_t> before;
            const auto take = [&](std::size_t of, bool last) {
                energies[of] = worker.energy(of, last);
                if (record) record->done(of, energies[of]);
                const auto ready = done.fetch_add(1) + 1;
                if (entry == 0 && progress)
                    progress(static_cast<double>(ready * size), static_cast<double>(chunks.size()));
            };
            for (std::size_t n; (n = next.fetch_add(size)) < chunks.size();) {
                if (!std::isnan(known[n])) {
                    energies[n] = known[n];
                    ++done;
                    continue;
                }
                worker.start(chunks[n], n);
                if (entry == 0 && !before) out.operands_seconds = now_seconds() - begin;
                if (before) take(*before, false);
                before = n;
            }
            if (before) take(*before, true);
        } catch (...) {
            failures[entry] = std::current_exception();
            next = chunks.size();
        }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t entry = 1; entry < devices.size(); ++entry) others.emplace_back(work, entry);
        work(0);
    }
    for (const auto& failure : failures)
        if (failure) std::rethrow_exception(failure);
    if (size > 1) ranks.sum(std::span<double>(energies));  // each is zero on all ranks but one
    out.energy = tree_sum(energies);
    out.flops = out.device_flops = triples_flops(o, v);
    return out;
}

}  // namespace tessera::chem
