// Stands in for the device lists of device/cuda/ when CUDA was not there at build time.
#include "device/cuda/grouped_gemm.hpp"

#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

namespace {
[[noreturn]] void unavailable() { throw BackendUnavailable(device::why_none()); }
}  // namespace

void GroupedList::clear() { unavailable(); }
void GroupedList::add_tile(DeviceAddress, std::int64_t, std::int64_t, std::int64_t, bool) { unavailable(); }
void GroupedList::add_product(DeviceAddress, std::int64_t, DeviceAddress, std::int64_t, std::int64_t, std::uint32_t) {
    unavailable();
}
GroupedLaunch GroupedList::plan(int, const GroupedTuning&) { unavailable(); }
void GroupedList::write_image(void*) const { unavailable(); }
std::int64_t grouped_bytes_bound(std::int64_t, std::int64_t, std::int64_t) { unavailable(); }
void run_grouped(const GroupedLaunch&, void*, StreamHandle, const GroupedTuning&) { unavailable(); }

void HashList::add(const HashTile&) { unavailable(); }
HashLaunch HashList::plan() { unavailable(); }
void HashList::write_image(void*) const { unavailable(); }
std::int64_t hash_bytes_bound(std::int64_t, std::int64_t) { unavailable(); }
void run_hash(const HashLaunch&, void*, StreamHandle) { unavailable(); }

}  // namespace tessera::kernels::cuda
