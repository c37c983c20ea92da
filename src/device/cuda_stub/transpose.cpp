// Stands in for the transposes of device/cuda/ when CUDA was not there at build time.
#include "device/cuda/transpose.hpp"

#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable(device::why_none()); }
}  // namespace

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
