#pragma once
// The register kernels, written once over a vector type V. Only the gemm_<isa>.cpp files include this: everything is in
// an unnamed namespace, because each of them compiles it for another instruction set.
//
// V gives: Real, Reg, Mask, lanes; zero, load, load_mask, store, store_mask, spread, fma, any_nan, mask, prefetch_*;
// of several lanes also mul, alternate (two numbers in turn), swap_pairs (neighbours change places), unzip (even and
// odd lanes of two vectors) and Dots (vectors for sums of single elements: kDots is a multiple of its lanes);
// pack_across (across by across elements of a src with src_k = 1: a transpose) and pack_corner (fewer of them).

#include <cstdint>

#include "kernels/cpu/gemm_table.hpp"

namespace tessera::kernels::cpu {
namespace {

inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// MR rows by NV vectors of C in registers, the last vector cut to call.last_lanes. Rows of A are reached from every
// third one (base, base + stride, base + 2 stride are single addresses), which keeps the pointers in registers.
template <class V, int MR, int NV, bool MaskB>
void micro_kernel(const MicroCall<typename V::Real>& call) {
    using Real = typename V::Real;
    using Reg = typename V::Reg;
    constexpr int groups = (MR + 2) / 3;
    const typename V::Mask tail = V::mask(call.last_lanes);
    std::int64_t shift = 0;  // of the panel
    for (std::int64_t panel = 0; panel == 0 || panel < call.panels; ++panel, shift += NV * V::lanes) {
        Reg acc[MR][NV];
        {
            const Real* c = call.c + shift;
            if (call.overwrite) {
#pragma GCC unroll 16
                for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
                    for (int v = 0; v < NV; ++v) acc[i][v] = V::zero();
            } else {
#pragma GCC unroll 16
                for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
                    for (int v = 0; v < NV - 1; ++v) acc[i][v] = V::load(c + v * V::lanes);
                    acc[i][NV - 1] = V::load_mask(c + (NV - 1) * V::lanes, tail);
                    c += call.c_row;
                }
            }
            if (const Real* next = call.c_next) {
#pragma GCC unroll 1
                for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
                    for (int v = 0; v < NV; ++v) V::prefetch_write(next + v * V::lanes);
                    V::prefetch_write(next + NV * V::lanes - 1);
                    next += call.c_row;
                }
            }
        }
        const char* fetch0 = call.fetch[0];
        const char* fetch1 = call.fetch[1];
        const std::int64_t step0 = call.fetch_step[0], step1 = call.fetch_step[1];
        const Segment<Real>* seg = call.segments;
        for (std::int64_t s = 0; s < call.segment_count; ++s, ++seg) {
            if (call.lookahead && panel == 0) {
                for (int w = 0; w < 2; ++w) {
                    const Lookahead& ahead = call.lookahead[2 * s + w];
                    for (std::int64_t line = 0; line < ahead.lines; ++line) V::prefetch_near(ahead.first + 64 * line);
                }
            }
            const std::int64_t a_row = seg->a_row, a_k = seg->a_k, b_k = seg->b_k;
            const Real* a[groups];
#pragma GCC unroll 8
            for (int g = 0; g < groups; ++g) a[g] = seg->a + 3 * g * a_row;
            const Real* b = seg->b + shift;
            const auto step = [&]() __attribute__((always_inline)) {
                Reg bv[NV];
#pragma GCC unroll 4
                for (int v = 0; v < NV - 1; ++v) bv[v] = V::load(b + v * V::lanes);
                if constexpr (MaskB)
                    bv[NV - 1] = V::load_mask(b + (NV - 1) * V::lanes, tail);
                else
                    bv[NV - 1] = V::load(b + (NV - 1) * V::lanes);
#pragma GCC unroll 16
                for (int i = 0; i < MR; ++i) {
                    const Reg av = V::spread(a[i / 3] + (i % 3) * a_row);
#pragma GCC unroll 4
                    for (int v = 0; v < NV; ++v) acc[i][v] = V::fma(av, bv[v], acc[i][v]);
                }
                b += b_k;
#pragma GCC unroll 8
                for (int g = 0; g < groups; ++g) a[g] += a_k;
            };
            std::int64_t k = seg->k;
            for (; k >= 8; k -= 8) {
                V::prefetch_far(fetch0);
                fetch0 += step0;
#pragma GCC unroll 4
                for (int u = 0; u < 4; ++u) step();
                V::prefetch_far(fetch1);
                fetch1 += step1;
#pragma GCC unroll 4
                for (int u = 0; u < 4; ++u) step();
            }
#pragma GCC unroll 1
            for (; k > 0; --k) step();
        }
        if (call.not_finite) {
            // NaN and infinity times zero are NaN. The lanes beyond the mask hold what A made of zeros: NaN only where
            // A's row is not finite, and then nor are its other sums.
            Reg nan = V::zero();
#pragma GCC unroll 16
            for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
                for (int v = 0; v < NV; ++v) nan = V::fma(acc[i][v], V::zero(), nan);
            if (V::any_nan(nan)) *call.not_finite = true;
        }
        Real* c = call.c + shift;
        const bool whole = call.last_lanes == V::lanes;  // masked stores are slow on some processors
#pragma GCC unroll 16
        for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
            for (int v = 0; v < NV - 1; ++v) V::store(c + v * V::lanes, acc[i][v]);
            if (whole)
                V::store(c + (NV - 1) * V::lanes, acc[i][NV - 1]);
            else
                V::store_mask(c + (NV - 1) * V::lanes, tail, acc[i][NV - 1]);
            c += call.c_row;
        }
    }
}

