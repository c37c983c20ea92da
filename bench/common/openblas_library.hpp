#pragma once
// OpenBLAS, opened at run time where it is installed: rates are held against it, nothing depends on it.

#include <cstdint>
#include <string>

namespace tessera::bench {

class OpenblasLibrary {
  public:
    /// Opens it on one thread, with the kernels of this processor: releases older than a processor may take it for a
    /// very old one. OPENBLAS_CORETYPE in the environment has the last word.
    OpenblasLibrary();
    OpenblasLibrary(const OpenblasLibrary&) = delete;
    OpenblasLibrary& operator=(const OpenblasLibrary&) = delete;

    bool available() const { return dgemm_ != nullptr; }
    /// Why it is not available, as in "OpenBLAS is not installed".
    const std::string& missing() const { return missing_; }
    const std::string& version() const { return version_; }
    const std::string& core() const { return core_; }

    /// Whether a limit on the address space (ulimit -v) leaves room for this many threads. Where it does not, OpenBLAS
    /// waits for its memory for ever.
    static bool has_room(int threads);
    void set_threads(int threads) const;
    /// C = A B + beta C, column-major.
    void dgemm(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t lda, const double* b,
               std::int64_t ldb, double beta, double* c, std::int64_t ldc) const;

  private:
    bool open(const char* file);

    void *library_ = nullptr, *dgemm_ = nullptr, *set_threads_ = nullptr;
    std::string missing_, version_, core_;
};

/// What a limit on the address space counts, in bytes.
std::uint64_t address_space_used();

/// The one of this process, opened on first use.
const OpenblasLibrary& openblas();

}  // namespace tessera::bench
