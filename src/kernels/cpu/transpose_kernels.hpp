#pragma once
// The inner kernels of the CPU transpose, one table per instruction set. Declarations only: the sources that fill the
// tables are compiled for different processors and must not share inline code.

#include <cstdint>

namespace tessera::kernels::cpu {

/// Offsets are in elements. Indexed by element size: 0, 1, 2 for 4, 8, 16 bytes.
struct TransposeKernels {
    /// out[column_offset[j] + i] = in[row_offset[i] + j]; prefetches what lies `ahead` bytes from each input line.
    void (*micro[3])(const void* in, const std::int64_t* row_offset, std::int64_t rows, std::int64_t columns, void* out,
                     const std::int64_t* column_offset, std::int64_t ahead);
    /// out[i] = in[offset[i]]
    void (*gather[3])(const void* in, const std::int64_t* offset, std::int64_t count, void* out);
    /// out = pieces of piece_bytes at in + offset_bytes[i], one after the other.
    void (*pieces)(const void* in, const std::int64_t* offset_bytes, std::int64_t count, std::int64_t piece_bytes,
                   void* out);
    /// Copies; whole lines of the output bypass the caches. Ends with no fence.
    void (*stream)(const void* in, std::int64_t bytes, void* out);
    /// Orders streamed lines before what follows.
    void (*fence)();
};

extern const TransposeKernels transpose_scalar;
#if defined(__x86_64__)
extern const TransposeKernels transpose_avx2;
extern const TransposeKernels transpose_avx512;
#endif

}  // namespace tessera::kernels::cpu
