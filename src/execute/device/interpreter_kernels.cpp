// Products and made tiles: lists of descriptors, packed into a ring and run from the device's reserve.

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "execute/device/interpreter.hpp"

namespace tessera {

namespace {

std::int32_t small(std::int64_t n) {
    ensure(n >= 0 && n <= std::numeric_limits<std::int32_t>::max(), "{} rows or columns of a device tile", n);
    return static_cast<std::int32_t>(n);
}

}  // namespace

/// The products of a step, launched in portions that fit the descriptor memory several times over, so that the next
/// portion travels while one runs.
template <Scalar T>
struct DeviceInterpreter<T>::Batch {
    DeviceInterpreter& self;
    int d;
    std::int64_t limit;
    DeviceProducts list{};
    std::int64_t bound = 0;
    double flops = 0;

    void launch() {
        if (!list.chains.empty()) self.launch_list(d, Lane::compute, list, bound);
        list.clear();
        bound = 0;
    }
    /// Room for this much more, in this portion or the next.
    void reserve(std::int64_t bytes) {
        auto& device = *self.entries_[static_cast<std::size_t>(d)]->device;
        if (bound > 0 && bound + bytes > limit) launch();
        if (bound == 0) bound = device.header_bytes();
        bound += bytes;
    }
};

template <Scalar T>
template <class List>
void DeviceInterpreter<T>::launch_list(int d, Lane lane, const List& list, std::int64_t bound) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    const auto at = e.images.ring->take(bound, stopped());
    if (!at) return;
    const auto launch = e.device->prepare(list, e.images.at(*at));
    ensure(launch->bytes <= bound, "descriptors of {} bytes in room for {}", launch->bytes, bound);
    auto* image = e.device->reserve() + *at;
    e.device->launch(lane, *launch, e.images.at(*at), image);
    e.streams[static_cast<int>(lane)]->mark([&e, offset = *at](double) { e.images.ring->give(offset); });
    e.descriptor_bytes += launch->bytes;
    ++e.launches;
}

template <Scalar T>
void DeviceInterpreter<T>::add_chain(Batch& batch, const PlanChain& chain) {
    auto& device = *entries_[static_cast<std::size_t>(batch.d)]->device;
    const auto& sum = plan_.sums[static_cast<std::size_t>(chain.sum)];
    ensure(sum.device == batch.d && chain.parts == 1, "chain of sum {} is not one of device {}", chain.sum, batch.d);
    const auto& lc = tiles_c_[sum.c];
    if (chain.products == 0) {
        const auto at = sum.offset < 0 ? offset_there(batch.d, Operand::c, sum.c) : sum.offset;
        const bool there = plan_.home(Operand::c, sum.c) >= 0;
        const auto bytes = there ? lc.elements * static_cast<std::int64_t>(sizeof(T)) : lc.bytes;
        if (chain.starts) device.zero(Lane::compute, device.arena() + at, bytes);
        return;
    }
    // A tile whose description is more than a portion is computed in several, cut where thread blocks' shares end.
    constexpr std::int64_t kCut = 128;
    auto rows = lc.rows, cols = lc.cols;
    while (device.header_bytes() + device.product_bytes(rows, cols, 1) > batch.limit && std::max(rows, cols) > kCut) {
        auto& longer = rows >= cols ? rows : cols;
        longer = align_up((longer + 1) / 2, kCut);
    }
    for (std::int64_t h = 0; h < lc.batch; ++h)
        for (std::int64_t row = 0; row < lc.rows; row += rows)
            for (std::int64_t col = 0; col < lc.cols; col += cols)
                add_part(batch, chain, {h, row, col, std::min(rows, lc.rows - row), std::min(cols, lc.cols - col)});
}

