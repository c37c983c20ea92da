#include <complex>
#include <cstring>

#include "kernels/cpu/transpose_kernels.hpp"

namespace tessera::kernels::cpu {
namespace {

struct Word16 {
    std::uint64_t half[2];
};

template <class W>
void micro(const void* in, const std::int64_t* row_offset, std::int64_t rows, std::int64_t columns, void* out,
           const std::int64_t* column_offset, std::int64_t, StreamQueue&) {
    const W* a = static_cast<const W*>(in);
    W* b = static_cast<W*>(out);
    // Strips of 8 rows: their input lines stay in the cache while the columns go by.
    for (std::int64_t i0 = 0; i0 < rows; i0 += 8) {
        const std::int64_t i1 = i0 + 8 < rows ? i0 + 8 : rows;
        for (std::int64_t j = 0; j < columns; ++j)
            for (std::int64_t i = i0; i < i1; ++i)
                std::memcpy(b + column_offset[j] + i, a + row_offset[i] + j, sizeof(W));
    }
}

template <class W>
void gather(const void* in, const std::int64_t* offset, std::int64_t count, void* out) {
    const W* a = static_cast<const W*>(in);
    W* b = static_cast<W*>(out);
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(b + i, a + offset[i], sizeof(W));
}

void pieces(const void* in, const std::int64_t* offset_bytes, std::int64_t count, std::int64_t piece_bytes, void* out) {
    char* b = static_cast<char*>(out);
    for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(b + i * piece_bytes, static_cast<const char*>(in) + offset_bytes[i],
                    static_cast<std::size_t>(piece_bytes));
}

void drain(StreamQueue& queue, std::int64_t lines) {
    for (; queue.row < queue.rows && lines > 0; ++queue.row, lines -= queue.row_bytes / 64 + 1)
        std::memcpy(queue.to + queue.row_to[queue.row], queue.from + queue.row_from[queue.row],
                    static_cast<std::size_t>(queue.row_bytes));
}

void fence() {}

}  // namespace

const TransposeKernels transpose_scalar = {
    .micro = {micro<std::uint32_t>, micro<std::uint64_t>, micro<Word16>},
    .gather = {gather<std::uint32_t>, gather<std::uint64_t>, gather<Word16>},
    .pieces = pieces,
    .drain = drain,
    .fence = fence,
};

}  // namespace tessera::kernels::cpu
