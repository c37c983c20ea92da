// Packs the operands of the fused contraction in the order in which its warps read them: any strides, any extents and
// any number of terms end here, and the main kernel only streams contiguous slices.
//
// A slice is one tile of an operand. In a matrix product: chunks of 8 summed elements, each of 8 fragments. A fragment
// of s is 8 rows: the four of the index of the lanes, for an even and an odd value of the last loop, as the columns of
// the accumulators lie; a lane's 16 bytes are two summed elements of a row. A fragment of r is 16 rows, the eight of x0
// for an even and an odd value of its last loop; a lane's 16 bytes are one summed element of both. So the operands of
// an instruction are loads of 16 bytes into neighbouring registers. Other terms: see DirectTerm.
#include "device/cuda/check.hpp"
#include "device/cuda/triples_device.hpp"

namespace tessera::kernels::cuda {

namespace {

/// The tile that a slice is of; all lanes of a warp together, because divisions are what packing costs most.
__device__ __forceinline__ void origins(const PackItem& x, unsigned slice, int (&origin)[6]) {
    const int lane = threadIdx.x % 32;
    int mine = 0;
    if (lane < 6) mine = static_cast<int>(slice / x.period[lane] % static_cast<unsigned>(x.tiles[lane]));
#pragma unroll
    for (int n = 0; n < 6; ++n) origin[n] = __shfl_sync(0xffffffffU, mine, n);
}

/// Two neighbours of a chunk at a time; where they lie in the tile is the same for every chunk.
__device__ __forceinline__ void pack_product(const PackItem& x, long long slice, int first, int last) {
    int tile[6];
    origins(x, slice, tile);
    const bool s = x.kind == PackKind::s;
    const int pairs = (s ? kRowsS : kRowsR) * kChunk / 2;
    auto* to = reinterpret_cast<double2*>(x.to) + (slice * x.chunks + first) * pairs;
    for (int pair = threadIdx.x; pair < pairs; pair += kPackThreads) {
        const int lane = pair % 32;
        // s: two summed elements of a row. r: one of two rows, which differ by one in the second loop.
        const int fragment = s ? pair / 32 : pair / 64;
        int k = 2 * (lane % 4) + (s ? 0 : pair / 32 % 2), c[3];
        c[0] = s ? 4 * tile[0] + lane / 8 : 8 * tile[0] + lane / 4;
        c[1] = 4 * tile[1] + fragment % 4;
        c[2] = 4 * tile[2] + 2 * (fragment / 4) + (s ? lane / 4 % 2 : 0);
        const bool inside = c[0] < x.extent[0] && c[1] < x.extent[1] && c[2] < x.extent[2];
        const bool both = inside && (s || c[2] + 1 < x.extent[2]);
        const long long step = s ? x.sum_stride : x.stride[2];
        k += first * kChunk;
        const double* from =
            x.from + c[0] * x.stride[0] + c[1] * x.stride[1] + c[2] * x.stride[2] + (k - x.begin) * x.sum_stride;
#pragma unroll
        for (int n = 0; n < kPackChunks; ++n) {
            if (first + n >= last) break;
            const int k0 = k + n * kChunk, k1 = s ? k0 + 1 : k0;
            const bool one = k0 >= x.begin && k0 < x.end, two = k1 >= x.begin && k1 < x.end;
            double2 v;
            v.x = inside && one ? x.factor * from[n * kChunk * x.sum_stride] : 0.0;
            v.y = both && two ? x.factor * from[n * kChunk * x.sum_stride + step] : 0.0;
            double2* target = to + n * pairs + pair;
            // Before and behind are other terms', unless this is the last of them.
            const bool mine = k0 >= x.begin && (k0 < x.end || x.zeros_behind != 0);
            const bool mine2 = k1 >= x.begin && (k1 < x.end || x.zeros_behind != 0);
            if (mine && mine2)
                *target = v;
            else if (mine)
                target->x = v.x;
            else if (mine2)
                target->y = v.y;
        }
    }
}

__device__ __forceinline__ void pack_direct(const PackItem& x, unsigned slice, int first, int last) {
    int tile[6];
    origins(x, slice, tile);
    const int S = lane_role(x.layout);
    double* to = x.to + static_cast<long long>(slice) * x.end * x.rows;
    for (int inner = threadIdx.x; inner < x.rows; inner += kPackThreads) {
        // The thread: x0, S, and the halves of y1, y2, y3.
        int lanes = 1, thread = inner / 2, coordinate[5];
        const int role[5] = {0, S, 3, 4, 5}, extent[5] = {8, 4, 2, 2, 2};
#pragma unroll
        for (int n = 0; n < 5; ++n) {
            coordinate[n] = 0;
            if ((x.carried >> role[n] & 1) == 0) continue;
            coordinate[n] = thread % extent[n];
            thread /= extent[n];
            lanes *= extent[n];
        }
        // The element among the accumulators: loop 3 fastest. The number of lanes is a power of two.
        int element = 2 * (inner >> (__ffs(lanes))) + inner % 2, value[4];
#pragma unroll
        for (int loop = 3; loop >= 0; --loop) {
            const int values = loop == 0 ? 4 : 2;
            value[loop] = 0;
            if ((x.carried >> loop_role(x.layout, loop) & 1) == 0) continue;
            value[loop] = element % values;
            element /= values;
        }
        int c[6];
        c[0] = coordinate[0];
        c[1] = S == 1 ? coordinate[1] : value[0];
        c[2] = S == 1 ? value[0] : coordinate[1];
#pragma unroll
        for (int n = 0; n < 3; ++n) c[3 + n] = 2 * coordinate[2 + n] + value[1 + n];
        bool inside = element == 0;  // one element per thread: the second of the pair is nothing
        const double* from = x.from;
#pragma unroll
        for (int n = 0; n < 6; ++n) {
            if ((x.carried >> n & 1) == 0) continue;
            c[n] += tile[n] * role_tile(n);
            inside = inside && c[n] < x.extent[n];
            from += c[n] * x.stride[n];
        }
        for (int k = first * kChunk; k < min(last * kChunk, x.end); ++k)
            to[static_cast<long long>(k) * x.rows + inner] = inside ? x.factor * from[k * x.sum_stride] : 0.0;
    }
}

__global__ void __launch_bounds__(kPackThreads) pack_kernel(const PackItem* items, int count) {
    // The last item that starts at or before this thread block, found by all lanes at once.
    int found = -1;
    for (int first = 0; first < count; first += 32) {
        const int n = first + static_cast<int>(threadIdx.x % 32);
        found += __popc(__ballot_sync(0xffffffffU, n < count && items[n].first_block <= blockIdx.x));
    }
    const PackItem& x = items[found];
    const auto number = static_cast<unsigned>(blockIdx.x - x.first_block), parts = static_cast<unsigned>(x.parts);
    const int first = x.begin / kChunk + static_cast<int>(number % parts) * kPackChunks;
    const int past = x.zeros_behind != 0 ? x.chunks : (x.end + kChunk - 1) / kChunk;
    const int last = min(first + kPackChunks, past);
    if (x.kind == PackKind::energies) {
        // Past the end W is 0, and the denominator must not be.
        for (int n = threadIdx.x; n < x.rows; n += kPackThreads)
            x.to[n] = n < x.extent[0] ? x.factor * x.from[n] : 1e100;
    } else if (x.kind == PackKind::direct)
        pack_direct(x, number / parts, first, last);
    else
        pack_product(x, number / parts, first, last);
}

}  // namespace

void launch_pack(const PackItem* items, int count, long long blocks, StreamHandle stream) {
    pack_kernel<<<static_cast<unsigned>(blocks), kPackThreads, 0, static_cast<cudaStream_t>(stream)>>>(items, count);
    check(cudaGetLastError(), "packing triples operands");
}

}  // namespace tessera::kernels::cuda
