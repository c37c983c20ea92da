#pragma once
// Runs one rank's steps of a Plan on its devices; the host's part of them on worker threads.

#include <memory>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "device/store.hpp"
#include "execute/cpu/execute.hpp"
#include "tessera/plan/trace.hpp"

namespace tessera {

struct DeviceOptions {
    std::int64_t memory = 0;  // budget of each entry, everything included; 0: what the plan needs
    bool trace = false;       // keep a time line
    /// Pinned host memory for copies in and out, all devices together; at least a few tiles of each are taken. Workers
    /// have pieces of 2 MiB at hand, and rings that stay in the caches spare the memory two trips.
    std::int64_t staging_bytes = std::int64_t{112} << 20;
    int threads = 0;                // that pack and unpack; 0: the plan's
    Communicator* ranks = nullptr;  // of the plan, where there are several
    /// Of each device, where tensors live on some.
    std::vector<DeviceStore*> stores = {};
    /// For tests of failing kernels: this compute step of the rank (counted from 0) runs a kernel that fails.
    std::int64_t fault_at_compute = -1;
};

/// Bytes as they were moved, by device entry.
struct DeviceRun {
    std::int64_t loaded_bytes = 0, stored_bytes = 0, copied_bytes = 0, made_bytes = 0, made_tiles = 0;
    std::int64_t descriptor_bytes = 0;  // lists of products, on top of the plan's bytes
    std::int64_t launches = 0;
    std::int64_t high_water = 0;  // most device memory held at any time
};

struct DeviceExecuteCounts {
    ExecuteCounts host;
    std::vector<DeviceRun> devices;
    Trace trace;  // what really ran, in seconds from the start of the execution; where asked for
    std::int64_t pinned_bytes = 0;
};

/// On this machine's devices; a device may be named more than once, each time with its own memory and streams. Throws
/// BackendUnavailable or MachineError where a device or its memory is not there.
template <Scalar T>
DeviceExecuteCounts execute_devices(const Plan& plan, int rank, std::span<const int> device_ids, const TileSource<T>& a,
                                    const TileSource<T>& b, const TileSink<T>& c, const ExecuteOptions<T>& options,
                                    const DeviceOptions& device_options = {});

/// On devices opened by the caller, each with the arena and reserve that the plan asks for.
template <Scalar T>
DeviceExecuteCounts execute_on(std::span<const std::unique_ptr<Device>> devices, const Plan& plan, int rank,
                               const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                               const ExecuteOptions<T>& options, const DeviceOptions& device_options = {});

/// Whether a device can make the tiles of this operand by itself: they lie there as the generator orders them.
bool device_can_make(const ContractionSpec& spec, Operand operand);

/// UserError where a tile has more rows or columns than a device's descriptions can hold (2^30).
void require_device_extents(const ContractionSpec& spec, const TileGrid& a, const TileGrid& b);

}  // namespace tessera
