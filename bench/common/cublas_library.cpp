#include "cublas_library.hpp"

#include <dlfcn.h>

#include "tessera/base/error.hpp"

namespace tessera::bench {

namespace {
using Create = int (*)(void**);
using Destroy = int (*)(void*);
using GetVersion = int (*)(void*, int*);
using Dgemm = int (*)(void*, int, int, int, int, int, const double*, const double*, int, const double*, int,
                      const double*, double*, int);
using DgemmBatched = int (*)(void*, int, int, int, int, int, const double*, const void*, int, const void*, int,
                             const double*, void*, int, int);
}  // namespace

CublasLibrary::CublasLibrary() {
    for (const char* name :
         {"libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so"})
        if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    const auto create = reinterpret_cast<Create>(dlsym(library_, "cublasCreate_v2"));
    const auto version = reinterpret_cast<GetVersion>(dlsym(library_, "cublasGetVersion_v2"));
    dgemm_ = dlsym(library_, "cublasDgemm_v2");
    batched_ = dlsym(library_, "cublasDgemmBatched");
    destroy_ = dlsym(library_, "cublasDestroy_v2");
    if (create == nullptr || dgemm_ == nullptr || destroy_ == nullptr || create(&handle_) != 0) {
        handle_ = nullptr;
        return;
    }
    int number = 0;
    if (version != nullptr && version(handle_, &number) == 0) version_ = std::to_string(number);
}

CublasLibrary::~CublasLibrary() {
    if (handle_ != nullptr) reinterpret_cast<Destroy>(destroy_)(handle_);
    // The library stays loaded: unloading it under a live CUDA context is not safe.
}

void CublasLibrary::dgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                          double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
                          double beta, double* c, std::int64_t ldc) const {
    const int status =
        reinterpret_cast<Dgemm>(dgemm_)(handle_, transpose_a ? 1 : 0, transpose_b ? 1 : 0, static_cast<int>(m),
                                        static_cast<int>(n), static_cast<int>(k), &alpha, a, static_cast<int>(lda), b,
                                        static_cast<int>(ldb), &beta, c, static_cast<int>(ldc));
    if (status != 0) throw MachineError("cublasDgemm: status " + std::to_string(status));
}

void CublasLibrary::dgemm_batched(int m, int n, int k, double alpha, const void* a, int lda, const void* b, int ldb,
                                  double beta, void* c, int ldc, int count) const {
    const int status =
        reinterpret_cast<DgemmBatched>(batched_)(handle_, 0, 0, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc, count);
    if (status != 0) throw MachineError("cublasDgemmBatched: status " + std::to_string(status));
}

}  // namespace tessera::bench
