// Lyakh's algorithm 2 with the divisions taken out: a thread block keeps the offsets of its elements in registers and
// walks over tiles; only the tile's base changes, and each warp computes that with one axis per lane.

#include <cuda_pipeline.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/transpose.hpp"
#include "kernels/transpose_tiles.hpp"

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
    const unsigned* slot;
    const unsigned* in_coordinate;
    const unsigned* out_coordinate;
    unsigned volume, slots, tiles;
    int loops;
    Loop loop[kMaxTransposeRank];
};

/// Where a tile lies. Kind: bit i is set where it is the ragged last one along loop i.
struct Place {
    long long in, out;
    unsigned kind;
};

__device__ inline unsigned last_length(const Loop& l) {
    return static_cast<unsigned>(l.extent - static_cast<long long>(l.count - 1) * l.block);
}

/// One axis per lane.
class Locator {
  public:
    template <class Offset>
    __device__ explicit Locator(const Tiles<Offset>& t) {
        const int lane = threadIdx.x & 31;
        if (lane < t.loops) mine_ = t.loop[lane];
        has_loop_ = lane < t.loops;
        ragged_ = lane < 2 && last_length(mine_) < mine_.block;
    }
    __device__ Place operator()(unsigned tile) const {
        long long in = 0, out = 0;
        bool last = false;
        if (has_loop_) {
            const unsigned at = tile / mine_.period % mine_.count;
            in = at * mine_.in_step;
            out = at * mine_.out_step;
            last = ragged_ && at == mine_.count - 1;
        }
        for (int step = 16; step > 0; step /= 2) {
            in += __shfl_xor_sync(~0u, in, step);
            out += __shfl_xor_sync(~0u, out, step);
        }
        return {in, out, __ballot_sync(~0u, last)};
    }

  private:
    Loop mine_{1, 1, 1, 1, 0, 0};
    bool has_loop_ = false, ragged_ = false;
};

/// Which of a thread's elements a tile of each kind has, a bit each: ragged tiles then cost no more than whole ones.
template <int Threads, int Elements>
class Presence {
  public:
    template <class Offset>
    __device__ Presence(const Tiles<Offset>& t, const unsigned* coordinates) {
        const auto limit = [&](int i, bool ragged) {
            return i >= t.loops ? 1u : ragged ? last_length(t.loop[i]) : t.loop[i].block;
        };
        for (int kind = 0; kind < 4; ++kind) {
            const unsigned limit0 = limit(0, kind & 1), limit1 = limit(1, kind & 2);
            for (int m = 0; m < Elements; ++m) {
                const unsigned e = threadIdx.x + m * Threads;
                if (e >= t.volume) break;
                const unsigned c = coordinates[e];
                if ((c & 0xffff) < limit0 && (c >> 16) < limit1) bits_ |= Bits{1} << (kind * Elements + m);
            }
        }
    }
    __device__ unsigned operator()(const Place& p) const {
        return static_cast<unsigned>(bits_ >> (p.kind * Elements)) & ((1u << Elements) - 1);
    }

  private:
    using Bits = std::conditional_t<Elements <= 8, unsigned, unsigned long long>;
    Bits bits_ = 0;
};

/// What happens to an element on its way out.
template <class Word>
struct Move {
    __device__ void operator()(Word* to, Word x) const { *to = x; }
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
    __device__ void operator()(Word* to, Word x) const {
        if (conjugate) x = conjugated(x);
        if (scale) x = times(alpha, x);
        *to = accumulate ? plus(x, scale_old ? times(beta, *to) : *to) : x;
    }
};

extern __shared__ __align__(16) unsigned char shared_bytes[];

