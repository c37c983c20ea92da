#include "device_code_kernels.hpp"

#include <algorithm>

#include "support/own_values.hpp"

namespace tessera::testing {

namespace {

__global__ void own_tile(double* out, long long tile, long long columns, long long pitch, long long elements) {
    for (long long e = blockIdx.x * 256LL + threadIdx.x; e < elements; e += gridDim.x * 256LL)
        out[e / columns * pitch + e % columns] = own_value(tile, e);
}

__global__ void change(double* x, long long elements) {
    for (long long e = blockIdx.x * 256LL + threadIdx.x; e < elements; e += gridDim.x * 256LL)
        x[e] = changed_value(x[e]);
}

__global__ void write_nowhere(double* out) { *out = 1; }

}  // namespace

void make_own_tiles(std::span<const DeviceTile> tiles, void* stream) {
    for (const auto& t : tiles) {
        const auto elements = t.rows * t.columns;
        const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((elements + 255) / 256, 1024));
        own_tile<<<blocks, 256, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<double*>(t.data), t.info.tile.value,
                                                                        t.columns, t.pitch, elements);
    }
}

void change_tiles(std::span<const DeviceTile> tiles, void* stream) {
    for (const auto& t : tiles)
        change<<<64, 256, 0, static_cast<cudaStream_t>(stream)>>>(static_cast<double*>(t.data), t.rows * t.columns);
}

void make_impossible_launch(std::span<const DeviceTile>, void* stream) {
    write_nowhere<<<1, 4096, 0, static_cast<cudaStream_t>(stream)>>>(nullptr);
}

void make_bad_access(std::span<const DeviceTile>, void* stream) {
    write_nowhere<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(nullptr);
}

}  // namespace tessera::testing
