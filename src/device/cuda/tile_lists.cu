// Lists of tiles, element by element: the hash generator.
#include "base/hash.hpp"
#include "device/cuda/check.hpp"
#include "device/cuda/grouped_gemm.hpp"

namespace tessera::kernels::cuda {

namespace {

constexpr int kThreads = 256;

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

}  // namespace

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
