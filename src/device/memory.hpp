#pragma once
// Memory of the device that is current on this thread, copies and events, by handles of no back end's type: what fused
// kernels, benches and tests need. (The interpreter of plans has its own view, device.hpp.) Without a back end all of
// it throws BackendUnavailable.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {
namespace device {

/// A stream of the back end (cudaStream_t); nullptr is the default stream.
using StreamHandle = void*;

/// Throws BackendUnavailable when there is no such device.
void set_current(int device);
void synchronize();
/// Ends all that this process has on the current device, which then holds nothing of it: for leak checkers, at the end.
void reset_current();

/// Device memory. Throws MachineError when there is not enough.
class DeviceBuffer {
  public:
    DeviceBuffer() = default;
    explicit DeviceBuffer(std::size_t bytes);
    ~DeviceBuffer();
    DeviceBuffer(DeviceBuffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    void* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

  private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

/// Host memory of the caller, pinned while this lives: copies from and to it need no staging.
class PinnedRange {
  public:
    PinnedRange(void* data, std::int64_t bytes);
    ~PinnedRange();
    PinnedRange(const PinnedRange&) = delete;
    PinnedRange& operator=(const PinnedRange&) = delete;

  private:
    void* data_;
};

/// Host copies return when the host side may be reused; the device copy and the fill are asynchronous on the stream.
void copy_to_device(void* to, const void* from, std::size_t bytes, StreamHandle stream = nullptr);
void copy_to_host(void* to, const void* from, std::size_t bytes, StreamHandle stream = nullptr);
void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream = nullptr);
void fill_bytes(void* to, int value, std::size_t bytes, StreamHandle stream = nullptr);

/// A stream that waits for no other one.
class Stream {
  public:
    Stream();
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    StreamHandle handle() const { return stream_; }

  private:
    StreamHandle stream_ = nullptr;
};

class Event {
  public:
    Event();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(StreamHandle stream = nullptr);
    void wait() const;
    /// Waits for both.
    double seconds_since(const Event& earlier) const;

  private:
    void* event_ = nullptr;
};

}  // namespace device
}  // namespace tessera