template <class Word, class Offset, int Threads, int Elements, int Stages, class Out>
__global__ void __launch_bounds__(Threads)
    through_shared(const __grid_constant__ Tiles<Offset> t, const Word* __restrict__ in, Word* __restrict__ out,
                   const __grid_constant__ Out emit) {
    Word* const shared = reinterpret_cast<Word*>(shared_bytes);
    Offset in_offset[Elements], out_offset[Elements];
    unsigned slot[Elements];
#pragma unroll
    for (int m = 0; m < Elements; ++m) {
        const unsigned e = min(threadIdx.x + m * Threads, t.volume - 1);
        in_offset[m] = t.in_offset[e];
        out_offset[m] = t.out_offset[e];
        slot[m] = t.slot[e];
    }
    const Locator locate(t);
    const Presence<Threads, Elements> reads(t, t.in_coordinate), writes(t, t.out_coordinate);

    const auto fetch = [&](const Place& p, Word* to) {
        const Word* const from = in + p.in;
        const unsigned present = reads(p);
#pragma unroll
        for (int m = 0; m < Elements; ++m) {
            if (present >> m & 1) __pipeline_memcpy_async(to + (slot[m] & 0xffff), from + in_offset[m], sizeof(Word));
        }
        __pipeline_commit();
    };
    const auto drain = [&](const Place& p, const Word* from) {
        Word* const to = out + p.out;
        const unsigned present = writes(p);
#pragma unroll
        for (int m = 0; m < Elements; ++m)
            if (present >> m & 1) emit(to + out_offset[m], from[slot[m] >> 16]);
    };

    unsigned tile = blockIdx.x;
    if (tile >= t.tiles) return;
    if constexpr (Stages == 1) {
        Place here = locate(tile);
        for (;;) {
            fetch(here, shared);
            __pipeline_wait_prior(0);
            __syncthreads();
            drain(here, shared);
            tile += gridDim.x;
            if (tile >= t.tiles) return;
            here = locate(tile);
            __syncthreads();
        }
    } else {
        // The next Stages - 1 tiles are on their way.
        Place places[Stages];
        const auto prefetch = [&](Place& place, unsigned at, unsigned stage) {
            if (at < t.tiles) {
                place = locate(at);
                fetch(place, shared + stage * t.slots);
            } else {
                __pipeline_commit();
            }
        };
#pragma unroll
        for (int n = 0; n < Stages - 1; ++n) prefetch(places[n], tile + n * gridDim.x, n);
        for (unsigned stage = 0, last = Stages - 1;;) {
            prefetch(places[Stages - 1], tile + (Stages - 1) * gridDim.x, last);
            __pipeline_wait_prior(Stages - 1);
            __syncthreads();
            drain(places[0], shared + stage * t.slots);
            tile += gridDim.x;
            if (tile >= t.tiles) return;
#pragma unroll
            for (int n = 0; n + 1 < Stages; ++n) places[n] = places[n + 1];
            last = stage;
            stage = stage + 1 == Stages ? 0 : stage + 1;
            __syncthreads();
        }
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
    const Locator locate(t);
    const Presence<Threads, Elements> moves(t, t.in_coordinate);
    for (unsigned tile = blockIdx.x; tile < t.tiles; tile += gridDim.x) {
        const Place p = locate(tile);
        const unsigned present = moves(p);
        Word x[Elements];
#pragma unroll
        for (int m = 0; m < Elements; ++m)
            if (present >> m & 1) x[m] = in[p.in + in_offset[m]];
#pragma unroll
        for (int m = 0; m < Elements; ++m)
            if (present >> m & 1) emit(out + p.out + out_offset[m], x[m]);
    }
}

template <class T>
DeviceBuffer upload(const std::vector<T>& host) {
    DeviceBuffer b(host.size() * sizeof(T));
    if (!host.empty()) copy_to_device(b.data(), host.data(), host.size() * sizeof(T));
    return b;
}

/// TileTables in device memory.
struct DeviceTiles {
    TileTables host;
    bool wide_offsets = false;
    int threads = 0, elements = 0, stages = 0;
    int waves = 1;          // blocks per resident one
    bool resonant = false;  // keep the grid whatever its factors
    DeviceBuffer in_offset, out_offset, slot, in_coordinate, out_coordinate;

    DeviceTiles(TileTables tables, int t, int e, int s) : host(std::move(tables)), threads(t), elements(e), stages(s) {
        if (host.tiles == 0) return;
        wide_offsets = host.largest_offset > 0xffffffffll;
        if (wide_offsets) {
            in_offset = upload(host.in_offset);
            out_offset = upload(host.out_offset);
        } else {
            in_offset = upload(std::vector<unsigned>(host.in_offset.begin(), host.in_offset.end()));
            out_offset = upload(std::vector<unsigned>(host.out_offset.begin(), host.out_offset.end()));
        }
        slot = upload(host.slot);
        in_coordinate = upload(host.in_coordinate);
        out_coordinate = upload(host.out_coordinate);
        // The tables' text is on the device now; the plan and the counts are what the host still needs.
        for (auto* v : {&host.in_offset, &host.out_offset}) std::vector<std::int64_t>().swap(*v);
        for (auto* v : {&host.slot, &host.in_coordinate, &host.out_coordinate}) std::vector<std::uint32_t>().swap(*v);
    }

    template <class Offset>
    Tiles<Offset> view() const {
        Tiles<Offset> t{};
        t.in_offset = static_cast<const Offset*>(in_offset.data());
        t.out_offset = static_cast<const Offset*>(out_offset.data());
        t.slot = static_cast<const unsigned*>(slot.data());
        t.in_coordinate = static_cast<const unsigned*>(in_coordinate.data());
        t.out_coordinate = static_cast<const unsigned*>(out_coordinate.data());
        t.volume = host.volume;
        t.slots = host.slots;
        t.tiles = static_cast<unsigned>(host.tiles);
        t.loops = static_cast<int>(host.loops.size());
        for (int i = 0; i < t.loops; ++i) {
            const auto& l = host.loops[i];
            t.loop[i] = {l.period, l.count, l.block, l.extent, l.in_step, l.out_step};
        }
        return t;
    }
};

template <class Kernel, class Offset, class Word, class Out>
void launch_kernel(Kernel kernel, int threads, std::size_t shared, const DeviceTiles& tiles, const Tiles<Offset>& view,
                   const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    if (shared > 48 << 10)
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
              "shared memory");
    int device = 0, processors = 0, resident = 0;
    check(cudaGetDevice(&device), "device");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared), "occupancy");
    auto grid = static_cast<unsigned>(
        std::min<std::int64_t>(tiles.host.tiles, std::int64_t{processors} * std::max(resident, 1) * tiles.waves));
    // A grid that shares a factor with the tiles along a cut axis would give some blocks all the ragged tiles.
    if (grid > 64 && grid < tiles.host.tiles && !tiles.resonant)
        while (std::gcd(std::int64_t{grid}, tiles.host.cut_tiles) != 1) --grid;
    kernel<<<grid, threads, shared, static_cast<cudaStream_t>(stream)>>>(view, in, out, emit);
    check(cudaGetLastError(), "transpose launch");
}

