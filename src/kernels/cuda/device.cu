#include "kernels/cuda/device.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "base/hash.hpp"
#include "kernels/cuda/check.hpp"

namespace tessera::kernels::cuda {

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
    const int count = device_count();
    if (count == 0) throw BackendUnavailable(why_no_device());
    if (device < 0 || device >= count)
        throw BackendUnavailable("CUDA device " + std::to_string(device) + ": this machine has " +
                                 std::to_string(count) + ", numbered from 0");
}

}  // namespace

int device_count() noexcept {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();  // not an error of whoever asks next
        return 0;
    }
    return count;
}

std::string why_no_device() {
    int count = 0;
    const auto status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) cudaGetLastError();
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    return absence_text(status, driver, runtime);
}

namespace {

DeviceInfo read_info(int device) {
    cudaDeviceProp p{};
    check(cudaGetDeviceProperties(&p, device), "device properties");
    DeviceInfo info;
    info.name = p.name;
    check(cudaDriverGetVersion(&info.cuda_version), "driver version");
    info.driver = kernel_module_version();
    if (info.driver.empty()) info.driver = "CUDA " + version_text(info.cuda_version);
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

DeviceInfo device_info(int device) {
    require_device(device);
    // Asking the driver takes milliseconds, as long as a small contraction; the answer does not change.
    static std::mutex mutex;
    static std::map<int, DeviceInfo> known;
    const std::lock_guard lock(mutex);
    const auto at = known.find(device);
    return at != known.end() ? at->second : known.emplace(device, read_info(device)).first->second;
}

std::int64_t free_bytes(int device) {
    set_device(device);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "free memory");
    return static_cast<std::int64_t>(free);
}

void set_device(int device) {
    require_device(device);
    check(cudaSetDevice(device), "set device");
}

void synchronize() { check(cudaDeviceSynchronize(), "synchronize"); }
void reset_device() { check(cudaDeviceReset(), "reset"); }

DeviceBuffer::DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    const auto status = cudaMalloc(&data_, bytes);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        throw MachineError("CUDA: no " + std::to_string(bytes) + " bytes of device memory");
    }
    check(status, "allocate");
}

DeviceBuffer::~DeviceBuffer() {
    if (data_ != nullptr) cudaFree(data_);
}

PinnedRange::PinnedRange(void* data, std::int64_t bytes) : data_(data) {
    check(cudaHostRegister(data, static_cast<std::size_t>(bytes), cudaHostRegisterPortable | cudaHostRegisterMapped),
          "pinned memory");
}
PinnedRange::~PinnedRange() { cudaHostUnregister(data_); }

void copy_to_device(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream)),
          "copy to device");
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "copy to device");
}

void copy_to_host(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, static_cast<cudaStream_t>(stream)), "copy to host");
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "copy to host");
}

void copy_on_device(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
          "copy on device");
}

void fill_bytes(void* to, int value, std::size_t bytes, StreamHandle stream) {
    check(cudaMemsetAsync(to, value, bytes, static_cast<cudaStream_t>(stream)), "fill");
}

Event::Event() {
    cudaEvent_t e = nullptr;
    check(cudaEventCreate(&e), "event");
    event_ = e;
}

Event::~Event() {
    if (event_ != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event_));
}

void Event::record(StreamHandle stream) {
    check(cudaEventRecord(static_cast<cudaEvent_t>(event_), static_cast<cudaStream_t>(stream)), "record");
}

double Event::seconds_since(const Event& earlier) const {
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "wait for event");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(earlier.event_), static_cast<cudaEvent_t>(event_)),
          "elapsed");
    return 1e-3 * ms;
}

}  // namespace tessera::kernels::cuda
