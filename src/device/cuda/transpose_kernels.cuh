#pragma once
// The kernels of transpose.cu. Lyakh's algorithm 2 with the divisions taken out: a thread block keeps the offsets of
// its accesses in registers and walks over tiles; only the tile's base changes, and one warp finds that ahead of time.

#include <cuda_pipeline.h>

#include <type_traits>

#include "tessera/kernels/transpose.hpp"

namespace tessera::kernels::cuda {

namespace {

struct Loop {
    unsigned period, count, block;
    long long extent, in_step, out_step;
};

/// TileTables on the device, by value to the kernel.
template <class Offset>
struct Tiles {
    const Offset* in_offset;
    const Offset* out_offset;
    const unsigned short* store;
    const unsigned short* load;
    const unsigned* in_coordinate;
    const unsigned* out_coordinate;
    unsigned volume, slots, tiles;
    int loops;
    Loop loop[kMaxTransposeRank];
};

/// Where a tile lies. Kind: bit i is set where it is the last one along loop i, which may be ragged.
struct Place {
    long long in, out;
    unsigned kind;
};

__device__ inline unsigned last_length(const Loop& l) {
    return static_cast<unsigned>(l.extent - static_cast<long long>(l.count - 1) * l.block);
}

/// Where a tile lies, found by a whole warp: one axis per lane.
template <class Offset>
__device__ inline Place locate(const Tiles<Offset>& t, unsigned tile) {
    const int lane = threadIdx.x & 31;
    long long in = 0, out = 0;
    bool last = false;
    if (lane < t.loops) {
        const Loop& mine = t.loop[lane];
        const unsigned at = tile / mine.period % mine.count;
        in = at * mine.in_step;
        out = at * mine.out_step;
        last = lane < 2 && at == mine.count - 1;
    }
    for (int step = 16; step > 0; step /= 2) {
        in += __shfl_xor_sync(~0u, in, step);
        out += __shfl_xor_sync(~0u, out, step);
    }
    return {in, out, __ballot_sync(~0u, last)};
}

/// Which of a thread's accesses a tile of each kind has, a bit each: ragged tiles then cost no more than whole ones.
template <int Threads, int Accesses>
class Presence {
  public:
    template <class Offset>
    __device__ Presence(const Tiles<Offset>& t, const unsigned* coordinates, unsigned accesses) {
        const auto limit = [&](int i, bool ragged) {
            return i >= t.loops ? 1u : ragged ? last_length(t.loop[i]) : t.loop[i].block;
        };
        for (int kind = 0; kind < 4; ++kind) {
            const unsigned limit0 = limit(0, kind & 1), limit1 = limit(1, kind & 2);
            for (int m = 0; m < Accesses; ++m) {
                const unsigned a = threadIdx.x + m * Threads;
                if (a >= accesses) break;
                const unsigned c = coordinates[a];
                if ((c & 0xffff) < limit0 && (c >> 16) < limit1) bits_ |= Bits{1} << (kind * Accesses + m);
            }
        }
    }
    __device__ unsigned operator()(const Place& p) const {
        return static_cast<unsigned>(bits_ >> (p.kind * Accesses)) & ((1u << Accesses) - 1);
    }

