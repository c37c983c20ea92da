#pragma once
// CUDA devices without CUDA types: what benches, tests and the executor need. Without CUDA at build time
// device_count() is 0 and everything else throws BackendUnavailable (cuda_stub/).

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace tessera::kernels::cuda {

/// A CUDA stream (cudaStream_t); nullptr is the default stream.
using StreamHandle = void*;

/// 0 without a driver, a device, or CUDA at build time. Never throws.
int device_count() noexcept;
/// Where device_count() is 0, the reason for people: no driver, a driver too old for this program, no device.
std::string why_no_device();

struct DeviceInfo {
    std::string name;
    std::string driver;  // of the kernel module, e.g. 580.159.04, or the CUDA version it supports
    int cuda_version = 0;
    int multiprocessors = 0;
    int compute_capability = 0;  // 90 for 9.0
    std::int64_t memory_bytes = 0;
    std::int64_t l2_bytes = 0;
    std::uint64_t identity = 0;  // the same for all processes, of all nodes: who shares a device
};
/// Throws BackendUnavailable when there is no such device.
DeviceInfo device_info(int device);
/// Device memory that nobody holds at the moment. Throws BackendUnavailable when there is no such device.
std::int64_t free_bytes(int device);
void set_device(int device);
void synchronize();
/// Ends all that this process has on the current device, which then holds nothing of it: for leak checkers, at the end.
void reset_device();

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

class Event {
  public:
    Event();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(StreamHandle stream = nullptr);
    /// Waits for both.
    double seconds_since(const Event& earlier) const;

  private:
    void* event_ = nullptr;
};

}  // namespace tessera::kernels::cuda
