// Stands in for the fused kernel of device/cuda/ when CUDA was not there at build time.
#include "device/fused.hpp"

#include "device/cuda/triples_device.hpp"
#include "device/discovery.hpp"
#include "tessera/base/error.hpp"

namespace tessera::device {

using namespace kernels;

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable(why_none()); }
}  // namespace

struct DeviceFused::Impl {};
DeviceFused::DeviceFused(const BlockExtents&, std::span<const FusedTerm>, const FusedOutput&) { unavailable(); }
DeviceFused::DeviceFused(const BlockExtents&, std::span<const FusedTerm>, const EnergyEpilogue&) { unavailable(); }
DeviceFused::DeviceFused(const BlockExtents&, std::span<const FusedTerm>, const EnergyEpilogue&, const OrbitTable&) {
    unavailable();
}
DeviceFused::~DeviceFused() = default;
DeviceFused::DeviceFused(DeviceFused&&) noexcept = default;
DeviceFused& DeviceFused::operator=(DeviceFused&&) noexcept = default;
void DeviceFused::run(StreamHandle) const { unavailable(); }
void DeviceFused::pack(StreamHandle) const { unavailable(); }
void DeviceFused::pack_piece(int, int, StreamHandle) const { unavailable(); }
void DeviceFused::run_rows(const OrbitRow*, std::int64_t, double*, StreamHandle) const { unavailable(); }
double DeviceFused::energy(StreamHandle) const { unavailable(); }
std::string DeviceFused::description() const { unavailable(); }

}  // namespace tessera::device

namespace tessera::kernels::cuda {
bool walks_here() { return false; }
}  // namespace tessera::kernels::cuda
