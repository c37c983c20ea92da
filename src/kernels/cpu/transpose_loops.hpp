#pragma once
// The loops of the CPU transpose, written once over the registers of an instruction set. Only the transpose_<isa>.cpp
// files include this: everything is in an unnamed namespace, because each of them compiles it for another one.
//
// Lines gives copy_part (less than a line), stream_line (a whole one, past the caches) and stream_joined (a whole one
// of which the first bytes come from somewhere else). A Tile is the square of one
// element size: width rows of a vector each; load, store, turn (transpose in registers) and, where masked, the same
// for the first n elements.

#include <immintrin.h>

#include "kernels/cpu/transpose_kernels.hpp"

namespace tessera::kernels::cpu {
namespace {

using I64 = std::int64_t;

inline void prefetch(const void* p, I64 ahead) {
    // Integer arithmetic: the address may lie outside the tensor, a prefetch does not mind.
    _mm_prefetch(
        reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + static_cast<std::uintptr_t>(ahead)),
        _MM_HINT_T1);
}

/// A part of a line goes through the cache. Were its line not there, this one store would hold up all that follow it
/// until the line has come from memory, about as long as streaming 2 KiB takes: so it is fetched some rows before.
inline void seek_parts(StreamQueue& q) {
    const I64 lead = q.row + 2 + 4096 / (q.row_bytes + 64);
    const I64 until = lead < q.rows ? lead : q.rows;
    for (; q.sought < until; ++q.sought) {
        const char* first = q.to + q.row_to[q.sought];
        const char* end = first + q.row_bytes;
        const char* kept = q.parts ? q.parts[q.sought].end : nullptr;
        if (kept == first) continue;
        if (reinterpret_cast<std::uintptr_t>(first) & 63) __builtin_prefetch(first, 1, 3);
        if (kept)
            __builtin_prefetch(kept - 1, 1, 3);
        else if (!q.parts && (reinterpret_cast<std::uintptr_t>(end) & 63))
            __builtin_prefetch(end - 1, 1, 3);
    }
}

/// Rows that jump through memory: the processor's own prefetching begins anew with each.
inline void seek_rows(StreamQueue& q) {
    constexpr I64 kLead = 6144, kMost = 2048;  // bytes: ahead; of one row
    const I64 lead = q.row + 1 + kLead / q.row_bytes;
    const I64 bytes = q.row_bytes < kMost ? q.row_bytes : kMost;
    for (; q.fetched < lead; ++q.fetched) {
        const bool here = q.fetched < q.rows;
        if (!here && (q.ahead == 0 || q.fetched >= 2 * q.rows)) break;
        const char* row = q.from + q.row_from[here ? q.fetched : q.fetched - q.rows];
        for (I64 at = 0; at < bytes + 63; at += 64) prefetch(row, (at < bytes ? at : bytes - 1) + (here ? 0 : q.ahead));
    }
}

/// The first bytes of a row, up to a line's end, joined with what the row before it left of that line. Returns how
/// many.
template <class Lines>
inline I64 write_head(const char* from, I64 bytes, I64 offset, char* to, LinePart* part) {
    const I64 head = 64 - offset < bytes ? 64 - offset : bytes;
    if (!part) {
        Lines::copy_part(from, head, to);
        return head;
    }
    if (part->end != to) part->begin = offset;
    if (offset + head < 64) {
        Lines::copy_part(from, head, part->bytes + offset);
        part->end = to + head;
        return head;
    }
    if (part->begin == 0) {
        Lines::stream_joined(part->bytes, offset, from, to - offset);
    } else {
        if (part->begin < offset)
            Lines::copy_part(part->bytes + part->begin, offset - part->begin, to - offset + part->begin);
        Lines::copy_part(from, head, to);
    }
    part->end = nullptr;
    return head;
}

/// Writes about `lines` lines of the queue: parts of lines as usual, whole ones past the caches.
template <class Lines>
inline void drain_some(StreamQueue& q, I64 lines) {
    while (lines > 0 && q.row < q.rows) {
        const char* a = q.from + q.row_from[q.row] + q.done;
        char* b = q.to + q.row_to[q.row] + q.done;
        I64 left = q.row_bytes - q.done;
        LinePart* const part = q.parts ? q.parts + q.row : nullptr;
        if (q.done == 0) {
            seek_parts(q);
            if (q.from_memory) seek_rows(q);
            if (part && part->end && part->end != b) {
                const I64 kept = static_cast<I64>(reinterpret_cast<std::uintptr_t>(part->end) & 63) - part->begin;
                Lines::copy_part(part->bytes + part->begin, kept, part->end - kept);
                part->end = nullptr;
            }
            if (const I64 offset = static_cast<I64>(reinterpret_cast<std::uintptr_t>(b) & 63); offset != 0) {
                const I64 head = write_head<Lines>(a, left, offset, b, part);
                a += head;
                b += head;
                left -= head;
                --lines;
            }
        }
        I64 whole = left / 64 < lines ? left / 64 : lines;
        lines -= whole;
        left -= 64 * whole;
        for (; whole > 0; --whole, a += 64, b += 64) Lines::stream_line(a, b);
        if (left < 64) {
            if (left > 0 && part) {
                Lines::copy_part(a, left, part->bytes);
                part->begin = 0;
                part->end = b + left;
            } else if (left > 0) {
                Lines::copy_part(a, left, b);
            }
            ++q.row;
            q.done = 0;
        } else {
            q.done = q.row_bytes - left;
        }
    }
}

template <class Lines, class Tile>
void micro(const void* in, const I64* row_offset, I64 rows, I64 columns, void* out, const I64* column_offset, I64 ahead,
           StreamQueue& queue) {
    using Word = typename Tile::Word;
    using Vector = typename Tile::Vector;
    constexpr int w = Tile::width;
    constexpr I64 tile_lines = (w * static_cast<I64>(sizeof(Vector)) + 63) / 64;
    const Word* const a = static_cast<const Word*>(in);
    Word* const b = static_cast<Word*>(out);
    for (I64 i = 0; i < rows; i += w) {
        const I64 have = rows - i < w ? rows - i : w;
        const Word* row[w];
        for (int r = 0; r < w; ++r) row[r] = a + row_offset[i + (r < have ? r : 0)];
        I64 j = 0;
        if (have == w) {
            for (; j + w <= columns; j += w) {
                Vector v[w];
                for (int r = 0; r < w; ++r) v[r] = Tile::load(row[r] + j);
                if (ahead != 0)
                    for (int r = 0; r < w; ++r) prefetch(row[r] + j, ahead);
                Tile::turn(v);
                for (int c = 0; c < w; ++c) Tile::store(b + column_offset[j + c] + i, v[c]);
                drain_some<Lines>(queue, tile_lines);
            }
        }
        if constexpr (Tile::masked) {
            for (; j < columns; j += w) {
                const I64 left = columns - j < w ? columns - j : w;
                Vector v[w];
                for (int r = 0; r < w; ++r) v[r] = Tile::load(row[r] + j, left);
                if (ahead != 0)
                    for (int r = 0; r < w; ++r) prefetch(row[r] + j, ahead);
                Tile::turn(v);
                for (int c = 0; c < w; ++c)
                    if (c < left) Tile::store(b + column_offset[j + c] + i, v[c], have);
                drain_some<Lines>(queue, left);
            }
        } else {
            for (; j < columns; ++j)
                for (int r = 0; r < have; ++r) b[column_offset[j] + i + r] = row[r][j];
        }
    }
}

}  // namespace
}  // namespace tessera::kernels::cpu
