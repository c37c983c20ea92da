// Stands in for kernels/cuda/triples.* when CUDA was not there at build time.
#include "kernels/cuda/triples.hpp"
#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable("CUDA: this build has no CUDA back end"); }
}  // namespace

struct DeviceFused::Impl {};
DeviceFused::DeviceFused(const BlockExtents&, std::span<const FusedTerm>, const FusedOutput&) { unavailable(); }
DeviceFused::DeviceFused(const BlockExtents&, std::span<const FusedTerm>, const EnergyEpilogue&) { unavailable(); }
DeviceFused::~DeviceFused() = default;
DeviceFused::DeviceFused(DeviceFused&&) noexcept = default;
DeviceFused& DeviceFused::operator=(DeviceFused&&) noexcept = default;
void DeviceFused::run(StreamHandle) const { unavailable(); }
double DeviceFused::energy(StreamHandle) const { unavailable(); }
std::string DeviceFused::description() const { unavailable(); }

}  // namespace tessera::kernels::cuda
