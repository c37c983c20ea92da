#pragma once
// What one instruction set offers to the tile product: register kernels and packing, over real numbers only.
// Plain structs and function pointers, so that files compiled for an instruction set share no inline function with the
// rest of the program.

#include <cstdint>

namespace tessera::kernels::cpu {

/// A stretch of the k loop: a(i,p) = a[i * a_row + p * a_k], b(p,j) = b[p * b_k + j].
template <class R>
struct Segment {
    const R* a;
    const R* b;
    std::int64_t k, a_row, a_k, b_k;
};

/// Cache lines wanted soon: fetched at the start of the segment of the same number.
struct Lookahead {
    const char* first;
    std::int64_t lines;
};

/// C(rows, cols) += all segments, in order. Rows, vectors of columns and masking are fixed by the kernel called.
template <class R>
struct MicroCall {
    const Segment<R>* segments;
    std::int64_t segment_count;
    R* c;
    std::int64_t c_row;
    int last_lanes;  // columns in the last vector: 1 .. lanes
    bool overwrite;  // start from zero
    // Two streams fetched towards the second-level cache, one line each per eight steps of k (step 0: nothing).
    const char* fetch[2];
    std::int64_t fetch_step[2];
    std::int64_t panels;         // so many side by side, all of whole vectors; 0: one
    const R* c_next;             // the micro-tile that follows, or null
    bool* not_finite;            // set where what is stored holds NaN or infinity; null: nobody looks
    const Lookahead* lookahead;  // two per segment, or null
};

inline constexpr int kMaxStrip = 14;   // rows of the tallest register kernel
inline constexpr int kMaxVectors = 3;  // vectors of columns of the widest one
inline constexpr int kDots = 8;        // sums of single elements, side by side in vectors

template <class R>
struct KernelTable {
    using Micro = void (*)(const MicroCall<R>&);

    int lanes;
    int max_rows[kMaxVectors];  // the tallest kernel for 1, 2, 3 vectors
    /// [b's last vector needs a mask][vectors - 1][rows - 1]
    Micro micro[2][kMaxVectors][kMaxStrip];
    /// dst[p * dst_k + j] = src[p * src_k + j * src_j] for p < k, j < n.
    void (*pack)(const R* src, std::int64_t src_k, std::int64_t src_j, std::int64_t k, std::int64_t n, R* dst,
                 std::int64_t dst_k);
    /// The same for complex src (strides in complex elements), each element becoming two rows of two reals:
    /// (re, s*im) and (-s*t*im, t*re), with s = -1 for conjugate_b and t = -1 for conjugate_a. A real product with
    /// these rows is the complex product ("1m", Van Zee 2020), in the order of gemm.hpp.
    void (*pack_complex)(const R* src, std::int64_t src_k, std::int64_t src_j, std::int64_t k, std::int64_t n, R* dst,
                         std::int64_t dst_k, bool conjugate_a, bool conjugate_b);
    /// Complex src (strides in complex elements), which becomes two rows of reals for each p: its real and its
    /// imaginary parts. dst[2p * dst_k + j] = re src[p * src_k + j * src_j], dst[(2p + 1) * dst_k + j] = im.
    void (*pack_parts)(const R* src, std::int64_t src_k, std::int64_t src_j, std::int64_t k, std::int64_t n, R* dst,
                       std::int64_t dst_k);
    /// sums[c] += a[c][p * step_a] * b[c][p * step_b] for p < k, in order; kDots sums at a time.
    void (*dots)(const R* const* a, const R* const* b, std::int64_t k, std::int64_t step_a, std::int64_t step_b,
                 R* sums);
    /// The same for complex numbers (steps in complex elements), in the order of gemm.hpp.
    void (*dots_complex)(const R* const* a, const R* const* b, std::int64_t k, std::int64_t step_a, std::int64_t step_b,
                         R* sums, bool conjugate_a, bool conjugate_b);
};

const KernelTable<float>& scalar_table(float);
const KernelTable<double>& scalar_table(double);
const KernelTable<float>& avx2_table(float);
const KernelTable<double>& avx2_table(double);
const KernelTable<float>& avx512_table(float);
const KernelTable<double>& avx512_table(double);

}  // namespace tessera::kernels::cpu
