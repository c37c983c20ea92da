#include "probe/device_pairs.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/hash_fill.hpp"
#include "device/host_device.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

namespace {

constexpr int kRepeats = 4;
constexpr std::int64_t kEdge = 192;  // of the tiles that are multiplied
constexpr std::int64_t kTile = kEdge * kEdge * 8;

double wait_for(Device& device, Device::Event event) {
    while (!device.complete(event)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    const double at = device.seconds(event);
    device.recycle(event);
    return at;
}

/// Seconds of the fastest of some copies on one lane, the first of which does not count.
template <class Copy>
double fastest(Device& device, Lane lane, int repeats, const Copy& copy) {
    double best = 0;
    for (int r = 0; r <= repeats; ++r) {
        const auto begun = device.record(lane);
        copy();
        const double seconds = -wait_for(device, begun) + wait_for(device, device.record(lane));
        if (r > 0 || repeats == 0) best = best > 0 ? std::min(best, seconds) : seconds;
    }
    return std::max(best, 1e-9);
}

/// The products of the cores, in the bits of the cores.
bool products_right(Device& device, Device::Pinned& pinned) {
    std::vector<double> tiles(static_cast<std::size_t>(3 * kEdge * kEdge));
    hash_fill<double>(7, 1, std::span(tiles).first(static_cast<std::size_t>(2 * kEdge * kEdge)));
    const auto list_at = [](std::int64_t base) {
        DeviceProducts list;
        const auto edge = static_cast<std::int32_t>(kEdge);
        list.chains.push_back({base + 2 * kTile, 0, 1, edge, edge, edge, false});
        list.products.push_back({base, base + kTile, edge, edge, edge, false, false, false, false});
        return list;
    };
    multiply_on_host(ScalarKind::f64, list_at(reinterpret_cast<std::int64_t>(tiles.data())));
    std::memcpy(pinned.get(), tiles.data(), 2 * kTile);
    device.copy_in(Lane::compute, device.arena(), pinned.get(), 2 * kTile);
    wait_for(device, device.record(Lane::compute));
    const auto list = list_at(0);
    const auto bytes = device.header_bytes() + device.product_bytes(kEdge, kEdge, 1);
    auto image = device.pinned(bytes);
    ensure(bytes <= device.reserve_bytes(), "{} bytes of descriptors, {} in reserve", bytes, device.reserve_bytes());
    const auto launch = device.prepare(list, image.get());
    device.launch(Lane::compute, *launch, image.get(), device.reserve());
    device.copy_out(Lane::compute, pinned.get(), device.arena() + 2 * kTile, kTile);
    wait_for(device, device.record(Lane::compute));
    return std::memcmp(pinned.get(), tiles.data() + 2 * kEdge * kEdge, kTile) == 0;
}

}  // namespace

bool DevicesCheck::right() const {
    return std::ranges::all_of(devices, [](const auto& d) { return d.copies_right && d.products_right; }) &&
           std::ranges::all_of(pairs, [](const auto& p) { return p.right; });
}

std::int64_t device_check_arena(std::int64_t block_bytes) { return std::max(2 * block_bytes, 3 * kTile); }

DevicesCheck check_devices(std::span<const std::unique_ptr<Device>> devices, std::int64_t block_bytes, double limit,
                           const std::function<void(int, int)>& on_pair) {
    require(block_bytes >= 8 && block_bytes % 8 == 0, "a block of {} bytes: must be a multiple of 8", block_bytes);
    const double start = now_seconds();
    DevicesCheck out;
    const auto n = static_cast<int>(devices.size());
    const auto words = static_cast<std::size_t>(block_bytes / 8);
    std::vector<std::vector<double>> blocks(devices.size(), std::vector<double>(words));
    std::vector<Device::Pinned> pinned;
    for (std::size_t d = 0; d < devices.size(); ++d) {
        hash_fill<double>(mix64(d + 1), 1, blocks[d]);
        pinned.push_back(devices[d]->pinned(std::max(block_bytes, 2 * kTile)));
    }
    const auto holds = [&](int d, const std::byte* from, int whose) {
        auto& device = *devices[d];
        std::memset(pinned[d].get(), 0, static_cast<std::size_t>(block_bytes));
        device.copy_out(Lane::store, pinned[d].get(), from, block_bytes);
        wait_for(device, device.record(Lane::store));
        return std::memcmp(pinned[d].get(), blocks[whose].data(), static_cast<std::size_t>(block_bytes)) == 0;
    };
    for (int d = 0; d < n; ++d) {
        auto& device = *devices[d];
        auto& of = out.devices.emplace_back();
        of.products_right = products_right(device, pinned[d]);
        std::memcpy(pinned[d].get(), blocks[d].data(), static_cast<std::size_t>(block_bytes));
        const auto bytes = static_cast<double>(block_bytes);
        of.from_host = bytes / fastest(device, Lane::load, kRepeats, [&] {
                           device.copy_in(Lane::load, device.arena(), pinned[d].get(), block_bytes);
                       });
        of.to_host = bytes / fastest(device, Lane::store, kRepeats, [&] {
                         device.copy_out(Lane::store, pinned[d].get(), device.arena(), block_bytes);
                     });
        of.copies_right = holds(d, device.arena(), d);
    }
    int done = 0;
    for (int to = 0; to < n; ++to)
        for (int from = 0; from < n; ++from) {
            if (from == to) continue;
            auto& device = *devices[to];
            auto* place = device.arena() + block_bytes;
            device.zero(Lane::copy, place, block_bytes);
            const int repeats = now_seconds() - start < limit ? kRepeats : 0;
            const double seconds = fastest(device, Lane::copy, repeats, [&] {
                device.copy_from(Lane::copy, place, *devices[from], devices[from]->arena(), block_bytes);
            });
            out.pairs.push_back({from, to, holds(to, place, from), static_cast<double>(block_bytes) / seconds});
            on_pair(++done, n * (n - 1));
        }
    out.seconds = now_seconds() - start;
    return out;
}

}  // namespace tessera
