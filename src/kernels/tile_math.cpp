#include "kernels/tile_math.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/hash.hpp"

// One source for every instruction set: lanes are spelled out, so the sums have the same bits on all of them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TESSERA_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
// With fused multiply-add, which is a call where there is no instruction for it: slow, the same bits.
#define TESSERA_FUSED __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define TESSERA_VECTORISED
#define TESSERA_FUSED
#endif

namespace tessera {

namespace {

constexpr int kLanes = 16;

double join(const double (&lane)[kLanes]) {
    double s[kLanes];
    std::copy(lane, lane + kLanes, s);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) s[i] += s[i + half];
    return s[0];
}

// Complex tiles come in as twice as many reals.
TESSERA_VECTORISED double squares(const double* x, std::int64_t n) {
    double lane[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lane[l] += x[i + l] * x[i + l];
    for (int l = 0; i < n; ++i, ++l) lane[l] += x[i] * x[i];
    return join(lane);
}

TESSERA_VECTORISED double squares(const float* x, std::int64_t n) {
    double lane[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lane[l] += static_cast<double>(x[i + l]) * static_cast<double>(x[i + l]);
    for (int l = 0; i < n; ++i, ++l) lane[l] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return join(lane);
}

TESSERA_VECTORISED double products(const double* x, const double* y, std::int64_t n) {
    double lane[kLanes] = {};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
        for (int l = 0; l < kLanes; ++l) lane[l] += x[i + l] * y[i + l];
    for (int l = 0; i < n; ++i, ++l) lane[l] += x[i] * y[i];
    return join(lane);
}

TESSERA_FUSED void fuse(const double* x, const double* y, double* z, std::int64_t n, bool overwrite) {
    if (overwrite)
        for (std::int64_t i = 0; i < n; ++i) z[i] = __builtin_fma(x[i], y[i], 0.0);
    else
        for (std::int64_t i = 0; i < n; ++i) z[i] = __builtin_fma(x[i], y[i], z[i]);
}

TESSERA_FUSED void fuse(const float* x, const float* y, float* z, std::int64_t n, bool overwrite) {
    if (overwrite)
        for (std::int64_t i = 0; i < n; ++i) z[i] = __builtin_fmaf(x[i], y[i], 0.0F);
    else
        for (std::int64_t i = 0; i < n; ++i) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
}

// Complex: sx and sy are -1 where x or y is conjugated.
TESSERA_FUSED void fuse(const double* x, const double* y, double* z, std::int64_t n, bool overwrite, double sx,
                        double sy) {
    for (std::int64_t i = 0; i < n; ++i) {
        const double xr = x[2 * i], xi = sx * x[2 * i + 1], yr = y[2 * i], yi = sy * y[2 * i + 1];
        const double re = overwrite ? 0.0 : z[2 * i], im = overwrite ? 0.0 : z[2 * i + 1];
        z[2 * i] = __builtin_fma(-xi, yi, __builtin_fma(xr, yr, re));
        z[2 * i + 1] = __builtin_fma(xi, yr, __builtin_fma(xr, yi, im));
    }
}

TESSERA_FUSED void fuse(const float* x, const float* y, float* z, std::int64_t n, bool overwrite, float sx, float sy) {
    for (std::int64_t i = 0; i < n; ++i) {
        const float xr = x[2 * i], xi = sx * x[2 * i + 1], yr = y[2 * i], yi = sy * y[2 * i + 1];
        const float re = overwrite ? 0.0F : z[2 * i], im = overwrite ? 0.0F : z[2 * i + 1];
        z[2 * i] = __builtin_fmaf(-xi, yi, __builtin_fmaf(xr, yr, re));
        z[2 * i + 1] = __builtin_fmaf(xi, yr, __builtin_fmaf(xr, yi, im));
    }
}

template <class Real>
double scaled_norm(const Real* x, std::int64_t n) {
    double top = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        if (!std::isfinite(x[i])) return std::numeric_limits<double>::quiet_NaN();
        top = std::max(top, std::abs(static_cast<double>(x[i])));
    }
    if (top == 0) return 0;
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double r = static_cast<double>(x[i]) / top;
        sum += r * r;
    }
    return top * std::sqrt(sum);
}

template <Scalar T>
const RealOf<T>* reals(const T* x) {
    return reinterpret_cast<const RealOf<T>*>(x);
}
template <Scalar T>
constexpr std::int64_t kReals = is_complex<T> ? 2 : 1;

}  // namespace

