#include "execute/device/execute_devices.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "device/host_device.hpp"
#include "device/open_devices.hpp"
#include "execute/device/interpreter.hpp"
#include "machine/device_layout.hpp"

namespace tessera {

bool device_can_make(const ContractionSpec& spec, Operand operand) {
    const MatrixView labels(spec);
    return operand == Operand::a ? spec.a() == labels.batch + labels.m + labels.k
                                 : spec.b() == labels.batch + labels.k + labels.n;
}

void require_device_extents(const ContractionSpec& spec, const TileGrid& a, const TileGrid& b) {
    constexpr std::int64_t most = (std::int64_t{1} << 30) - 1;  // complex ones are counted in reals
    const auto extent_of = [&](char label) {
        const auto at = spec.a().find(label);
        const auto& tiling =
            at != std::string::npos ? a.tiling(static_cast<int>(at)) : b.tiling(static_cast<int>(spec.b().find(label)));
        std::int64_t largest = 0;
        for (std::int64_t t = 0; t < tiling.tile_count(); ++t) largest = std::max(largest, tiling.size(TileIndex{t}));
        return largest;
    };
    const MatrixView labels(spec);
    const auto check = [&](const std::string& group, const char* what) {
        double product = 1;
        for (const char c : group) product *= static_cast<double>(extent_of(c));
        require(product <= static_cast<double>(most),
                "spec '{}': a tile has {:.0f} {}, and devices take at most {}; use smaller tiles or no devices",
                spec.text(), product, what, most);
    };
    check(labels.m, "rows of A");
    check(labels.k, "summed elements");
    check(labels.n, "columns of B");
    check(labels.batch + labels.k, "rows of B with its batch");
}

namespace {

/// Where host memory stands in for devices (tests).
std::vector<std::unique_ptr<Device>> played_devices(std::span<const std::int64_t> arenas, std::int64_t budget,
                                                    ScalarKind kind) {
    std::vector<std::unique_ptr<Device>> devices;
    for (const auto arena : arenas) {
        const auto own = budget > 0 ? budget : device_budget_for(arena);
        ensure(arena + device_reserve_bytes(own) <= own, "a plan with {} bytes of tiles in a device budget of {}",
               arena, own);
        devices.push_back(make_host_device({arena, device_reserve_bytes(own), kind, 0, devices.size()}));
    }
    return devices;
}

}  // namespace

template <Scalar T>
DeviceExecuteCounts execute_on(std::span<const std::unique_ptr<Device>> devices, const Plan& plan, int rank,
                               const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                               const ExecuteOptions<T>& options, const DeviceOptions& device_options) {
    DeviceInterpreter<T> interpreter(devices, plan, rank, a, b, c, options, device_options);
    return interpreter.run();
}

template <Scalar T>
DeviceExecuteCounts execute_devices(const Plan& plan, int rank, std::span<const int> device_ids, const TileSource<T>& a,
                                    const TileSource<T>& b, const TileSink<T>& c, const ExecuteOptions<T>& options,
                                    const DeviceOptions& device_options) {
    std::vector<std::int64_t> arenas;
    for (std::size_t d = 0; d < device_ids.size(); ++d)
        arenas.push_back(plan.device_counts.at(static_cast<std::size_t>(rank * plan.devices_per_rank) + d).peak_bytes);
    // What lives on a device is in the budget, but not in what is opened beside it.
    std::int64_t kept = 0;
    for (const auto* store : device_options.stores) kept = std::max(kept, store->used_bytes());
    if (device_options.memory > 0 && device_options.memory < kept)
        throw BudgetError(
            fmt::format("a device memory of {} ({} bytes) is less than the tensors there take: {} ({} bytes)",
                        format_bytes(device_options.memory), device_options.memory, format_bytes(kept), kept),
            device_options.memory, kept);
    const auto room = device_options.memory > 0 ? device_options.memory - kept : 0;
    for (auto* store : device_options.stores) store->synchronize();
    const auto devices = StandInStores::in_use() ? played_devices(arenas, room, plan.scalar)
                                                 : open_devices(device_ids, arenas, room, plan.scalar);
    return execute_on<T>(devices, plan, rank, a, b, c, options, device_options);
}

#define TESSERA_INSTANTIATE(T)                                                                                    \
    template DeviceExecuteCounts execute_on<T>(std::span<const std::unique_ptr<Device>>, const Plan&, int,        \
                                               const TileSource<T>&, const TileSource<T>&, const TileSink<T>&,    \
                                               const ExecuteOptions<T>&, const DeviceOptions&);                   \
    template DeviceExecuteCounts execute_devices<T>(const Plan&, int, std::span<const int>, const TileSource<T>&, \
                                                    const TileSource<T>&, const TileSink<T>&,                     \
                                                    const ExecuteOptions<T>&, const DeviceOptions&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
