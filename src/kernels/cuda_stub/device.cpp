// Stands in for kernels/cuda/ when CUDA was not there at build time.

#include "kernels/cuda/device.hpp"

#include "kernels/cuda/transpose.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable(why_no_device()); }
}  // namespace

std::string why_no_device() { return "CUDA: this build has no CUDA back end"; }

int device_count() noexcept { return 0; }
DeviceInfo device_info(int) { unavailable(); }
std::int64_t free_bytes(int) { unavailable(); }
void set_device(int) { unavailable(); }
void synchronize() { unavailable(); }
void reset_device() { unavailable(); }
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
double Event::seconds_since(const Event&) const { unavailable(); }

struct DeviceTranspose::Impl {};
DeviceTranspose::DeviceTranspose(std::span<const std::int64_t>, std::span<const int>, int,
                                 std::span<const std::int64_t>, std::span<const std::int64_t>,
                                 const DeviceTransposeTuning&) {
    unavailable();
}
DeviceTranspose::~DeviceTranspose() = default;
DeviceTranspose::DeviceTranspose(DeviceTranspose&&) noexcept = default;
DeviceTranspose& DeviceTranspose::operator=(DeviceTranspose&&) noexcept = default;
const TransposePlan& DeviceTranspose::plan() const { unavailable(); }
std::string DeviceTranspose::description() const { unavailable(); }
template <Scalar T>
void DeviceTranspose::run(const T*, T*, T, T, bool, StreamHandle) const {
    unavailable();
}
template void DeviceTranspose::run<float>(const float*, float*, float, float, bool, StreamHandle) const;
template void DeviceTranspose::run<double>(const double*, double*, double, double, bool, StreamHandle) const;
template void DeviceTranspose::run<std::complex<float>>(const std::complex<float>*, std::complex<float>*,
                                                        std::complex<float>, std::complex<float>, bool,
                                                        StreamHandle) const;
template void DeviceTranspose::run<std::complex<double>>(const std::complex<double>*, std::complex<double>*,
                                                         std::complex<double>, std::complex<double>, bool,
                                                         StreamHandle) const;
void fill_pattern(double*, std::int64_t, StreamHandle) { unavailable(); }
void scatter(std::span<const std::int64_t>, std::span<const int>, const double*, double*, StreamHandle) {
    unavailable();
}
std::int64_t count_mismatches(std::span<const std::int64_t>, std::span<const int>, const double*, const double*) {
    unavailable();
}

}  // namespace tessera::kernels::cuda
