#pragma once
// Turns CUDA error codes into exceptions. Included by .cu files only.

#include <cuda_runtime.h>

#include <string>

#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

/// Errors of a kernel that already ran; whichever call comes next reports them.
inline bool is_of_kernel(cudaError_t status) {
    return status == cudaErrorIllegalAddress || status == cudaErrorMisalignedAddress ||
           status == cudaErrorIllegalInstruction || status == cudaErrorInvalidPc || status == cudaErrorAssert ||
           status == cudaErrorInvalidAddressSpace || status == cudaErrorLaunchFailure ||
           status == cudaErrorHardwareStackError || status == cudaErrorLaunchTimeout ||
           status == cudaErrorECCUncorrectable;
}

inline void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    const std::string text = is_of_kernel(status) ? std::string("CUDA: a kernel failed: ") +
                                                        cudaGetErrorString(status) + " (noticed at: " + what + ")"
                                                  : std::string("CUDA: ") + what + ": " + cudaGetErrorString(status);
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver || status == cudaErrorInvalidDevice)
        throw BackendUnavailable(text);
    throw MachineError(text);
}

}  // namespace tessera::kernels::cuda