  private:
    using Bits = std::conditional_t<Accesses <= 8, unsigned, unsigned long long>;
    Bits bits_ = 0;
};

/// Elements moved by one access.
template <class Element, int N>
struct alignas(sizeof(Element) * N) Pack {
    Element x[N];
};

/// What happens to elements on their way out.
template <class Element>
struct Move {
    template <int N>
    __device__ void operator()(Pack<Element, N>* to, const Pack<Element, N>& pack) const {
        *to = pack;
    }
};

template <class R>
struct alignas(2 * sizeof(R)) Complex {
    R re, im;
};
template <class R>
__device__ inline R times(R a, R b) {
    return a * b;
}
template <class R>
__device__ inline Complex<R> times(Complex<R> a, Complex<R> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class R>
__device__ inline R plus(R a, R b) {
    return a + b;
}
template <class R>
__device__ inline Complex<R> plus(Complex<R> a, Complex<R> b) {
    return {a.re + b.re, a.im + b.im};
}
template <class R>
__device__ inline R conjugated(R a) {
    return a;
}
template <class R>
__device__ inline Complex<R> conjugated(Complex<R> a) {
    return {a.re, -a.im};
}

/// Times one is nothing, as on the CPU: an infinite complex element keeps its other part.
template <class Word>
struct Combine {
    Word alpha, beta;
    bool accumulate, conjugate, scale, scale_old;
    template <int N>
    __device__ void operator()(Pack<Word, N>* to, Pack<Word, N> pack) const {
        Pack<Word, N> old{};
        if (accumulate) old = *to;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            Word& x = pack.x[i];
            if (conjugate) x = conjugated(x);
            if (scale) x = times(alpha, x);
            if (accumulate) x = plus(x, scale_old ? times(beta, old.x[i]) : old.x[i]);
        }
        *to = pack;
    }
};

extern __shared__ __align__(16) unsigned char shared_bytes[];

/// To shared memory, through the first-level cache whatever the size: neighbouring runs share sectors there.
/// (__pipeline_memcpy_async bypasses it with 16 bytes.)
template <int Bytes>
__device__ inline void copy_async(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "n"(Bytes)
                 : "memory");
}

/// Slots of a thread, two to a register.
template <int N>
struct Slots {
    unsigned pair[(N + 1) / 2] = {};
    __device__ void set(int i, unsigned slot) { pair[i / 2] |= slot << (i % 2 * 16); }
    __device__ unsigned operator[](int i) const { return i % 2 ? pair[i / 2] >> 16 : pair[i / 2] & 0xffff; }
};

/// InWord and OutWord: elements per access on either side.
template <class Word, class Offset, int Threads, int Elements, int Stages, int InWord, int OutWord, class Out>
__global__ void __launch_bounds__(Threads)
    through_shared(const __grid_constant__ Tiles<Offset> t, const Word* __restrict__ in, Word* __restrict__ out,
                   const __grid_constant__ Out emit) {
    Word* const shared = reinterpret_cast<Word*>(shared_bytes);
    constexpr int kReads = Elements / InWord, kWrites = Elements / OutWord;
    Offset in_offset[kReads], out_offset[kWrites];
    Slots<kReads> store;
    Slots<Elements> load;
#pragma unroll
    for (int m = 0; m < kReads; ++m) {
        const unsigned a = min(threadIdx.x + m * Threads, t.volume / InWord - 1);
        in_offset[m] = t.in_offset[a];
        store.set(m, t.store[a]);
    }
#pragma unroll
    for (int m = 0; m < kWrites; ++m) {
        const unsigned a = min(threadIdx.x + m * Threads, t.volume / OutWord - 1);
        out_offset[m] = t.out_offset[a];
#pragma unroll
        for (int i = 0; i < OutWord; ++i) load.set(m * OutWord + i, t.load[a * OutWord + i]);
    }
    const Presence<Threads, kReads> reads(t, t.in_coordinate, t.volume / InWord);
    const Presence<Threads, kWrites> writes(t, t.out_coordinate, t.volume / OutWord);

    const auto fetch = [&](const Place& p, Word* to) {
        const Word* const from = in + p.in;
        const unsigned present = reads(p);
#pragma unroll
        for (int m = 0; m < kReads; ++m)
            if (present >> m & 1) copy_async<sizeof(Word) * InWord>(to + store[m], from + in_offset[m]);
    };
    const auto drain = [&](const Place& p, const Word* from) {
        Word* const to = out + p.out;
        const unsigned present = writes(p);
#pragma unroll
        for (int m = 0; m < kWrites; ++m) {
            if (!(present >> m & 1)) continue;
            Pack<Word, OutWord> pack;
#pragma unroll
            for (int i = 0; i < OutWord; ++i) pack.x[i] = from[load[m * OutWord + i]];
            emit(reinterpret_cast<Pack<Word, OutWord>*>(to + out_offset[m]), pack);
        }
    };

    // While a tile is written, the next Stages - 1 are on their way, and the first warp finds the place of the one
    // after.
    __shared__ Place places[Stages + 1];
    const auto place = [&](unsigned tile, unsigned n) {
        if (threadIdx.x >= 32 || tile >= t.tiles) return;
        const Place p = locate(t, tile);
        if (threadIdx.x == 0) places[n] = p;
    };
    unsigned tile = blockIdx.x;
#pragma unroll
    for (int n = 0; n < Stages; ++n) place(tile + n * gridDim.x, n);
    __syncthreads();
    const auto prefetch = [&](unsigned at, unsigned n, unsigned stage) {
        if (at < t.tiles) fetch(places[n], shared + stage * t.slots);
        __pipeline_commit();
    };
#pragma unroll
    for (int n = 0; n < Stages - 1; ++n) prefetch(tile + n * gridDim.x, n, n);
    unsigned here = 0, stage = 0;  // of the tile in places and in shared memory
    const auto ahead = [](unsigned from, unsigned steps, unsigned period) {
        return from + steps < period ? from + steps : from + steps - period;
    };
    for (; tile < t.tiles; tile += gridDim.x) {
        prefetch(tile + (Stages - 1) * gridDim.x, ahead(here, Stages - 1, Stages + 1),
                 ahead(stage, Stages - 1, Stages));
        place(tile + Stages * gridDim.x, ahead(here, Stages, Stages + 1));
        __pipeline_wait_prior(Stages - 1);
        __syncthreads();
        drain(places[here], shared + stage * t.slots);
        here = ahead(here, 1, Stages + 1);
        stage = ahead(stage, 1, Stages);
        __syncthreads();
    }
}

/// Both sides share long runs: no shared memory.
template <class Word, class Offset, int Threads, int Elements, class Out>
__global__ void __launch_bounds__(Threads) direct(const __grid_constant__ Tiles<Offset> t, const Word* __restrict__ in,
                                                  Word* __restrict__ out, const __grid_constant__ Out emit) {
    Offset in_offset[Elements], out_offset[Elements];
#pragma unroll
    for (int m = 0; m < Elements; ++m) {
        const unsigned e = min(threadIdx.x + m * Threads, t.volume - 1);
        in_offset[m] = t.in_offset[e];
        out_offset[m] = t.out_offset[e];
    }
    const Presence<Threads, Elements> moves(t, t.in_coordinate, t.volume);
    for (unsigned tile = blockIdx.x; tile < t.tiles; tile += gridDim.x) {
        const Place p = locate(t, tile);
        const unsigned present = moves(p);
        Pack<Word, 1> x[Elements];
#pragma unroll
        for (int m = 0; m < Elements; ++m)
            if (present >> m & 1) x[m].x[0] = in[p.in + in_offset[m]];
#pragma unroll
        for (int m = 0; m < Elements; ++m)
            if (present >> m & 1) emit(reinterpret_cast<Pack<Word, 1>*>(out + p.out + out_offset[m]), x[m]);
    }
}

}  // namespace

}  // namespace tessera::kernels::cuda