template <class V>
void pack(const typename V::Real* src, std::int64_t src_k, std::int64_t src_j, std::int64_t k, std::int64_t n,
          typename V::Real* dst, std::int64_t dst_k) {
    if (src_j == 1 && n == 2) {  // a complex number, that no mask has to cut out of a vector
        for (std::int64_t p = 0; p < k; ++p)
            __builtin_memcpy(dst + p * dst_k, src + p * src_k, 2 * sizeof(typename V::Real));
        return;
    }
    if (src_j == 1) {
        std::int64_t j = 0;
        for (; j + V::lanes <= n; j += V::lanes)
            for (std::int64_t p = 0; p < k; ++p) V::store(dst + p * dst_k + j, V::load(src + p * src_k + j));
        if (j < n) {
            const typename V::Mask tail = V::mask(static_cast<int>(n - j));
            for (std::int64_t p = 0; p < k; ++p)
                V::store_mask(dst + p * dst_k + j, tail, V::load_mask(src + p * src_k + j, tail));
        }
        return;
    }
    if (src_k == 1) {
        for (std::int64_t j = 0; j < n; j += V::across) {
            const int cols = n - j < V::across ? static_cast<int>(n - j) : V::across;
            std::int64_t p = 0;
            if (cols == V::across)
                for (; p + V::across <= k; p += V::across)
                    V::pack_across(src + j * src_j + p, src_j, dst + p * dst_k + j, dst_k);
            for (; p < k; p += V::across)
                V::pack_corner(src + j * src_j + p, src_j, dst + p * dst_k + j, dst_k,
                               k - p < V::across ? static_cast<int>(k - p) : V::across, cols);
        }
        return;
    }
    for (std::int64_t p = 0; p < k; ++p)
        for (std::int64_t j = 0; j < n; ++j) dst[p * dst_k + j] = src[p * src_k + j * src_j];
}

// One row of n complex numbers, as two rows of reals: (re, s im) and (-s t im, t re).
template <class V>
void expand_complex(const typename V::Real* __restrict from, std::int64_t n, typename V::Real* __restrict first,
                    typename V::Real* __restrict second, typename V::Real s, typename V::Real t) {
    std::int64_t j = 0;
    if constexpr (V::lanes > 1) {
        const auto keep = V::alternate(1, s), turn = V::alternate(-s * t, t);
        for (; j + V::lanes <= 2 * n; j += V::lanes) {
            const auto x = V::load(from + j);
            V::store(first + j, V::mul(x, keep));
            V::store(second + j, V::mul(V::swap_pairs(x), turn));
        }
    }
    for (; j < 2 * n; j += 2) {
        const auto re = from[j], im = from[j + 1];
        first[j] = re;
        first[j + 1] = s * im;
        second[j] = -s * t * im;
        second[j + 1] = t * re;
    }
}

template <class V>
void pack_complex(const typename V::Real* src, std::int64_t src_k, std::int64_t src_j, std::int64_t k, std::int64_t n,
                  typename V::Real* dst, std::int64_t dst_k, bool conjugate_a, bool conjugate_b) {
    using Real = typename V::Real;
    const Real s = conjugate_b ? Real(-1) : Real(1), t = conjugate_a ? Real(-1) : Real(1);
    const auto expand = [&](const Real* from, std::int64_t count, std::int64_t p, std::int64_t j) {
        expand_complex<V>(from, count, dst + 2 * p * dst_k + 2 * j, dst + (2 * p + 1) * dst_k + 2 * j, s, t);
    };
    if (src_j == 1) {
        for (std::int64_t p = 0; p < k; ++p) expand(src + 2 * p * src_k, n, p, 0);
        return;
    }
    // Put in order first, so many rows at a time as a line of memory may have.
    constexpr std::int64_t kRows = 8, kColumns = 32;
    struct Pair {
        Real re, im;
    };
    alignas(64) Pair ordered[kRows][kColumns];
    for (std::int64_t p = 0; p < k; p += kRows) {
        const std::int64_t rows = k - p < kRows ? k - p : kRows;
        for (std::int64_t j = 0; j < n; j += kColumns) {
            const std::int64_t cols = n - j < kColumns ? n - j : kColumns;
            for (std::int64_t c = 0; c < cols; ++c) {
                const Real* from = src + 2 * (p * src_k + (j + c) * src_j);
                if (rows == kRows)
#pragma GCC unroll 8
                    for (std::int64_t q = 0; q < kRows; ++q)
                        __builtin_memcpy(&ordered[q][c], from + 2 * q * src_k, sizeof(Pair));
                else
                    for (std::int64_t q = 0; q < rows; ++q)
                        __builtin_memcpy(&ordered[q][c], from + 2 * q * src_k, sizeof(Pair));
            }
            for (std::int64_t q = 0; q < rows; ++q) expand(&ordered[q][0].re, cols, p + q, j);
        }
    }
}

