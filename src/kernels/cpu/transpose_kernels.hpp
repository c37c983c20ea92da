#pragma once
// The inner kernels of the CPU transpose, one table per instruction set. Declarations only: the sources that fill the
// tables are compiled for different processors and must not share inline code.

#include <cstdint>

namespace tessera::kernels::cpu {

/// The part of an output line that a row of one block has filled; the row of the next block usually begins right there.
struct alignas(64) LinePart {
    char bytes[64];
    std::int64_t begin = 0;  // bytes [begin, end) of the line are here
    char* end = nullptr;     // where in the output the part ends; null: nothing is kept
};

/// Rows of a filled buffer on their way to the output. Whole lines bypass the caches; they are written in small
/// portions while the next block is being read, so that reads and writes overlap.
struct StreamQueue {
    const char* from = nullptr;
    char* to = nullptr;
    const std::int64_t* row_from = nullptr;  // bytes
    const std::int64_t* row_to = nullptr;
    std::int64_t rows = 0;
    std::int64_t row_bytes = 0;
    std::int64_t row = 0;       // the next one to write,
    std::int64_t done = 0;      // and the bytes of it that are written
    std::int64_t sought = 0;    // rows whose lines written in part are on their way into the cache
    LinePart* parts = nullptr;  // one per row; null: parts of lines are written at once
    bool from_memory = false;   // the rows lie in the input itself: fetched some rows ahead,
    std::int64_t fetched = 0;   // so many so far,
    std::int64_t ahead = 0;     // also of the next block, so many bytes away (0: there is none)
};

/// Offsets are in elements. Indexed by element size: 0, 1, 2 for 4, 8, 16 bytes.
struct TransposeKernels {
    /// out[column_offset[j] + i] = in[row_offset[i] + j]; prefetches what lies `ahead` bytes from each input line and
    /// drains about as many bytes of the queue as it moves.
    void (*micro[3])(const void* in, const std::int64_t* row_offset, std::int64_t rows, std::int64_t columns, void* out,
                     const std::int64_t* column_offset, std::int64_t ahead, StreamQueue& queue);
    /// out[i] = in[offset[i]]
    void (*gather[3])(const void* in, const std::int64_t* offset, std::int64_t count, void* out);
    /// out = pieces of piece_bytes at in + offset_bytes[i], one after the other.
    void (*pieces)(const void* in, const std::int64_t* offset_bytes, std::int64_t count, std::int64_t piece_bytes,
                   void* out);
    /// Writes about that many lines of the queue.
    void (*drain)(StreamQueue& queue, std::int64_t lines);
    /// Orders streamed lines before what follows.
    void (*fence)();
};

extern const TransposeKernels transpose_scalar;
#if defined(__x86_64__)
extern const TransposeKernels transpose_avx2;
extern const TransposeKernels transpose_avx512;
#endif

}  // namespace tessera::kernels::cpu
