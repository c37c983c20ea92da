#include "device/memory.hpp"

#include <string>

#include "device/cuda/check.hpp"
#include "device/discovery.hpp"

namespace tessera::device {

using kernels::cuda::check;

void set_current(int device) {
    if (device < 0 || device >= count()) (void)info(device);  // throws, and says why
    check(cudaSetDevice(device), "set device");
}

void synchronize() { check(cudaDeviceSynchronize(), "synchronize"); }
void reset_current() { check(cudaDeviceReset(), "reset"); }

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

void Event::wait() const { check(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "wait for event"); }

Stream::Stream() {
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    stream_ = s;
}

Stream::~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
}

double Event::seconds_since(const Event& earlier) const {
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event_)), "wait for event");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(earlier.event_), static_cast<cudaEvent_t>(event_)),
          "elapsed");
    return 1e-3 * ms;
}

}  // namespace tessera::device