template <Scalar T>
void DeviceInterpreter<T>::add_part(Batch& batch, const PlanChain& chain, const TilePart& part) {
    auto& device = *entries_[static_cast<std::size_t>(batch.d)]->device;
    const auto& sum = plan_.sums[static_cast<std::size_t>(chain.sum)];
    const auto& lc = tiles_c_[sum.c];
    const auto element = static_cast<std::int64_t>(sizeof(T));
    // Sums of a tile that stays are laid as it is, so that they can be added to it.
    const bool as_stored = plan_.home(Operand::c, sum.c) >= 0 && lc.plain;
    const auto at_c = as_stored ? lc.stored_at(part.batch, part.row, part.col, element)
                                : lc.laid_at(part.batch, part.row, part.col, element);
    const auto c = at_c.bytes + (sum.offset < 0 ? offset_there(batch.d, Operand::c, sum.c) : sum.offset);
    const auto matrix = [&](Operand o, std::int32_t slot, std::int32_t arrival, std::int64_t row, std::int64_t col) {
        const auto& l = tiles(o)[slot];
        auto at = arrival < 0 ? l.stored_at(part.batch, row, col, element) : l.laid_at(part.batch, row, col, element);
        at.bytes +=
            arrival < 0 ? offset_there(batch.d, o, slot) : plan_.arrivals[static_cast<std::size_t>(arrival)].offset;
        return at;
    };
    bool starts = chain.starts;
    std::int32_t done = 0;
    while (done < chain.products) {
        // As many products as fit a portion; a longer chain resumes its sum in the next.
        std::int32_t count = chain.products - done;
        while (count > 1 && device.header_bytes() + device.product_bytes(part.rows, part.cols, count) > batch.limit)
            count = (count + 1) / 2;
        batch.reserve(device.product_bytes(part.rows, part.cols, count));
        batch.list.chains.push_back({c, static_cast<std::int64_t>(batch.list.products.size()), count, small(part.rows),
                                     small(part.cols), small(at_c.ld), !starts});
        for (std::int32_t i = done; i < done + count; ++i) {
            const auto& p = plan_.products[static_cast<std::size_t>(chain.first_product + i)];
            const auto at = plan_.places_of(chain.first_product + i);
            const auto& la = tiles_a_[p.a];
            const auto a = matrix(Operand::a, p.a, at.a, part.row, 0), b = matrix(Operand::b, p.b, at.b, 0, part.col);
            batch.list.products.push_back({a.bytes, b.bytes, small(a.ld), small(b.ld), small(la.cols),
                                           options_.conjugate_a, options_.conjugate_b, a.transposed, b.transposed});
            batch.flops +=
                kFlopsPerMultiplyAdd<T> * static_cast<double>(part.rows * part.cols) * static_cast<double>(la.cols);
        }
        done += count;
        starts = false;
        if (done < chain.products) batch.launch();  // one list must not hold a sum twice
    }
}

template <Scalar T>
void DeviceInterpreter<T>::compute_lane(int d) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    for (;;) {
        const auto step = scheduler_.next(stream_of(d, Lane::compute));
        if (step < 0) return;
        const auto& s = plan_.steps[static_cast<std::size_t>(step)];
        begin_step(d, Lane::compute, step);
        if (s.kind == StepKind::finish || s.kind == StepKind::merge) {
            if (s.kind == StepKind::finish)
                finish_there(d, s);
            else
                merge_there(d, s);
            end_step(d, Lane::compute, step, 0);
            continue;
        }
        if (computes_++ == device_options_.fault_at_compute) e.device->fault(Lane::compute);
        Batch batch{*this, d, e.images.ring->bytes() / 4};
        for (auto i = s.begin; i < s.end && !scheduler_.failed(); ++i)
            add_chain(batch, plan_.chains[static_cast<std::size_t>(i)]);
        batch.launch();
        end_step(d, Lane::compute, step, 0, batch.flops);
    }
}

template <Scalar T>
void DeviceInterpreter<T>::make_lane(int d) {
    auto& e = *entries_[static_cast<std::size_t>(d)];
    const auto limit = e.images.ring->bytes() / 4;
    std::vector<DeviceHashTile> list;
    std::vector<DeviceTile> own;  // for device code of their source
    const auto& generator = host_.source(Operand::b).on_device;
    for (;;) {
        const auto step = scheduler_.next(stream_of(d, Lane::make));
        if (step < 0) return;
        const auto& s = plan_.steps[static_cast<std::size_t>(step)];
        begin_step(d, Lane::make, step);
        std::int64_t bound = 0, total = 0;
        const auto launch = [&] {
            if (!list.empty()) launch_list(d, Lane::make, list, bound);
            list.clear();
            bound = 0;
        };
        for (auto i = s.begin; i < s.end && !scheduler_.failed(); ++i) {
            const auto& t = plan_.arrivals[static_cast<std::size_t>(i)];
            const auto& l = tiles(t.operand)[t.slot];
            ensure(t.operand == Operand::b && makes_tiles(generator) && l.plain,
                   "tile {} of step {} cannot be made on a device", t.slot, step);
            auto info = tile_info(plan_.b.grid(), plan_.b.tile(t.slot));
            if (const auto* rule = std::get_if<HashRule>(&generator)) {
                const auto values = (*rule)(info);
                const auto bytes = e.device->hash_bytes(l.all_rows(), l.cols);
                if (bound > 0 && bound + bytes > limit) launch();
                if (bound == 0) bound = e.device->header_bytes();
                bound += bytes;
                list.push_back({t.offset, values.state, values.scale, small(l.all_rows()), small(l.cols), small(l.ld)});
            } else {
                own.push_back({std::move(info), e.device->arena() + t.offset, l.all_rows(), l.cols, l.ld});
            }
            total += t.bytes;
            ++e.run.made_tiles;
        }
        launch();
        if (!own.empty() && !scheduler_.failed()) {
            e.device->launch(Lane::make, std::get<DeviceLaunch>(generator), own);
            ++e.launches;
        }
        own.clear();
        e.run.made_bytes += total;
        end_step(d, Lane::make, step, total);
    }
}

template class DeviceInterpreter<float>;
template class DeviceInterpreter<double>;
template class DeviceInterpreter<std::complex<float>>;
template class DeviceInterpreter<std::complex<double>>;

}  // namespace tessera
