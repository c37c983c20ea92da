#if defined(__x86_64__)
#include <immintrin.h>

#include "kernels/cpu/transpose_loops.hpp"

namespace tessera::kernels::cpu {
namespace {

inline __mmask16 first16(I64 n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << n) - 1); }
inline __mmask8 first8(I64 n) { return static_cast<__mmask8>(n >= 8 ? 0xff : (1u << n) - 1); }

struct Lines {
    static void copy_part(const char* from, I64 bytes, char* to) {
        const __mmask16 m = first16(bytes / 4);
        _mm512_mask_storeu_ps(to, m, _mm512_maskz_loadu_ps(m, from));
    }
    static void stream_line(const char* from, char* to) {
        _mm512_stream_ps(reinterpret_cast<float*>(to), _mm512_loadu_ps(from));
    }
    static void stream_joined(const char* first, I64 bytes, const char* from, char* to) {
        const __mmask16 m = first16(bytes / 4);
        _mm512_stream_ps(reinterpret_cast<float*>(to),
                         _mm512_mask_loadu_ps(_mm512_load_ps(first), static_cast<__mmask16>(~m), from - bytes));
    }
};

struct Tile4 {
    using Word = float;
    using Vector = __m512;
    static constexpr int width = 16;
    static constexpr bool masked = true;
    static Vector load(const Word* p) { return _mm512_loadu_ps(p); }
    static Vector load(const Word* p, I64 n) { return _mm512_maskz_loadu_ps(first16(n), p); }
    static void store(Word* p, Vector v) { _mm512_storeu_ps(p, v); }
    static void store(Word* p, Vector v, I64 n) { _mm512_mask_storeu_ps(p, first16(n), v); }
    static void turn(Vector (&r)[16]) {
        Vector t[16];
        for (int i = 0; i < 16; i += 2) {
            t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
            t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
        }
        for (int i = 0; i < 16; i += 4) {
            r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
            r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
            r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
            r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        }
        // r[4g + c] holds column 4l + c of rows 4g..4g+3 in its lane l.
        for (int c = 0; c < 4; ++c) {
            const Vector a = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88), b = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
            const Vector d = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88),
                         e = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
            t[c] = _mm512_shuffle_f32x4(a, d, 0x88);
            t[8 + c] = _mm512_shuffle_f32x4(a, d, 0xdd);
            t[4 + c] = _mm512_shuffle_f32x4(b, e, 0x88);
            t[12 + c] = _mm512_shuffle_f32x4(b, e, 0xdd);
        }
        for (int i = 0; i < 16; ++i) r[i] = t[i];
    }
};

struct Tile8 {
    using Word = double;
    using Vector = __m512d;
    static constexpr int width = 8;
    static constexpr bool masked = true;
    static Vector load(const Word* p) { return _mm512_loadu_pd(p); }
    static Vector load(const Word* p, I64 n) { return _mm512_maskz_loadu_pd(first8(n), p); }
    static void store(Word* p, Vector v) { _mm512_storeu_pd(p, v); }
    static void store(Word* p, Vector v, I64 n) { _mm512_mask_storeu_pd(p, first8(n), v); }
    static void turn(Vector (&r)[8]) {
        Vector t[8];
        for (int i = 0; i < 8; i += 2) {
            t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
            t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
        }
        // t[2g + c] holds column 2l + c of rows 2g, 2g+1 in its lane l.
        for (int c = 0; c < 2; ++c) {
            const Vector a = _mm512_shuffle_f64x2(t[c], t[2 + c], 0x88), b = _mm512_shuffle_f64x2(t[c], t[2 + c], 0xdd);
            const Vector d = _mm512_shuffle_f64x2(t[4 + c], t[6 + c], 0x88),
                         e = _mm512_shuffle_f64x2(t[4 + c], t[6 + c], 0xdd);
            r[c] = _mm512_shuffle_f64x2(a, d, 0x88);
            r[4 + c] = _mm512_shuffle_f64x2(a, d, 0xdd);
            r[2 + c] = _mm512_shuffle_f64x2(b, e, 0x88);
            r[6 + c] = _mm512_shuffle_f64x2(b, e, 0xdd);
        }
    }
};

