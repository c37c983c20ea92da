// Ranks with devices, which host threads play: what one rank says of itself.
#include <gtest/gtest.h>

#include "device/host_device.hpp"
#include "execute/device/execute_devices.hpp"
#include "machine/device_layout.hpp"
#include "support/plan_cases.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/comm/world.hpp"

namespace tessera {
namespace {

struct Reported {
    double done = 0, total = 0;
    bool rises = true;
};

/// A rank's progress in a product whose B is made where it is needed, on its device or on its cores.
Reported progress_of(Communicator& ranks, bool on_device, const Plan& plan, const Shape& shape) {
    const auto a = Tensor<double>::random(shape, 1, 1, {ranks, plan.distribution_a});
    const TileSource<double> stored{a.impl().tiles(), {}};
    TileSource<double> made;
    made.make = [](const TileInfo&, std::span<double> tile) {
        for (double& x : tile) x = 1;
    };
    TileSink<double> sink;
    sink.consume = [](std::int64_t, std::span<const double>, double) {};
    Reported last;
    ExecuteOptions<double> how;
    how.progress = [&](double done, double total) { last = {done, total, last.rises && done >= last.done}; };
    if (!on_device) {
        execute<double>(plan, ranks, stored, made, sink, how);
        return last;
    }
    const auto peak = plan.device_counts[static_cast<std::size_t>(ranks.rank())].peak_bytes;
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(make_host_device({peak, device_reserve_bytes(1 << 20), plan.scalar, 0, 0}));
    DeviceOptions options;
    options.ranks = &ranks;
    options.threads = 2;
    execute_on<double>(devices, plan, ranks.rank(), stored, made, sink, how, options);
    return last;
}

TEST(MpiDevices, ProgressEndsWithAllOfARanksWork) {
    auto& ranks = mpi_world();
    for (const bool on_device : {true, false}) {
        testing::SquareProduct product(48, 4);
        if (on_device)
            product.made_for_devices(1 << 20);
        else
            product.request.source_b = SourceKind::host_made;
        product.machine.ranks = product.machine.ranks_per_node = ranks.size();
        product.machine.threads_per_rank = 2;
        const Plan plan = product.plan();
        const auto last = progress_of(ranks, on_device, plan, product.shape);
        EXPECT_EQ(last.total, plan.rank_counts[static_cast<std::size_t>(ranks.rank())].flops);
        EXPECT_EQ(last.done, last.total);
        EXPECT_TRUE(last.rises);
        double all[] = {last.done};
        ranks.sum(std::span<double>(all));
        EXPECT_EQ(all[0], plan.counts.flops);
    }
}

}  // namespace
}  // namespace tessera
