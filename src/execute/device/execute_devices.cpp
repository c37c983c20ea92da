#include "execute/device/execute_devices.hpp"

#include "execute/cuda/cuda_devices.hpp"
#include "execute/device/interpreter.hpp"

namespace tessera {

bool device_can_make(const ContractionSpec& spec, Operand operand) {
    const MatrixLabels labels(spec);
    return operand == Operand::a ? spec.a() == labels.batch + labels.m + labels.k
                                 : spec.b() == labels.batch + labels.k + labels.n;
}

template <Scalar T>
DeviceExecuteCounts execute_on(std::span<const std::unique_ptr<Device>> devices, const Plan& plan, int rank,
                               const TileSource<T>& a, const TileSource<T>& b, const TileSink<T>& c,
                               const ExecuteOptions<T>& options, const DeviceOptions& device_options) {
    DeviceInterpreter<T> interpreter(devices, plan, rank, a, b, c, options, device_options);
    return interpreter.run();
}

template <Scalar T>
DeviceExecuteCounts execute_devices(const Plan& plan, int rank, std::span<const int> device_ids, const TileSource<T>& a,
                                    const TileSource<T>& b, const TileSink<T>& c, const ExecuteOptions<T>& options,
                                    const DeviceOptions& device_options) {
    std::vector<std::int64_t> arenas;
    for (std::size_t d = 0; d < device_ids.size(); ++d)
        arenas.push_back(plan.device_counts.at(static_cast<std::size_t>(rank * plan.devices_per_rank) + d).peak_bytes);
    const auto devices = open_cuda_devices(device_ids, arenas, device_options.memory, plan.scalar);
    return execute_on<T>(devices, plan, rank, a, b, c, options, device_options);
}

#define TESSERA_INSTANTIATE(T)                                                                                    \
    template DeviceExecuteCounts execute_on<T>(std::span<const std::unique_ptr<Device>>, const Plan&, int,        \
                                               const TileSource<T>&, const TileSource<T>&, const TileSink<T>&,    \
                                               const ExecuteOptions<T>&, const DeviceOptions&);                   \
    template DeviceExecuteCounts execute_devices<T>(const Plan&, int, std::span<const int>, const TileSource<T>&, \
                                                    const TileSource<T>&, const TileSink<T>&,                     \
                                                    const ExecuteOptions<T>&, const DeviceOptions&);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
