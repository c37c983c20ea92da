// Stands in for device/cuda/ when CUDA was not there at build time.
#include "device/memory.hpp"

#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera::device {

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable(why_none()); }
}  // namespace

std::string why_none() { return "CUDA: this build has no CUDA back end"; }

std::string_view back_end() noexcept { return {}; }
int count() noexcept { return 0; }
Info info(int) { unavailable(); }
std::int64_t free_bytes(int) { unavailable(); }
bool reaches(int, int) { unavailable(); }
void set_current(int) { unavailable(); }
void synchronize() { unavailable(); }
void reset_current() { unavailable(); }
DeviceBuffer::DeviceBuffer(std::size_t) { unavailable(); }
DeviceBuffer::~DeviceBuffer() = default;
PinnedRange::PinnedRange(void*, std::int64_t) : data_(nullptr) { unavailable(); }
PinnedRange::~PinnedRange() = default;
void copy_to_device(void*, const void*, std::size_t, StreamHandle) { unavailable(); }
void copy_to_host(void*, const void*, std::size_t, StreamHandle) { unavailable(); }
void copy_on_device(void*, const void*, std::size_t, StreamHandle) { unavailable(); }
void fill_bytes(void*, int, std::size_t, StreamHandle) { unavailable(); }
Event::Event() { unavailable(); }
Event::~Event() = default;
void Event::record(StreamHandle) { unavailable(); }
void Event::wait() const { unavailable(); }
Stream::Stream() { unavailable(); }
Stream::~Stream() = default;
double Event::seconds_since(const Event&) const { unavailable(); }

}  // namespace tessera::device
