// Lists of tiles, element by element: the finishing pass and the hash generator.
#include <complex>

#include "base/hash.hpp"
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/grouped_gemm.hpp"

namespace tessera::kernels::cuda {

namespace {

constexpr int kThreads = 256;

template <class R>
struct Pair {  // a complex number
    R re, im;
};

// Rounded like the host's: products and sums apart (no fused operations in this build), complex ones by the textbook.
template <class R>
__device__ R times(R x, R y) {
    return x * y;
}
template <class R>
__device__ Pair<R> times(Pair<R> x, Pair<R> y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class R>
__device__ R plus(R x, R y) {
    return x + y;
}
template <class R>
__device__ Pair<R> plus(Pair<R> x, Pair<R> y) {
    return {x.re + y.re, x.im + y.im};
}
template <class R>
__device__ double square(R x) {
    return static_cast<double>(x) * static_cast<double>(x);
}
template <class R>
__device__ double square(Pair<R> x) {
    return square(x.re) + square(x.im);
}

/// Walks rows x columns elements by a thread block's threads without dividing at every step.
struct Walk {
    int row, column;
    int row_step, column_step, columns;
    __device__ explicit Walk(int n) : columns(n) {
        row = static_cast<int>(threadIdx.x) / n;
        column = static_cast<int>(threadIdx.x) % n;
        row_step = kThreads / n;
        column_step = kThreads % n;
    }
    __device__ void step() {
        row += row_step;
        column += column_step;
        if (column >= columns) {
            column -= columns;
            ++row;
        }
    }
};

template <class T>
__global__ void __launch_bounds__(kThreads) finish_kernel(const FinishTile* tiles, const RowsItem* items, double* parts,
                                                          T alpha, bool scale, T beta, bool add) {
    const RowsItem item = items[blockIdx.x];
    const FinishTile tile = tiles[item.tile];
    const T* sum = reinterpret_cast<const T*>(tile.sum) + static_cast<long long>(item.row) * tile.ld_sum;
    const T* old = reinterpret_cast<const T*>(tile.old) + static_cast<long long>(item.row) * tile.ld_old;
    T* out = reinterpret_cast<T*>(tile.out) + static_cast<long long>(item.row) * tile.ld_out;
    const bool with_old = add && tile.old != 0;
    double squares = 0;
    for (Walk at(tile.n); at.row < item.rows; at.step()) {
        T x = sum[static_cast<long long>(at.row) * tile.ld_sum + at.column];
        if (scale) x = times(x, alpha);
        if (with_old) x = plus(x, times(beta, old[static_cast<long long>(at.row) * tile.ld_old + at.column]));
        out[static_cast<long long>(at.row) * tile.ld_out + at.column] = x;
        squares += square(x);
    }
    if (parts == nullptr) return;
    __shared__ double shared[kThreads];
    shared[threadIdx.x] = squares;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = shared[0];
}

__global__ void join_kernel(const FinishTile* tiles, long long tile_count, long long part_count, const double* parts,
                            double* squares) {
    const long long t = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (t >= tile_count) return;
    const long long end = t + 1 < tile_count ? tiles[t + 1].first_part : part_count;
    double sum = 0;
    for (long long p = tiles[t].first_part; p < end; ++p) sum += parts[p];
    squares[t] = sum;
}

__device__ __forceinline__ double hash_value(std::uint64_t state, std::uint64_t number) {
    std::uint64_t z = state + number * kGamma + kGamma;
    z = (z ^ (z >> 30)) * kMixFirst;
    z = (z ^ (z >> 27)) * kMixSecond;
    z ^= z >> 31;
    return static_cast<double>((static_cast<std::int64_t>(z) >> 11) | 1);
}

/// R: the real type; a complex element is two of them.
template <class R, int Reals>
__global__ void __launch_bounds__(kThreads) hash_kernel(const HashTile* tiles, const RowsItem* items) {
    const RowsItem item = items[blockIdx.x];
    const HashTile tile = tiles[item.tile];
    const int columns = Reals * tile.columns;
    const long long ld = static_cast<long long>(Reals) * tile.ld;
    const double factor = tile.scale * 0x1p-52;
    R* out = reinterpret_cast<R*>(tile.out) + item.row * ld;
    const auto first = static_cast<std::uint64_t>(item.row) * static_cast<std::uint64_t>(columns);
#pragma unroll 4
    for (Walk at(columns); at.row < item.rows; at.step()) {
        const std::uint64_t number = first + static_cast<std::uint64_t>(at.row) * static_cast<std::uint64_t>(columns) +
                                     static_cast<std::uint64_t>(at.column);
        out[at.row * ld + at.column] = static_cast<R>(hash_value(tile.state, number) * factor);
    }
}

template <class T, class Host>
void finish(const FinishLaunch& launch, char* base, const void* alpha, const void* beta, double* squares,
            cudaStream_t stream) {
    static_assert(sizeof(T) == sizeof(Host));
    const Host a = alpha != nullptr ? *static_cast<const Host*>(alpha) : Host(1);
    const Host b = beta != nullptr ? *static_cast<const Host*>(beta) : Host(0);
    const auto* tiles = reinterpret_cast<const FinishTile*>(base + launch.tiles_at);
    auto* parts = squares != nullptr ? reinterpret_cast<double*>(base + launch.parts_at) : nullptr;
    T device_a, device_b;
    __builtin_memcpy(&device_a, &a, sizeof(T));
    __builtin_memcpy(&device_b, &b, sizeof(T));
    if (launch.part_count > 0)
        finish_kernel<T><<<static_cast<unsigned>(launch.part_count), kThreads, 0, stream>>>(
            tiles, reinterpret_cast<const RowsItem*>(base + launch.items_at), parts, device_a, a != Host(1), device_b,
            b != Host(0));
    check(cudaGetLastError(), "finish tiles");
    if (parts == nullptr || launch.tile_count == 0) return;
    join_kernel<<<static_cast<unsigned>((launch.tile_count + 127) / 128), 128, 0, stream>>>(
        tiles, launch.tile_count, launch.part_count, parts, squares);
    check(cudaGetLastError(), "tile norms");
}

}  // namespace

void run_finish(const FinishLaunch& launch, void* image, const void* alpha, const void* beta, double* squares,
                StreamHandle stream) {
    auto* base = static_cast<char*>(image);
    const auto on = static_cast<cudaStream_t>(stream);
    switch (launch.kind) {
        case ScalarKind::f32:
            return finish<float, float>(launch, base, alpha, beta, squares, on);
        case ScalarKind::f64:
            return finish<double, double>(launch, base, alpha, beta, squares, on);
        case ScalarKind::c64:
            return finish<Pair<float>, std::complex<float>>(launch, base, alpha, beta, squares, on);
        case ScalarKind::c128:
            return finish<Pair<double>, std::complex<double>>(launch, base, alpha, beta, squares, on);
    }
}

void run_hash(const HashLaunch& launch, void* image, StreamHandle stream) {
    if (launch.item_count == 0) return;
    auto* base = static_cast<char*>(image);
    const auto* tiles = reinterpret_cast<const HashTile*>(base + launch.tiles_at);
    const auto* items = reinterpret_cast<const RowsItem*>(base + launch.items_at);
    const auto blocks = static_cast<unsigned>(launch.item_count);
    const auto on = static_cast<cudaStream_t>(stream);
    switch (launch.kind) {
        case ScalarKind::f32:
            hash_kernel<float, 1><<<blocks, kThreads, 0, on>>>(tiles, items);
            break;
        case ScalarKind::f64:
            hash_kernel<double, 1><<<blocks, kThreads, 0, on>>>(tiles, items);
            break;
        case ScalarKind::c64:
            hash_kernel<float, 2><<<blocks, kThreads, 0, on>>>(tiles, items);
            break;
        case ScalarKind::c128:
            hash_kernel<double, 2><<<blocks, kThreads, 0, on>>>(tiles, items);
            break;
    }
    check(cudaGetLastError(), "hash generator");
}

}  // namespace tessera::kernels::cuda