struct Pair {
    double half[2];
};
struct Tile16 {
    using Word = Pair;
    using Vector = __m512d;
    static constexpr int width = 4;
    static constexpr bool masked = true;
    static Vector load(const Word* p) { return _mm512_loadu_pd(p); }
    static Vector load(const Word* p, I64 n) { return _mm512_maskz_loadu_pd(first8(2 * n), p); }
    static void store(Word* p, Vector v) { _mm512_storeu_pd(p, v); }
    static void store(Word* p, Vector v, I64 n) { _mm512_mask_storeu_pd(p, first8(2 * n), v); }
    static void turn(Vector (&r)[4]) {
        const Vector a = _mm512_shuffle_f64x2(r[0], r[1], 0x88), b = _mm512_shuffle_f64x2(r[0], r[1], 0xdd);
        const Vector d = _mm512_shuffle_f64x2(r[2], r[3], 0x88), e = _mm512_shuffle_f64x2(r[2], r[3], 0xdd);
        r[0] = _mm512_shuffle_f64x2(a, d, 0x88);
        r[2] = _mm512_shuffle_f64x2(a, d, 0xdd);
        r[1] = _mm512_shuffle_f64x2(b, e, 0x88);
        r[3] = _mm512_shuffle_f64x2(b, e, 0xdd);
    }
};

/// The rest goes element by element: a masked 32-byte store of a gather's result becomes one masked vextractf32x8 to
/// memory, and that instruction faults on elements the mask leaves out.
void gather4(const void* in, const I64* offset, I64 count, void* out) {
    const float* a = static_cast<const float*>(in);
    float* b = static_cast<float*>(out);
    I64 i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(b + i, _mm512_i64gather_ps(_mm512_loadu_si512(offset + i), in, 4));
    for (; i < count; ++i) b[i] = a[offset[i]];
}

void gather8(const void* in, const I64* offset, I64 count, void* out) {
    double* b = static_cast<double*>(out);
    I64 i = 0;
    for (; i + 8 <= count; i += 8) _mm512_storeu_pd(b + i, _mm512_i64gather_pd(_mm512_loadu_si512(offset + i), in, 8));
    if (i < count) {
        const __mmask8 m = first8(count - i);
        const __m512i at = _mm512_maskz_loadu_epi64(m, offset + i);
        _mm512_mask_storeu_pd(b + i, m, _mm512_mask_i64gather_pd(_mm512_setzero_pd(), m, at, in, 8));
    }
}

void gather16(const void* in, const I64* offset, I64 count, void* out) {
    const Pair* a = static_cast<const Pair*>(in);
    Pair* b = static_cast<Pair*>(out);
    for (I64 i = 0; i < count; ++i) _mm_storeu_pd(b[i].half, _mm_loadu_pd(a[offset[i]].half));
}

void pieces(const void* in, const I64* offset_bytes, I64 count, I64 piece_bytes, void* out) {
    const char* const a = static_cast<const char*>(in);
    char* b = static_cast<char*>(out);
    const I64 whole = piece_bytes / 64 * 64;
    const __mmask16 rest = first16((piece_bytes - whole) / 4);
    for (I64 i = 0; i < count; ++i, b += piece_bytes) {
        const char* p = a + offset_bytes[i];
        for (I64 at = 0; at < whole; at += 64) _mm512_storeu_ps(b + at, _mm512_loadu_ps(p + at));
        _mm512_mask_storeu_ps(b + whole, rest, _mm512_maskz_loadu_ps(rest, p + whole));
    }
}

void drain(StreamQueue& queue, I64 lines) { drain_some<Lines>(queue, lines); }

void fence() { _mm_sfence(); }

}  // namespace

const TransposeKernels transpose_avx512 = {
    .micro = {micro<Lines, Tile4>, micro<Lines, Tile8>, micro<Lines, Tile16>},
    .gather = {gather4, gather8, gather16},
    .pieces = pieces,
    .drain = drain,
    .fence = fence,
};

}  // namespace tessera::kernels::cpu
#endif
