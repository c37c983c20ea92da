// The linker's --wrap sends every call of these functions of the CUDA runtime here.
#include <atomic>
#include <cstddef>

#include "support/cuda_handles.hpp"

namespace {

std::atomic<int> taken{0}, returned{0};

int took(int status) {
    if (status == 0) ++taken;
    return status;
}
/// Given back, whatever the runtime says to it: behind a kernel that failed every call returns its error.
template <class Handle>
int give_back(int (*call)(Handle*), Handle* handle) {
    if (handle != nullptr) ++returned;
    return call(handle);
}

}  // namespace

extern "C" {
int __real_cudaMalloc(void**, std::size_t);
int __real_cudaFree(void*);
int __real_cudaHostRegister(void*, std::size_t, unsigned);
int __real_cudaHostUnregister(void*);
int __real_cudaStreamCreateWithFlags(void**, unsigned);
int __real_cudaStreamDestroy(void*);
int __real_cudaEventCreate(void**);
int __real_cudaEventDestroy(void*);

int __wrap_cudaMalloc(void** p, std::size_t bytes) { return took(__real_cudaMalloc(p, bytes)); }
int __wrap_cudaFree(void* p) { return give_back(__real_cudaFree, p); }
int __wrap_cudaHostRegister(void* p, std::size_t bytes, unsigned flags) {
    return took(__real_cudaHostRegister(p, bytes, flags));
}
int __wrap_cudaHostUnregister(void* p) { return give_back(__real_cudaHostUnregister, p); }
int __wrap_cudaStreamCreateWithFlags(void** s, unsigned flags) {
    return took(__real_cudaStreamCreateWithFlags(s, flags));
}
int __wrap_cudaStreamDestroy(void* s) { return give_back(__real_cudaStreamDestroy, s); }
int __wrap_cudaEventCreate(void** e) { return took(__real_cudaEventCreate(e)); }
int __wrap_cudaEventDestroy(void* e) { return give_back(__real_cudaEventDestroy, e); }
}

namespace tessera::testing {

CudaHandles cuda_handles() { return {taken, returned}; }

}  // namespace tessera::testing
