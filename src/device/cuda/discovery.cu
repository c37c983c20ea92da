#include "device/discovery.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "base/hash.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/store.hpp"
#include "device/memory.hpp"

namespace tessera::device {

using kernels::cuda::check;

namespace {

/// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ...": the word that is a number.
std::string kernel_module_version() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string line;
    std::getline(file, line);
    std::istringstream words(line);
    for (std::string word; words >> word;)
        if (!word.empty() && word.find_first_not_of("0123456789.") == std::string::npos &&
            word.find('.') != std::string::npos)
            return word;
    return "";
}

std::string version_text(int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); }

std::string absence_text(cudaError_t status, int driver, int runtime) {
    if (driver == 0) return "CUDA: there is no NVIDIA driver on this machine";
    if (status == cudaErrorInsufficientDriver)
        return "CUDA: the driver is too old: it supports CUDA " + version_text(driver) + ", this program needs " +
               version_text(runtime);
    if (status == cudaSuccess || status == cudaErrorNoDevice) return "CUDA: this machine has no device";
    return std::string("CUDA: ") + cudaGetErrorString(status);
}

/// Throws where there is no such device, and says why.
void require_device(int device) {
    const int there = count();
    if (there == 0) throw BackendUnavailable(why_none());
    if (device < 0 || device >= there)
        throw BackendUnavailable("CUDA device " + std::to_string(device) + ": this machine has " +
                                 std::to_string(there) + ", numbered from 0");
}

}  // namespace

std::string_view back_end() noexcept { return "CUDA"; }

int count() noexcept {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();  // not an error of whoever asks next
        return 0;
    }
    return count;
}

std::string why_none() {
    int count = 0;
    const auto status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) cudaGetLastError();
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    return absence_text(status, driver, runtime);
}

namespace {

Info read_info(int device) {
    cudaDeviceProp p{};
    check(cudaGetDeviceProperties(&p, device), "device properties");
    Info info;
    info.name = p.name;
    int version = 0;
    check(cudaDriverGetVersion(&version), "driver version");
    info.driver = kernel_module_version();
    if (info.driver.empty()) info.driver = "CUDA " + version_text(version);
    info.multiprocessors = p.multiProcessorCount;
    info.compute_capability = 10 * p.major + p.minor;
    info.memory_bytes = static_cast<std::int64_t>(p.totalGlobalMem);
    info.l2_bytes = p.l2CacheSize;
    static_assert(sizeof p.uuid == 16);
    std::memcpy(&info.identity, &p.uuid, sizeof info.identity);
    std::uint64_t rest = 0;
    std::memcpy(&rest, reinterpret_cast<const char*>(&p.uuid) + 8, sizeof rest);
    info.identity = mix64(info.identity) ^ rest;
    return info;
}

}  // namespace

Info info(int device) {
    require_device(device);
    // Asking the driver takes milliseconds, as long as a small contraction; the answer does not change.
    static std::mutex mutex;
    static std::map<int, Info> known;
    const std::lock_guard lock(mutex);
    const auto at = known.find(device);
    return at != known.end() ? at->second : known.emplace(device, read_info(device)).first->second;
}

bool reaches(int device, int other) {
    require_device(device);
    require_device(other);
    if (device == other) return true;
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, device, other), "peer access");
    return can != 0;
}

std::int64_t free_bytes(int device) {
    set_current(device);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "free memory");
    return static_cast<std::int64_t>(free) + kernels::cuda::kept_pool_bytes(device);
}

}  // namespace tessera::device
