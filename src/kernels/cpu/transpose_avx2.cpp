#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/transpose_loops.hpp"

namespace tessera::kernels::cpu {
namespace {

struct Lines {
    static void copy_part(const char* from, I64 bytes, char* to) {
        const float* a = reinterpret_cast<const float*>(from);
        float* b = reinterpret_cast<float*>(to);
        for (I64 i = 0; i < bytes / 4; ++i) b[i] = a[i];
    }
    static void stream_line(const char* from, char* to) {
        const __m256 x = _mm256_loadu_ps(reinterpret_cast<const float*>(from));
        const __m256 y = _mm256_loadu_ps(reinterpret_cast<const float*>(from + 32));
        _mm256_stream_ps(reinterpret_cast<float*>(to), x);
        _mm256_stream_ps(reinterpret_cast<float*>(to + 32), y);
    }
    static void stream_joined(char* first, I64 bytes, const char* from, char* to) {
        copy_part(from, 64 - bytes, first + bytes);
        stream_line(first, to);
    }
};

struct Tile4 {
    using Word = float;
    using Vector = __m256;
    static constexpr int width = 8;
    static constexpr bool masked = false;
    static Vector load(const Word* p) { return _mm256_loadu_ps(p); }
    static void store(Word* p, Vector v) { _mm256_storeu_ps(p, v); }
    static void turn(Vector (&r)[8]) {
        Vector t[8];
        for (int i = 0; i < 8; i += 2) {
            t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
            t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
        }
        for (int i = 0; i < 8; i += 4) {
            r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
            r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
            r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
            r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
        }
        for (int c = 0; c < 4; ++c) {
            t[c] = _mm256_permute2f128_ps(r[c], r[4 + c], 0x20);
            t[4 + c] = _mm256_permute2f128_ps(r[c], r[4 + c], 0x31);
        }
        for (int i = 0; i < 8; ++i) r[i] = t[i];
    }
};

struct Tile8 {
    using Word = double;
    using Vector = __m256d;
    static constexpr int width = 4;
    static constexpr bool masked = false;
    static Vector load(const Word* p) { return _mm256_loadu_pd(p); }
    static void store(Word* p, Vector v) { _mm256_storeu_pd(p, v); }
    static void turn(Vector (&r)[4]) {
        const Vector a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
        const Vector c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
        r[0] = _mm256_permute2f128_pd(a, c, 0x20);
        r[1] = _mm256_permute2f128_pd(b, d, 0x20);
        r[2] = _mm256_permute2f128_pd(a, c, 0x31);
        r[3] = _mm256_permute2f128_pd(b, d, 0x31);
    }
};

struct Pair {
    double half[2];
};
struct Tile16 {
    using Word = Pair;
    using Vector = __m256d;
    static constexpr int width = 2;
    static constexpr bool masked = false;
    static Vector load(const Word* p) { return _mm256_loadu_pd(p->half); }
    static void store(Word* p, Vector v) { _mm256_storeu_pd(p->half, v); }
    static void turn(Vector (&r)[2]) {
        const Vector a = _mm256_permute2f128_pd(r[0], r[1], 0x20), b = _mm256_permute2f128_pd(r[0], r[1], 0x31);
        r[0] = a;
        r[1] = b;
    }
};

template <class Word>
void gather(const void* in, const I64* offset, I64 count, void* out) {
    const Word* a = static_cast<const Word*>(in);
    Word* b = static_cast<Word*>(out);
    I64 i = 0;
    for (; i + 4 <= count; i += 4) {
        const Word x = a[offset[i]], y = a[offset[i + 1]], z = a[offset[i + 2]], w = a[offset[i + 3]];
        b[i] = x;
        b[i + 1] = y;
        b[i + 2] = z;
        b[i + 3] = w;
    }
    for (; i < count; ++i) b[i] = a[offset[i]];
}

void pieces(const void* in, const I64* offset_bytes, I64 count, I64 piece_bytes, void* out) {
    const char* const a = static_cast<const char*>(in);
    char* b = static_cast<char*>(out);
    const I64 whole = piece_bytes / 32 * 32;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i rest = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>((piece_bytes - whole) / 4)), lane);
    for (I64 i = 0; i < count; ++i, b += piece_bytes) {
        const char* p = a + offset_bytes[i];
        for (I64 at = 0; at < whole; at += 32)
            _mm256_storeu_ps(reinterpret_cast<float*>(b + at), _mm256_loadu_ps(reinterpret_cast<const float*>(p + at)));
        if (whole < piece_bytes)
            _mm256_maskstore_ps(reinterpret_cast<float*>(b + whole), rest,
                                _mm256_maskload_ps(reinterpret_cast<const float*>(p + whole), rest));
    }
}

void drain(StreamQueue& queue, I64 lines) { drain_some<Lines>(queue, lines); }

void fence() { _mm_sfence(); }

}  // namespace

const TransposeKernels transpose_avx2 = {
    .micro = {micro<Lines, Tile4>, micro<Lines, Tile8>, micro<Lines, Tile16>},
    .gather = {gather<float>, gather<double>, gather<Pair>},
    .pieces = pieces,
    .drain = drain,
    .fence = fence,
};

}  // namespace tessera::kernels::cpu
#endif
