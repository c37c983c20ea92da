// Packs the operands of the fused contraction in the order in which its warps read them: any strides, any extents and
// any number of terms end here, and the main kernel only streams contiguous slices.
//
// A slice is one tile of an operand. In a matrix product: chunks of 8 summed elements, each of 16 (r) or 8 (s)
// fragments of 8 rows. In a fragment lane n has two summed elements of row n / 4. The rows of r are the eight of x0.
// Those of s are the four of the other index of the lanes, twice: for an even and an odd value of the last loop, as the
// columns of an accumulator fragment lie. Other terms: see DirectTerm.
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/triples_device.hpp"

namespace tessera::kernels::cuda {

namespace {

/// Coordinates in the tile, by role, of double `at` of a slice's row block; and its place in the sum.
__device__ __forceinline__ int decode(const PackItem& x, int at, int (&c)[6]) {
    const int S = lane_role(x.layout);
    if (x.kind == PackKind::direct) {
        const int k = at / x.rows;
        int lanes = 1, inner = at % x.rows;
        // The thread: x0, S, and the halves of y1, y2, y3.
        int thread = inner / 2, coordinate[5];
        const int role[5] = {0, S, 3, 4, 5}, extent[5] = {8, 4, 2, 2, 2};
#pragma unroll
        for (int n = 0; n < 5; ++n) {
            coordinate[n] = 0;
            if ((x.carried >> role[n] & 1) == 0) continue;
            coordinate[n] = thread % extent[n];
            thread /= extent[n];
            lanes *= extent[n];
        }
        c[0] = coordinate[0];
        // The element among the accumulators: loop 3 fastest.
        int element = 2 * (inner / (2 * lanes)) + inner % 2;
        int value[4];
#pragma unroll
        for (int loop = 3; loop >= 0; --loop) {
            const int values = loop == 0 ? 4 : 2;
            value[loop] = 0;
            if ((x.carried >> loop_role(x.layout, loop) & 1) == 0) continue;
            value[loop] = element % values;
            element /= values;
        }
        c[1] = S == 1 ? coordinate[1] : value[0];
        c[2] = S == 1 ? value[0] : coordinate[1];
#pragma unroll
        for (int n = 0; n < 3; ++n) c[3 + n] = 2 * coordinate[2 + n] + value[1 + n];
        if (element > 0) c[0] = 1 << 30;  // an operand with one element per thread: the second of the pair is nothing
        return k;
    }
    const int chunk = at / (x.rows * kChunk), inner = at % (x.rows * kChunk);
    const int lane = inner / 2 % 32, fragment = inner / 64;
    // The loops this operand carries, in ascending order.
    int first = -1, second = -1;
#pragma unroll
    for (int loop = 3; loop >= 0; --loop) {
        const int role = loop_role(x.layout, loop);
        if ((x.carried >> role & 1) == 0) continue;
        second = first;
        first = role;
    }
    const bool s = x.kind == PackKind::s;
    const int at_first = fragment % 4, at_second = s ? 2 * (fragment / 4) + lane / 4 % 2 : fragment / 4;
#pragma unroll
    for (int n = 0; n < 6; ++n) c[n] = n == first ? at_first : n == second ? at_second : 0;
    if (s) {
        c[1] = S == 1 ? lane / 8 : c[1];
        c[2] = S == 2 ? lane / 8 : c[2];
    } else {
        c[0] = lane / 4;
    }
    return chunk * kChunk + 2 * (lane % 4) + inner % 2;
}

__global__ void __launch_bounds__(kPackThreads) pack_kernel(const PackItem* items, int count) {
    int low = 0, high = count;  // the last item that starts at or before this thread block
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (items[middle].first_block <= blockIdx.x ? low : high) = middle;
    }
    const PackItem x = items[low];
    const long long number = blockIdx.x - x.first_block;
    const long long slice = number / x.parts;
    const int first = x.begin / kChunk + static_cast<int>(number % x.parts) * kPackChunks;
    const int past = x.zeros_behind != 0 ? x.chunks : (x.end + kChunk - 1) / kChunk;
    const int last = min(first + kPackChunks, past);
    int origin[6];
    long long rest = slice;
#pragma unroll
    for (int n = 0; n < 6; ++n) {
        origin[n] = static_cast<int>(rest % x.tiles[n]) * role_tile(n);
        rest /= x.tiles[n];
    }
    // A direct operand has no chunks to fill: its slice is as long as its sum.
    const long long length = x.kind == PackKind::direct ? x.end : static_cast<long long>(x.chunks) * kChunk;
    double* to = x.to + (slice * length + static_cast<long long>(first) * kChunk) * x.rows;
    const int total = (last - first) * x.rows * kChunk;
    for (int at = threadIdx.x; at < total; at += kPackThreads) {
        int c[6];
        const int k = first * kChunk + decode(x, at, c);
        if (k < x.begin || (k >= x.end && x.zeros_behind == 0)) continue;  // another term's
        bool inside = k < x.end;
        long long offset = (k - x.begin) * x.sum_stride;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
            if ((x.carried >> n & 1) == 0) continue;
            c[n] += origin[n];
            inside = inside && c[n] < x.extent[n];
            offset += c[n] * x.stride[n];
        }
        to[at] = inside ? x.factor * x.from[offset] : 0.0;
    }
}

}  // namespace

void launch_pack(const PackItem* items, int count, long long blocks, StreamHandle stream) {
    pack_kernel<<<static_cast<unsigned>(blocks), kPackThreads, 0, static_cast<cudaStream_t>(stream)>>>(items, count);
    check(cudaGetLastError(), "packing triples operands");
}

}  // namespace tessera::kernels::cuda