template <class V>
void pack_parts(const typename V::Real* src, std::int64_t src_k, std::int64_t src_j, std::int64_t k, std::int64_t n,
                typename V::Real* dst, std::int64_t dst_k) {
    if constexpr (V::lanes > 1) {
        if (src_j == 1) {
            for (std::int64_t j = 0; j < n; j += V::lanes) {
                const int cols = n - j < V::lanes ? static_cast<int>(n - j) : V::lanes;
                const int reals = 2 * cols, more = reals > V::lanes ? reals - V::lanes : 0;
                const auto low = V::mask(reals - more), high = V::mask(more), some = V::mask(cols);
                for (std::int64_t p = 0; p < k; ++p) {
                    const auto* from = src + 2 * (p * src_k + j);
                    auto* to = dst + 2 * p * dst_k + j;
                    typename V::Reg re, im;
                    V::unzip(V::load_mask(from, low), more ? V::load_mask(from + V::lanes, high) : V::zero(), re, im);
                    V::store_mask(to, some, re);
                    V::store_mask(to + dst_k, some, im);
                }
            }
            return;
        }
    }
    for (std::int64_t p = 0; p < k; ++p) {
        const auto* from = src + 2 * p * src_k;
        auto* to = dst + 2 * p * dst_k;
        for (std::int64_t j = 0; j < n; ++j) {
            to[j] = from[2 * j * src_j];
            to[dst_k + j] = from[2 * j * src_j + 1];
        }
    }
}

// Some lines ahead of element p of each sum's arrays, once a line.
template <class V>
inline void prefetch_dots(const typename V::Real* const* a, const typename V::Real* const* b, std::int64_t p) {
    constexpr std::int64_t kLine = 64 / sizeof(typename V::Real), kAhead = 8 * kLine;
    if (p % kLine != 0) return;
#pragma GCC unroll 8
    for (int c = 0; c < kDots; ++c) {
        V::prefetch_near(a[c] + p + kAhead);
        V::prefetch_near(b[c] + p + kAhead);
    }
}

// Elements p and on of as many arrays as there are lanes, a register for each element.
template <class D, typename Real>
inline void load_lanes(const Real* const* x, std::int64_t p, typename D::Reg (&to)[D::lanes]) {
#pragma GCC unroll 8
    for (int c = 0; c < D::lanes; ++c) to[c] = D::load(x[c] + p);
    D::transpose(to);
}

// Elements that lie one behind the other in each sum's arrays, transposed in registers: a lane is a sum, which goes on
// in its own order. So many steps of k are done.
template <class V>
std::int64_t dots_in_lanes(const typename V::Real* const* a, const typename V::Real* const* b, std::int64_t k,
                           typename V::Real* sums) {
    using D = typename V::Dots;
    constexpr int L = D::lanes, groups = kDots / L;
    typename D::Reg sum[groups];
    for (int g = 0; g < groups; ++g) sum[g] = D::load(sums + g * L);
    std::int64_t p = 0;
    for (; p + L <= k; p += L) {
        prefetch_dots<V>(a, b, p);
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            typename D::Reg x[L], y[L];
            load_lanes<D>(a + g * L, p, x);
            load_lanes<D>(b + g * L, p, y);
#pragma GCC unroll 8
            for (int q = 0; q < L; ++q) sum[g] = D::fma(x[q], y[q], sum[g]);
        }
    }
    for (int g = 0; g < groups; ++g) D::store(sums + g * L, sum[g]);
    return p;
}

template <class V>
void dots(const typename V::Real* const* a, const typename V::Real* const* b, std::int64_t k, std::int64_t step_a,
          std::int64_t step_b, typename V::Real* sums) {
    using Real = typename V::Real;
    std::int64_t p = 0;
    if constexpr (V::lanes > 1)
        if (step_a == 1 && step_b == 1) p = dots_in_lanes<V>(a, b, k, sums);
    Real s[kDots];
    for (int c = 0; c < kDots; ++c) s[c] = sums[c];
    for (; p < k; ++p)
#pragma GCC unroll 8
        for (int c = 0; c < kDots; ++c) s[c] = fused(a[c][p * step_a], b[c][p * step_b], s[c]);
    for (int c = 0; c < kDots; ++c) sums[c] = s[c];
}

