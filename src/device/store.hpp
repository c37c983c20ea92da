#pragma once
// A device as the home of tensors: memory that is kept between calls, one stream on which all that is done to tensors
// there follows one another, and what algebra needs of tiles. Plans run beside it on streams of their own (device.hpp).
// A back end defines open_store(); tests put host memory in the place of a device (host_store.hpp).

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "tessera/base/api.hpp"
#include "tessera/base/scalar.hpp"

namespace TESSERA_API tessera {

/// Elements of one tile: what an operation reads and writes.
struct ElementJob {
    const void* x = nullptr;
    const void* y = nullptr;
    void* out = nullptr;
    std::int64_t n = 0;
};
/// Each operation rounds as the host's loop of the same name does.
enum class ElementOperation : std::uint8_t {
    combine,   // out = alpha x + beta y; without the one that is null
    scale,     // out = alpha out, or its conjugate
    add_to,    // out = out + alpha x
    multiply,  // out = x y + out, or + 0: fused
};
struct ElementOptions {
    std::complex<double> alpha = 1, beta = 0;
    bool conjugate_x = false, conjugate_y = false, overwrite = false;
};

/// Elements of one tile laid another way, or summed: out at each point of the kept loops is (what it was, or 0) plus
/// all of x along the summed loops, the last one fastest.
struct StridedJob {
    static constexpr int kMostLoops = 12;
    struct Loop {
        std::int64_t extent = 1, in = 0, out = 0;  // how far it moves, in elements
    };
    const void* x = nullptr;
    void* out = nullptr;
    std::int64_t kept = 1, summed = 1;  // points
    std::int32_t kept_loops = 0, summed_loops = 0;
    bool copies = false;    // nothing is summed: not even 0 is added
    bool adds = false;      // to what out holds
    Loop loop[kMostLoops];  // the kept ones first
};

/// A tile of doubles, each divided by the sum of one number for each of its indices.
struct DivideJob {
    static constexpr int kMostIndices = 6;
    double* out = nullptr;
    const double* term[kMostIndices] = {};  // in the memory of the tile
    std::int32_t extent[kMostIndices] = {};
    std::int32_t indices = 0;
    std::int64_t n = 0;
};

/// A tile that is hash_fill(state, scale).
struct FillJob {
    void* out = nullptr;
    std::uint64_t state = 0;
    double scale = 1;
    std::int64_t n = 0;
};

class DeviceStore {
  public:
    using Memory = std::shared_ptr<std::byte>;
    /// A list of products whose description is in the device's memory, to be run again and again.
    struct Products {
        virtual ~Products() = default;
    };

    virtual ~DeviceStore() = default;
    /// Not initialised; given back behind all work of the stream. Throws MachineError where there is not enough.
    virtual Memory allocate(std::int64_t bytes, const std::string& what) = 0;
    /// Of all memory that is allocated at the moment.
    virtual std::int64_t used_bytes() const = 0;
    /// Of the back end (a cudaStream_t). What follows is done on the stream it is given.
    virtual void* stream() const = 0;
    virtual void synchronize() = 0;

    /// Return when the host's side may be used again.
    virtual void copy_in(void* to, const void* host, std::int64_t bytes) = 0;
    virtual void copy_out(void* host, const void* from, std::int64_t bytes) = 0;
    /// From this device's memory or that of another one, whose stream has come to an end.
    virtual void copy(void* to, const void* from, std::int64_t bytes) = 0;
    virtual void zero(void* to, std::int64_t bytes) = 0;

    virtual void elements(ScalarKind kind, ElementOperation operation, std::span<const ElementJob> jobs,
                          const ElementOptions& options, void* stream) = 0;
    virtual void strided(ScalarKind kind, std::span<const StridedJob> jobs, void* stream) = 0;
    virtual void fill(ScalarKind kind, std::span<const FillJob> jobs, void* stream) = 0;
    virtual void divide(std::span<const DivideJob> jobs) = 0;
    /// Of each job's x: sum_of_squares, and the largest magnitude of its reals (NaN counts as infinity). Waits.
    virtual void squares(ScalarKind kind, std::span<const ElementJob> jobs, std::span<double> sums,
                         std::span<double> tops) = 0;
    /// tile_dot of each job's x and y. Waits.
    virtual void dots(ScalarKind kind, std::span<const ElementJob> jobs, std::span<std::complex<double>> sums) = 0;
    /// Kernels of the caller's own on these tiles, on this store's stream; what it throws passes through.
    virtual void launch(const DeviceLaunch& make, std::span<const DeviceTile> tiles) = 0;

    /// Offsets in the list are addresses.
    virtual std::shared_ptr<Products> prepare(ScalarKind kind, const DeviceProducts& list) = 0;
    virtual void run(const std::shared_ptr<Products>& products) = 0;
};

/// The one of this device; lives as long as the process. Throws BackendUnavailable where there is no such device.
DeviceStore& device_store(int device);
/// Defined by a back end.
std::unique_ptr<DeviceStore> open_store(int device);

/// In the place of the back end's, for tests: devices 0, 1, ... are these until it ends. One at a time.
class StandInStores {
  public:
    explicit StandInStores(std::vector<std::unique_ptr<DeviceStore>> stores);
    ~StandInStores();
    StandInStores(const StandInStores&) = delete;
    StandInStores& operator=(const StandInStores&) = delete;
    static bool in_use();
};

}  // namespace tessera