template <Scalar T>
double sum_of_squares(const T* x, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n * kReals<T>; i += kSquaresChunk)
        sum += squares(reals(x) + i, std::min(kSquaresChunk, n * kReals<T> - i));
    return sum;
}

template <Scalar T>
double tile_norm(const T* x, std::int64_t n) {
    const double sum = sum_of_squares(x, n);
    if (is_safe_sum(sum)) return std::sqrt(sum);
    return scaled_norm(reals(x), n * kReals<T>);
}

template <Scalar T>
T tile_dot(const T* x, const T* y, std::int64_t n) {
    if constexpr (std::is_same_v<T, double>) {
        return products(x, y, n);
    } else if constexpr (std::is_same_v<T, float>) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
        return static_cast<float>(sum);
    } else {
        double re = 0, im = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const double xr = x[i].real(), xi = x[i].imag(), yr = y[i].real(), yi = y[i].imag();
            re += xr * yr + xi * yi;
            im += xr * yi - xi * yr;
        }
        return T(static_cast<RealOf<T>>(re), static_cast<RealOf<T>>(im));
    }
}

template <Scalar T>
void multiply_elements(const T* x, const T* y, T* z, std::int64_t n, ElementFlags flags) {
    using R = RealOf<T>;
    auto* out = reinterpret_cast<R*>(z);
    if constexpr (is_complex<T>)
        fuse(reals(x), reals(y), out, n, flags.overwrite, flags.conjugate_x ? R(-1) : R(1),
             flags.conjugate_y ? R(-1) : R(1));
    else
        fuse(x, y, out, n, flags.overwrite);
}

template <Scalar T>
double tile_max_abs(const T* x, std::int64_t n) {
    double top = 0;
    for (std::int64_t i = 0; i < n; ++i) top = std::max(top, static_cast<double>(std::abs(x[i])));
    return top;
}

std::uint64_t hash_bytes(std::uint64_t state, const void* data, std::int64_t bytes) {
    // Four independent lanes keep the multiplier busy; each eats eight bytes a step.
    const auto* p = static_cast<const unsigned char*>(data);
    std::uint64_t lane[4];
    for (int l = 0; l < 4; ++l) lane[l] = mix64(state + static_cast<std::uint64_t>(l));
    const auto eat = [](std::uint64_t h, std::uint64_t v) {
        h = (h ^ v) * 0x9fb21c651e98df25ULL;
        return h ^ (h >> 32);
    };
    std::int64_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        for (int l = 0; l < 4; ++l) {
            std::uint64_t v;
            std::memcpy(&v, p + i + 8 * l, 8);
            lane[l] = eat(lane[l], v);
        }
    for (int l = 0; i < bytes; i += 8, ++l) {
        std::uint64_t v = 0;
        std::memcpy(&v, p + i, static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - i)));
        lane[l] = eat(lane[l], v);
    }
    std::uint64_t h = mix64(static_cast<std::uint64_t>(bytes));
    for (int l = 0; l < 4; ++l) h = combine(h, lane[l]);
    return h;
}

void copy_past_caches(void* to, const void* from, std::size_t bytes) {
#ifdef __SSE2__
    auto* out = static_cast<char*>(to);
    const auto* in = static_cast<const char*>(from);
    const auto head = std::min(bytes, (64 - reinterpret_cast<std::uintptr_t>(out) % 64) % 64);
    std::memcpy(out, in, head);
    out += head, in += head, bytes -= head;
    for (; bytes >= 64; out += 64, in += 64, bytes -= 64) {
        __m128i x[4];
        std::memcpy(x, in, 64);
        for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(out) + i, x[i]);
    }
    std::memcpy(out, in, bytes);
    _mm_sfence();  // others read the tile once it is said to be there
#else
    std::memcpy(to, from, bytes);
#endif
}

#define TESSERA_INSTANTIATE(T)                                                              \
    template double sum_of_squares<T>(const T*, std::int64_t);                              \
    template double tile_norm<T>(const T*, std::int64_t);                                   \
    template T tile_dot<T>(const T*, const T*, std::int64_t);                               \
    template void multiply_elements<T>(const T*, const T*, T*, std::int64_t, ElementFlags); \
    template double tile_max_abs<T>(const T*, std::int64_t);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
