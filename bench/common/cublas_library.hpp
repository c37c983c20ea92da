#pragma once
// cuBLAS, opened at run time where it is installed: benchmarks hold results against it, nothing depends on it.

#include <cstdint>
#include <string>

namespace tessera::bench {

class CublasLibrary {
  public:
    CublasLibrary();
    ~CublasLibrary();
    CublasLibrary(const CublasLibrary&) = delete;
    CublasLibrary& operator=(const CublasLibrary&) = delete;

    bool available() const { return handle_ != nullptr; }
    const std::string& version() const { return version_; }
    /// C = alpha op(A) op(B) + beta C, column-major, device pointers, on the default stream.
    void dgemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, double alpha,
               const double* a, std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c,
               std::int64_t ldc) const;
    bool has_batched() const { return available() && batched_ != nullptr; }
    /// The same for `count` products given by arrays of pointers in device memory.
    void dgemm_batched(int m, int n, int k, double alpha, const void* a, int lda, const void* b, int ldb, double beta,
                       void* c, int ldc, int count) const;

  private:
    void *library_ = nullptr, *handle_ = nullptr, *dgemm_ = nullptr, *batched_ = nullptr, *destroy_ = nullptr;
    std::string version_;
};

}  // namespace tessera::bench
