// splitmix64 on four lanes. Calls no inline function of other headers: this file is compiled for AVX2.
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "base/hash_fill.hpp"

namespace tessera {

#if defined(__AVX2__)
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;

// The low 64 bits of a * b from 32-bit products; b_high holds b's upper halves in the lower places.
inline __m256i multiply(__m256i a, __m256i b, __m256i b_high) {
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, b_high));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32));
}

inline __m256i broadcast(std::uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }

// z already holds state + (e + 1) * kStep.
inline __m256d signed_odd(__m256i z) {
    constexpr std::uint64_t first = 0xbf58476d1ce4e5b9ULL, second = 0x94d049bb133111ebULL;
    z = multiply(_mm256_xor_si256(z, _mm256_srli_epi64(z, 30)), broadcast(first), broadcast(first >> 32));
    z = multiply(_mm256_xor_si256(z, _mm256_srli_epi64(z, 27)), broadcast(second), broadcast(second >> 32));
    z = _mm256_xor_si256(z, _mm256_srli_epi64(z, 31));
    // No conversion from 64-bit integers here: x = z >> 12 (signed) is offset by 2^51, put into the mantissa of a
    // number in [2^52, 2^53), and 1.5 * 2^52 taken off; 2x + 1 is the odd number. Every step is exact.
    const __m256i biased =
        _mm256_xor_si256(_mm256_srli_epi64(z, 12), broadcast(0x4330000000000000ULL ^ (std::uint64_t{1} << 51)));
    const __m256d x = _mm256_sub_pd(_mm256_castsi256_pd(biased), _mm256_set1_pd(0x1.8p52));
    return _mm256_add_pd(_mm256_add_pd(x, x), _mm256_set1_pd(1.0));
}

}  // namespace

std::int64_t hash_fill_avx2(std::uint64_t state, double factor, double* out, std::int64_t count) {
    __m256i z = _mm256_set_epi64x(static_cast<long long>(state + 4 * kStep), static_cast<long long>(state + 3 * kStep),
                                  static_cast<long long>(state + 2 * kStep), static_cast<long long>(state + kStep));
    const __m256i four = broadcast(4 * kStep);
    const __m256d f = _mm256_set1_pd(factor);
    std::int64_t e = 0;
    for (; e + 4 <= count; e += 4) {
        _mm256_storeu_pd(out + e, _mm256_mul_pd(signed_odd(z), f));
        z = _mm256_add_epi64(z, four);
    }
    return e;
}
#else
std::int64_t hash_fill_avx2(std::uint64_t, double, double*, std::int64_t) { return 0; }
#endif

}  // namespace tessera
