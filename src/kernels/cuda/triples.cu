// Instantiates and launches the kernels of the fused contraction.
#include <algorithm>
#include <vector>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/triples_device.hpp"
#include "kernels/cuda/triples_kernel.cuh"

namespace tessera::kernels::cuda {

namespace {

struct Instance {
    FusedVariant numbers{};
    int shared_store = 0, shared_energy = 0;  // bytes
    void (*kernel)(FusedParams, bool) = nullptr;
    void (*orbit)(FusedParams) = nullptr;
};

template <class S, bool Orbit = false>
Instance make_instance() {
    Instance x;
    FusedVariant& v = x.numbers;
    for (int n = 0; n < 4; ++n) v.tile[n] = S::tile(n);
    v.threads = S::threads;
    v.blocks_per_sm = S::blocks_per_sm;
    v.stages = S::stages;
    v.elements = S::elements;
    v.closed_shell = Orbit;
    for (int mask = 0; mask < 16; ++mask) v.depth[mask] = S::depth(mask);
    x.shared_store = 8 * S::shared_doubles(false);
    x.shared_energy = 8 * S::shared_doubles(true);
    x.kernel = device::fused_kernel<S>;
    if constexpr (Orbit) x.orbit = device::orbit_kernel<S>;
    return x;
}

const std::vector<Instance>& instances() {
    static const std::vector<Instance> list{
        make_instance<device::Shape<2, 1, 1, 2, 2>, true>(), make_instance<device::Shape<2, 1, 1, 3, 2>>(),
        make_instance<device::Shape<2, 2, 1, 3, 1>>(), make_instance<device::Shape<1, 1, 1, 2, 4>>()};
    return list;
}

const Instance& instance(int number) { return instances().at(static_cast<std::size_t>(number - 1)); }
cudaStream_t stream_of(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int fused_variant_count() { return static_cast<int>(instances().size()); }
const FusedVariant& fused_variant(int number) { return instance(number).numbers; }

void launch_fused(int variant, const FusedParams& params, bool to_energy, int blocks, StreamHandle stream) {
    const Instance& x = instance(variant);
    check(cudaFuncSetAttribute(x.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               std::max(x.shared_store, x.shared_energy)),
          "shared memory");
    x.kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(x.numbers.threads),
               static_cast<std::size_t>(to_energy ? x.shared_energy : x.shared_store), stream_of(stream)>>>(params,
                                                                                                            to_energy);
    check(cudaGetLastError(), "fused triples");
}

void launch_orbits(int variant, const FusedParams& params, int blocks, StreamHandle stream) {
    const Instance& x = instance(variant);
    check(cudaFuncSetAttribute(x.orbit, cudaFuncAttributeMaxDynamicSharedMemorySize, x.shared_energy), "shared memory");
    x.orbit<<<static_cast<unsigned>(blocks), static_cast<unsigned>(x.numbers.threads),
              static_cast<std::size_t>(x.shared_energy), stream_of(stream)>>>(params);
    check(cudaGetLastError(), "closed-shell triples");
}

void launch_plain(const FusedParams& params, bool to_energy, long long elements, int blocks, StreamHandle stream) {
    const auto grid = static_cast<unsigned>(blocks);
    if (to_energy)
        device::plain_kernel<true>
            <<<grid, kPlainThreads, kPlainThreads * sizeof(double), stream_of(stream)>>>(params, elements);
    else
        device::plain_kernel<false><<<grid, kPlainThreads, 0, stream_of(stream)>>>(params, elements);
    check(cudaGetLastError(), "plain triples");
}

void launch_reduce(const double* partial, long long count, double scale, double* result, StreamHandle stream) {
    device::reduce_kernel<<<1, 256, 0, stream_of(stream)>>>(partial, count, scale, result);
    check(cudaGetLastError(), "triples energy");
}

int multiprocessors() {
    int id = 0, count = 0;
    check(cudaGetDevice(&id), "current device");
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, id), "multiprocessors");
    return count;
}

}  // namespace tessera::kernels::cuda
