#pragma once
// Turns CUDA error codes into exceptions. Included by .cu files only.

#include <cuda_runtime.h>

#include <string>

#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

inline void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    const std::string text = std::string("CUDA: ") + what + ": " + cudaGetErrorString(status);
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || status == cudaErrorInvalidDevice)
        throw BackendUnavailable(text);
    throw MachineError(text);
}

}  // namespace tessera::kernels::cuda
