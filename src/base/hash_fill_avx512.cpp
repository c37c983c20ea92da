// splitmix64 on eight lanes. Calls no inline function of other headers: this file is compiled for AVX-512.
#include <cstdint>

#if defined(__AVX512DQ__)
#include <immintrin.h>
#endif

#include "base/hash_fill.hpp"

namespace tessera {

#if defined(__AVX512DQ__)
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;

// z already holds state + (e + 1) * kStep.
inline __m512d signed_odd(__m512i z) {
    const __m512i first = _mm512_set1_epi64(static_cast<long long>(0xbf58476d1ce4e5b9ULL));
    const __m512i second = _mm512_set1_epi64(static_cast<long long>(0x94d049bb133111ebULL));
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 30)), first);
    z = _mm512_mullo_epi64(_mm512_xor_si512(z, _mm512_srli_epi64(z, 27)), second);
    // ((z ^ (z >> 31)) >> 11) | 1 with the last shift arithmetic: the shifts commute with the xor, and one
    // ternary operation does (a ^ b) | c.
    constexpr int kXorOr = ((0xf0 ^ 0xcc) | 0xaa) & 0xff;
    return _mm512_cvtepi64_pd(
        _mm512_ternarylogic_epi64(_mm512_srai_epi64(z, 11), _mm512_srli_epi64(z, 42), _mm512_set1_epi64(1), kXorOr));
}

}  // namespace

std::int64_t hash_fill_avx512(std::uint64_t state, double factor, double* out, std::int64_t count) {
    alignas(64) std::uint64_t lanes[8];
    for (std::uint64_t i = 0; i < 8; ++i) lanes[i] = state + (i + 1) * kStep;
    __m512i z0 = _mm512_load_si512(lanes);
    const __m512i eight = _mm512_set1_epi64(static_cast<long long>(8 * kStep));
    const __m512i sixteen = _mm512_set1_epi64(static_cast<long long>(16 * kStep));
    __m512i z1 = _mm512_add_epi64(z0, eight);
    const __m512d f = _mm512_set1_pd(factor);
    std::int64_t e = 0;
    for (; e + 16 <= count; e += 16) {
        _mm512_storeu_pd(out + e, _mm512_mul_pd(signed_odd(z0), f));
        _mm512_storeu_pd(out + e + 8, _mm512_mul_pd(signed_odd(z1), f));
        z0 = _mm512_add_epi64(z0, sixteen);
        z1 = _mm512_add_epi64(z1, sixteen);
    }
    if (e + 8 <= count) {
        _mm512_storeu_pd(out + e, _mm512_mul_pd(signed_odd(z0), f));
        e += 8;
    }
    return e;
}
#else
std::int64_t hash_fill_avx512(std::uint64_t, double, double*, std::int64_t) { return 0; }
#endif

}  // namespace tessera