template <class Word, class Offset, int Threads, int Elements, int Stages, class Out>
void launch_tile(const DeviceTiles& tiles, const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    launch_kernel(through_shared<Word, Offset, Threads, Elements, Stages, Out>, Threads,
                  std::size_t{tiles.host.slots} * sizeof(Word) * Stages, tiles, tiles.view<Offset>(), in, out, emit,
                  stream);
}

/// The tile shapes that are compiled: threads, elements, stages.
template <class Word, class Out>
void launch(const DeviceTiles& tiles, const Word* in, Word* out, const Out& emit, StreamHandle stream) {
    if (tiles.wide_offsets) {
        if (tiles.host.direct)
            launch_kernel(direct<Word, long long, 256, 8, Out>, 256, 0, tiles, tiles.view<long long>(), in, out, emit,
                          stream);
        else
            launch_tile<Word, long long, 256, 8, 1>(tiles, in, out, emit, stream);
        return;
    }
    if (tiles.host.direct) {
        launch_kernel(direct<Word, unsigned, 256, 8, Out>, 256, 0, tiles, tiles.view<unsigned>(), in, out, emit,
                      stream);
        return;
    }
#define TESSERA_TILE(T, E, S)                                               \
    if (tiles.threads == T && tiles.elements == E && tiles.stages == S) {   \
        launch_tile<Word, unsigned, T, E, S>(tiles, in, out, emit, stream); \
        return;                                                             \
    }
    TESSERA_TILE(256, 8, 1)
    if constexpr (std::is_same_v<Out, Move<Word>>) {
        TESSERA_TILE(256, 8, 2)
        TESSERA_TILE(256, 16, 1)
        TESSERA_TILE(512, 8, 1)
        TESSERA_TILE(512, 8, 2)
        TESSERA_TILE(384, 8, 1)
        TESSERA_TILE(1024, 8, 1)
        TESSERA_TILE(768, 8, 2)
        TESSERA_TILE(512, 16, 2)
    }
#undef TESSERA_TILE
    throw InternalError("internal: transpose: no tile kernel of that shape");
}

