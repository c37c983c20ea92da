#pragma once
// A device as the interpreter of a Plan sees it: one block of memory, a few streams, events, copies, two kernels and
// those of tile sources. Those of a back end are one kind (cuda/), host threads that play a device for tests another
// (host_device.hpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "machine/lane.hpp"
#include "tessera/base/scalar.hpp"
#include "tessera/storage/tile_source.hpp"

namespace tessera {

/// Tile products by byte offsets in the device's arena; rows of all matrices are contiguous.
struct DeviceProduct {
    std::int64_t a = 0, b = 0;
    std::int32_t lda = 0, ldb = 0, k = 0;
    bool conjugate_a = false, conjugate_b = false;
    bool transpose_a = false, transpose_b = false;  // stored k by m, n by k
};
struct DeviceChain {
    std::int64_t c = 0;
    std::int64_t first_product = 0;
    std::int32_t products = 0;
    std::int32_t m = 0, n = 0, ldc = 0;
    bool resume = false;
};
struct DeviceProducts {
    std::vector<DeviceChain> chains;
    std::vector<DeviceProduct> products;
    void clear() {
        chains.clear();
        products.clear();
    }
};

/// A tile that is hash_fill(state, scale), row after row.
struct DeviceHashTile {
    std::int64_t out = 0;
    std::uint64_t state = 0;
    double scale = 1;
    std::int32_t rows = 0, columns = 0, ld = 0;
};

/// One entry of the device list. Calls on one lane come from one thread at a time; different lanes from different ones.
class Device {
  public:
    using Event = void*;
    /// A kernel ready to run: its image has been written to the host buffer it was prepared in.
    struct Launch {
        virtual ~Launch() = default;
        std::int64_t bytes = 0;  // of the image
    };
    using Pinned = std::shared_ptr<std::byte>;

    virtual ~Device() = default;
    virtual std::byte* arena() const = 0;
    virtual std::byte* reserve() const = 0;
    virtual std::int64_t reserve_bytes() const = 0;
    /// What is allocated on the device for this entry: arena and reserve, taken once when it is opened and held until
    /// it is closed, so it is the most at any time.
    virtual std::int64_t high_water() const = 0;
    /// Host memory that copies may use while the caller goes on.
    virtual Pinned pinned(std::int64_t bytes) = 0;

    virtual Event record(Lane lane) = 0;
    virtual void wait(Lane lane, Event event) = 0;
    /// Throws what the device reports as failed.
    virtual bool complete(Event event) = 0;
    /// When a completed event happened, by the clock of now_seconds().
    virtual double seconds(Event event) = 0;
    virtual void recycle(Event event) noexcept = 0;

    virtual void copy_in(Lane lane, std::byte* to, const std::byte* host, std::int64_t bytes) = 0;
    virtual void copy_out(Lane lane, std::byte* host, const std::byte* from, std::int64_t bytes) = 0;
    virtual void copy_from(Lane lane, std::byte* to, const Device& peer, const std::byte* from, std::int64_t bytes) = 0;
    virtual void zero(Lane lane, std::byte* to, std::int64_t bytes) = 0;

    /// At most what an image takes: header_bytes() and, for each tile, this much.
    virtual std::int64_t header_bytes() const = 0;
    virtual std::int64_t product_bytes(std::int64_t m, std::int64_t n, std::int64_t products) const = 0;
    virtual std::int64_t hash_bytes(std::int64_t rows, std::int64_t columns) const = 0;
    virtual std::unique_ptr<Launch> prepare(const DeviceProducts& list, std::byte* image) = 0;
    virtual std::unique_ptr<Launch> prepare(const std::vector<DeviceHashTile>& list, std::byte* image) = 0;
    /// Takes the image from pinned memory to the device and runs it; not by way of the loads, which are many and long.
    virtual void launch(Lane lane, const Launch& launch, const std::byte* image, std::byte* device_image) = 0;
    /// Kernels of a tile source's own; what it throws passes through.
    virtual void launch(Lane lane, const DeviceLaunch& make, std::span<const DeviceTile> tiles) = 0;
    /// Work that is given the lane's stream, as a DeviceStore takes it: on tensors that live on the device.
    virtual void launch(Lane lane, std::function<void(void* stream)> work) = 0;
    /// A kernel that fails: for tests of failing kernels.
    virtual void fault(Lane lane) = 0;

    /// Returns when nothing runs any more; for shutting down.
    virtual void drain() noexcept = 0;
};

}  // namespace tessera
