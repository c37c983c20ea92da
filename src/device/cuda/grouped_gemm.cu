// Instantiates and launches the kernels of the grouped products.
#include "device/cuda/grouped_gemm.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "device/cuda/check.hpp"
#include "device/cuda/grouped_kernel.cuh"
#include "device/cuda/grouped_large.cuh"
#include "device/cuda/grouped_shapes.hpp"
#include "device/cuda/grouped_simt.cuh"
#include "tessera/base/error.hpp"

namespace tessera::kernels::cuda {

namespace {

using device::GroupedShape;
using Kernel = void (*)(const GroupedTile*, const GroupedProduct*, const GroupedItem*, int, unsigned*);

struct Instance {
    Kernel kernel;
    int threads, shared_bytes, side;
};

template <class S>
constexpr Instance instance() {
    if constexpr (S::large)
        return {device::grouped_large_kernel<S>, S::threads, S::shared_bytes, S::side};
    else
        return {device::grouped_kernel<S>, S::threads, S::shared_bytes, S::side};
}

template <int Variant>
using LargeShape = GroupedShape<2, 4, 4, 4, kLargeVariants[Variant].depth, kLargeVariants[Variant].stages, 1>;
const Instance kLargeInstances[] = {
    instance<LargeShape<0>>(),
    instance<LargeShape<1>>(),
    instance<LargeShape<2>>(),
};
static_assert(std::size(kLargeInstances) == std::size(kLargeVariants));
// What a thread block gets on H100, A100, and on the smaller chips of their time.
static_assert(LargeShape<0>::shared_bytes <= 227 << 10 && LargeShape<1>::shared_bytes <= 163 << 10 &&
              LargeShape<2>::shared_bytes <= 99 << 10);

// In the order of kGroupedShapes, from the second on.
const Instance kInstances[] = {
    instance<GroupedShape<2, 2, 2, 4, 32, 2, 3>>(),
    instance<GroupedShape<1, 1, 2, 4, 16, 2, 11>>(),
    instance<GroupedShape<1, 1, 1, 2, 16, 2, 16>>(),
};

Instance large_instance(int limit) {
    int shared_bytes[std::size(kLargeInstances)];
    std::ranges::transform(kLargeInstances, shared_bytes, &Instance::shared_bytes);
    const int variant = fitting_variant(shared_bytes, static_cast<int>(std::size(shared_bytes)), limit);
    if (variant < 0)
        throw BackendUnavailable("CUDA: thread blocks of this device have " + std::to_string(limit) +
                                 " bytes of shared memory, the tile products need " +
                                 std::to_string(shared_bytes[std::size(shared_bytes) - 1]));
    return kLargeInstances[variant];
}

Instance instance_of(const GroupedLaunch& launch, int shape, int shared_limit) {
    switch (launch.kind) {
        case ScalarKind::f32:
            return {device::plain_grouped_kernel<float>, device::kPlainThreads2, 0, device::kPlainSide};
        case ScalarKind::c64:
            return {device::plain_grouped_kernel<device::Complex64>, device::kPlainThreads2, 0, device::kPlainSide};
        case ScalarKind::c128:
            return {device::plain_grouped_kernel<device::Complex128>, device::kPlainThreads2, 0, device::kPlainSide};
        case ScalarKind::f64:
            break;
    }
    return shape == 0 ? large_instance(shared_limit) : kInstances[shape - 1];
}

}  // namespace

void run_grouped(const GroupedLaunch& launch, void* image, StreamHandle stream, const GroupedTuning& tuning) {
    auto* base = static_cast<char*>(image);
    const auto on = static_cast<cudaStream_t>(stream);
    check(cudaMemsetAsync(base, 0, kGroupedHeaderBytes, on), "grouped products: counters");
    int device = 0, multiprocessors = 0;
    check(cudaGetDevice(&device), "current device");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
    int shared_limit = tuning.shared_bytes;
    if (shared_limit == 0)
        check(cudaDeviceGetAttribute(&shared_limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
    for (int shape = 0; shape < GroupedLaunch::kShapes; ++shape) {
        if (launch.item_count[shape] == 0) continue;
        const Instance x = instance_of(launch, shape, shared_limit);
        check(cudaFuncSetAttribute(x.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, x.shared_bytes),
              "shared memory");
        int resident = 0;
        check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, x.kernel, x.threads,
                                                            static_cast<std::size_t>(x.shared_bytes)),
              "occupancy");
        std::int64_t blocks = static_cast<std::int64_t>(std::max(resident, 1)) * multiprocessors;
        if (tuning.blocks > 0) blocks = tuning.blocks;
        blocks = std::min(blocks, launch.item_count[shape]);
        x.kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(x.threads),
                   static_cast<std::size_t>(x.shared_bytes), on>>>(
            reinterpret_cast<const GroupedTile*>(base + launch.tiles_at),
            reinterpret_cast<const GroupedProduct*>(base + launch.products_at),
            reinterpret_cast<const GroupedItem*>(base + launch.items_at[shape]),
            static_cast<int>(launch.item_count[shape]), reinterpret_cast<unsigned*>(base) + 16 * shape);
        check(cudaGetLastError(), "grouped products");
    }
}

}  // namespace tessera::kernels::cuda