template <Scalar T>
struct WordOf {
    using type = T;
};
template <>
struct WordOf<std::complex<float>> {
    using type = Complex<float>;
};
template <>
struct WordOf<std::complex<double>> {
    using type = Complex<double>;
};

bool aligned(const void* p, int bytes) {
    return reinterpret_cast<std::uintptr_t>(p) % static_cast<unsigned>(bytes) == 0;
}

}  // namespace

struct DeviceTranspose::Impl {
    TransposePlan plan;
    DeviceTiles general;                // small tiles in elements, for alpha, beta and odd addresses
    std::unique_ptr<DeviceTiles> fast;  // the widest words and the best tile shape

    static DeviceTiles tiles_for(const TransposePlan& plan, DeviceTransposeTuning tuning, bool tuned) {
        const auto or_else = [](auto value, decltype(value) fallback) { return value != 0 ? value : fallback; };
        int threads = 256, elements = 8, stages = 1;
        if (tuned) {
            threads = or_else(tuning.threads, 768);
            elements = or_else(tuning.elements, 8);
            stages = or_else(tuning.stages, 2);
        }
        const std::int64_t run = or_else(tuning.run_bytes, std::int64_t{256});
        const std::int64_t row = or_else(tuning.row_bytes, std::int64_t{1} << 20);
        int device = 0, shared = 0;
        check(cudaGetDevice(&device), "device");
        check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
        auto volume = std::int64_t{threads} * elements;
        auto tables = make_tiles(plan, volume, run, row);
        // Wide words may need smaller tiles than the threads could move.
        while (std::int64_t{tables.slots} * tables.plan.element_bytes * stages > shared)
            tables = make_tiles(plan, volume = volume * 3 / 4, run, row);
        if ((tables.direct || tables.largest_offset > 0xffffffffll) && threads * elements != 256 * 8)
            tables = make_tiles(plan, 256 * 8, run, row);  // those kernels come in one shape
        DeviceTiles made(std::move(tables), threads, elements, stages);
        made.waves = std::max(1, tuning.waves);
        made.resonant = tuning.waves < 0;
        return made;
    }
    Impl(const TransposePlan& p, const DeviceTransposeTuning& tuning) : plan(p), general(tiles_for(p, tuning, false)) {
        if (plan.volume > 0) fast = std::make_unique<DeviceTiles>(tiles_for(widen(plan), tuning, true));
    }
};

DeviceTranspose::DeviceTranspose(std::span<const std::int64_t> extents, std::span<const int> permutation,
                                 int element_bytes, std::span<const std::int64_t> in_strides,
                                 std::span<const std::int64_t> out_strides, const DeviceTransposeTuning& tuning) {
    const auto plan = plan_transpose(extents, permutation, element_bytes, in_strides, out_strides);
    if (device_count() == 0) throw BackendUnavailable("CUDA: no device");
    impl_ = std::make_unique<Impl>(plan, tuning);
}
DeviceTranspose::~DeviceTranspose() = default;
DeviceTranspose::DeviceTranspose(DeviceTranspose&&) noexcept = default;
DeviceTranspose& DeviceTranspose::operator=(DeviceTranspose&&) noexcept = default;

