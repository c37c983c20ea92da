// Packs the operands of the fused contraction in the order in which its warps read them: any strides, any extents and
// any number of terms end here, and the main kernel only streams contiguous slices.
//
// A slice is one tile of an operand: chunks of 8 summed elements, each of 16 (r) or 8 (s) fragments of 8 rows. In a
// fragment lane n has two summed elements of row n / 4. The rows of r are the eight of x0. Those of s are the four of
// the other index of the lanes, twice: for an even and an odd value of the last loop, as the columns of an accumulator
// fragment lie.
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/triples_device.hpp"

namespace tessera::kernels::cuda {

namespace {

__global__ void __launch_bounds__(kPackThreads) pack_kernel(const PackItem* items, int count) {
    int low = 0, high = count;  // the last item that starts at or before this thread block
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        (items[middle].first_block <= blockIdx.x ? low : high) = middle;
    }
    const PackItem x = items[low];
    const long long number = blockIdx.x - x.first_block;
    const long long slice = number / x.parts;
    const int rows = x.is_s != 0 ? kRowsS : kRowsR;
    const int first = x.begin / kChunk + static_cast<int>(number % x.parts) * kPackChunks;
    const int past = x.zeros_behind != 0 ? x.chunks : (x.end + kChunk - 1) / kChunk;
    const int last = min(first + kPackChunks, past);
    int origin[3];
    long long rest = slice;
#pragma unroll
    for (int n = 0; n < 3; ++n) {
        origin[n] = static_cast<int>(rest % x.tiles[n]) * (n == 0 && x.is_s == 0 ? kRoleTile0 : kRoleTileN);
        rest /= x.tiles[n];
    }
    double* to = x.to + (slice * x.chunks + first) * (rows * kChunk);
    const int total = (last - first) * rows * kChunk;
    for (int at = threadIdx.x; at < total; at += kPackThreads) {
        const int chunk = first + at / (rows * kChunk), inner = at % (rows * kChunk);
        const int lane = inner / 2 % 32, fragment = inner / 64;
        const int k = chunk * kChunk + 2 * (lane % 4) + inner % 2;
        int c[3];
        if (x.is_s != 0) {
            c[0] = lane / 8;
            c[1] = fragment % 4;
            c[2] = 2 * (fragment / 4) + lane / 4 % 2;
        } else {
            c[0] = lane / 4;
            c[1] = fragment % 4;
            c[2] = fragment / 4;
        }
        if (k < x.begin || (k >= x.end && x.zeros_behind == 0)) continue;  // another term's
        bool inside = k < x.end;
        long long offset = (k - x.begin) * x.sum_stride;
#pragma unroll
        for (int n = 0; n < 3; ++n) {
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