// The same of complex numbers: steps of k are of two reals, and sums are real parts, then imaginary ones.
template <class V>
std::int64_t complex_dots_in_lanes(const typename V::Real* const* a, const typename V::Real* const* b, std::int64_t k,
                                   typename V::Real (&re)[kDots], typename V::Real (&im)[kDots], typename V::Real s,
                                   typename V::Real t) {
    using D = typename V::Dots;
    constexpr int L = D::lanes, groups = kDots / L;
    const typename V::Real minus = -s;
    const auto sign_a = D::spread(&s), other_a = D::spread(&minus), sign_b = D::spread(&t);
    typename D::Reg sum_re[groups], sum_im[groups];
    for (int g = 0; g < groups; ++g) {
        sum_re[g] = D::load(re + g * L);
        sum_im[g] = D::load(im + g * L);
    }
    std::int64_t p = 0;  // in reals
    for (; p + L <= 2 * k; p += L) {
        prefetch_dots<V>(a, b, p);
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            typename D::Reg x[L], y[L];
            load_lanes<D>(a + g * L, p, x);
            load_lanes<D>(b + g * L, p, y);
#pragma GCC unroll 4
            for (int q = 0; q < L; q += 2) {
                const auto bi = D::mul(sign_b, y[q + 1]);
                sum_re[g] = D::fma(x[q], y[q], sum_re[g]);
                sum_re[g] = D::fma(D::mul(other_a, x[q + 1]), bi, sum_re[g]);
                sum_im[g] = D::fma(x[q], bi, sum_im[g]);
                sum_im[g] = D::fma(D::mul(sign_a, x[q + 1]), y[q], sum_im[g]);
            }
        }
    }
    for (int g = 0; g < groups; ++g) {
        D::store(re + g * L, sum_re[g]);
        D::store(im + g * L, sum_im[g]);
    }
    return p / 2;
}

template <class V>
void dots_complex(const typename V::Real* const* a, const typename V::Real* const* b, std::int64_t k,
                  std::int64_t step_a, std::int64_t step_b, typename V::Real* sums, bool conjugate_a,
                  bool conjugate_b) {
    using Real = typename V::Real;
    const Real s = conjugate_a ? Real(-1) : Real(1), t = conjugate_b ? Real(-1) : Real(1);
    Real re[kDots], im[kDots];
    for (int c = 0; c < kDots; ++c) {
        re[c] = sums[2 * c];
        im[c] = sums[2 * c + 1];
    }
    std::int64_t p = 0;
    if constexpr (V::lanes > 1)
        if (step_a == 1 && step_b == 1) p = complex_dots_in_lanes<V>(a, b, k, re, im, s, t);
    for (; p < k; ++p)
#pragma GCC unroll 8
        for (int c = 0; c < kDots; ++c) {
            const Real *x = a[c] + 2 * p * step_a, *y = b[c] + 2 * p * step_b;
            const Real ar = x[0], ai = s * x[1], br = y[0], bi = t * y[1];
            re[c] = fused(ar, br, re[c]);
            re[c] = fused(-ai, bi, re[c]);
            im[c] = fused(ar, bi, im[c]);
            im[c] = fused(ai, br, im[c]);
        }
    for (int c = 0; c < kDots; ++c) {
        sums[2 * c] = re[c];
        sums[2 * c + 1] = im[c];
    }
}

template <class V, int NV, int MR>
void fill_rows(KernelTable<typename V::Real>& table) {
    if constexpr (MR >= 1) {
        table.micro[0][NV - 1][MR - 1] = micro_kernel<V, MR, NV, false>;
        table.micro[1][NV - 1][MR - 1] = micro_kernel<V, MR, NV, true>;
        fill_rows<V, NV, MR - 1>(table);
    }
}

template <class V>
KernelTable<typename V::Real> make_table() {
    KernelTable<typename V::Real> table{};
    table.lanes = V::lanes;
    table.max_rows[0] = V::rows1;
    table.max_rows[1] = V::rows2;
    table.max_rows[2] = V::rows3;
    fill_rows<V, 1, V::rows1>(table);
    fill_rows<V, 2, V::rows2>(table);
    fill_rows<V, 3, V::rows3>(table);
    table.pack = pack<V>;
    table.pack_complex = pack_complex<V>;
    table.pack_parts = pack_parts<V>;
    table.dots = dots<V>;
    table.dots_complex = dots_complex<V>;
    return table;
}

}  // namespace
}  // namespace tessera::kernels::cpu