const TransposePlan& DeviceTranspose::plan() const { return impl_->fast ? impl_->fast->host.plan : impl_->plan; }

std::string DeviceTranspose::description() const {
    if (!impl_->fast) return describe(impl_->plan);
    const auto& f = *impl_->fast;
    const auto text = [](auto n) { return std::to_string(n); };
    return describe(impl_->plan) + "  words of " + text(f.host.plan.element_bytes) + " bytes, tiles " +
           text(f.threads) + "x" + text(f.elements) + "x" + text(f.stages) + (f.host.direct ? ", direct" : "") + ", " +
           text(f.host.tiles) + " tiles of " + text(f.host.volume) + " elements in " + text(f.host.slots) + " slots, " +
           text(f.host.conflicts) + " wavefronts per access";
}

template <Scalar T>
void DeviceTranspose::run(const T* in, T* out, T alpha, T beta, bool conjugate, StreamHandle stream) const {
    const auto& plan = impl_->plan;
    // No fmt here: nvcc does not compile version 9 of it as C++20.
    if (plan.element_bytes != static_cast<int>(sizeof(T)))
        throw UserError("transpose: plan for elements of " + std::to_string(plan.element_bytes) +
                        " bytes, called with " + std::to_string(sizeof(T)));
    if (plan.volume == 0) return;
    if (in == nullptr || out == nullptr)
        throw UserError(std::string("transpose: null ") + (in == nullptr ? "input" : "output"));
    const auto a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
    if (!(a + plan.in_span * sizeof(T) <= b || b + plan.out_span * sizeof(T) <= a))
        throw UserError("transpose: input at " + std::to_string(a) + " and output at " + std::to_string(b) +
                        " overlap");
    if (!aligned(in, sizeof(T)) || !aligned(out, sizeof(T)))
        throw UserError("transpose: device addresses " + std::to_string(a) + " and " + std::to_string(b) +
                        " must be multiples of the element size " + std::to_string(sizeof(T)));
    const bool plain = alpha == T(1) && beta == T(0) && !(is_complex<T> && conjugate);
    const int word = impl_->fast->host.plan.element_bytes;
    if (plain && aligned(in, word) && aligned(out, word)) {
        if (word == 4)
            launch(*impl_->fast, reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), Move<float>{},
                   stream);
        if (word == 8)
            launch(*impl_->fast, reinterpret_cast<const double*>(in), reinterpret_cast<double*>(out), Move<double>{},
                   stream);
        if (word == 16)
            launch(*impl_->fast, reinterpret_cast<const double2*>(in), reinterpret_cast<double2*>(out), Move<double2>{},
                   stream);
        return;
    }
    using Word = typename WordOf<T>::type;
    const Combine<Word> combine{
        std::bit_cast<Word>(alpha), std::bit_cast<Word>(beta), beta != T(0), conjugate, alpha != T(1), beta != T(1)};
    launch(impl_->general, reinterpret_cast<const Word*>(in), reinterpret_cast<Word*>(out), combine, stream);
}

template void DeviceTranspose::run<float>(const float*, float*, float, float, bool, StreamHandle) const;
template void DeviceTranspose::run<double>(const double*, double*, double, double, bool, StreamHandle) const;
template void DeviceTranspose::run<std::complex<float>>(const std::complex<float>*, std::complex<float>*,
                                                        std::complex<float>, std::complex<float>, bool,
                                                        StreamHandle) const;
template void DeviceTranspose::run<std::complex<double>>(const std::complex<double>*, std::complex<double>*,
                                                         std::complex<double>, std::complex<double>, bool,
                                                         StreamHandle) const;

}  // namespace tessera::kernels::cuda
