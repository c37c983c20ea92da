#pragma once
// The devices of this machine: how many, what they are, what is free. A back end defines these (cuda/); where none is
// built (cuda_stub/), count() is 0 and what needs a device throws BackendUnavailable.

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {
namespace device {

/// What devices are driven by: "CUDA", or nothing where no back end was built.
std::string_view back_end() noexcept;
/// 0 without a driver, a device, or a back end at build time. Never throws.
int count() noexcept;
/// Where count() is 0, the reason for people: no driver, a driver too old for this program, no device.
std::string why_none();

struct Info {
    std::string name;
    std::string driver;  // of the kernel module, e.g. 580.159.04, or the version of its interface
    int multiprocessors = 0;
    int compute_capability = 0;  // 90 for 9.0
    std::int64_t memory_bytes = 0;
    std::int64_t l2_bytes = 0;
    std::uint64_t identity = 0;  // the same for all processes, of all nodes: who shares a device
};
/// Throws BackendUnavailable when there is no such device.
Info info(int device);
/// Device memory that nobody holds at the moment. Throws BackendUnavailable when there is no such device.
std::int64_t free_bytes(int device);
/// Whether this device reads the memory of that one itself; else copies between them pass the host.
bool reaches(int device, int other);

}  // namespace device
}  // namespace tessera
