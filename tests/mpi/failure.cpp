// Fails on one rank (or all) in a chosen way while the others wait for it. usage: mpi_failure HOW RANK
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "device/host_device.hpp"
#include "execute/device/execute_devices.hpp"
#include "machine/device_layout.hpp"
#include "support/plan_cases.hpp"
#include "tensor/tensor_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/comm/world.hpp"
#include "tessera/contract/contract.hpp"
#include "tessera/tensor/tensor.hpp"

using namespace tessera;

/// A contraction whose B is made where it is needed and whose generator (or the taker of the result) fails at the n-th
/// tile of a rank, while others wait for its tiles of A, for its sums, or work.
void contract_until(Communicator& ranks, bool mine, int nth, bool in_sink, const std::string& algorithm) {
    // split_k needs a C that is tiny next to A and B.
    const auto rows = Tiling::uniform(algorithm == "split_k" ? 8 : 48, 4),
               k = Tiling::uniform(algorithm == "split_k" ? 960 : 48, 4);
    const TileGrid grid{k, rows}, grid_a{rows, k};
    const auto a =
        Tensor<double>::random(Shape::dense(grid_a), 1, 1, {ranks, Distribution::even(grid_a, ranks.size())});
    std::atomic<int> seen{0};
    const auto fail_at_nth = [&] {
        if (mine && ++seen >= nth) throw UserError("no more tiles");
    };
    const GeneratedTensor<double> b{Shape::dense(grid), [&](const TileInfo&, std::span<double> tile) {
                                        if (!in_sink) fail_at_nth();
                                        for (double& x : tile) x = 1;
                                    }};
    const Resources here{.threads = 2};
    const PlanOptions how{.algorithm = parse_algorithm(algorithm)};
    if (in_sink)
        contract(
            "ij,jk->ik", a, b, [&](std::int64_t, std::span<const double>, double) { fail_at_nth(); }, here, {}, how);
    else
        contract("ij,jk->ik", a, b, here, {}, how);
}

/// A contraction that takes a minute, for those who end it from outside.
void contract_slowly(Communicator& ranks) {
    const auto edge = Tiling::uniform(96, 4);
    const TileGrid grid{edge, edge};
    const auto a = Tensor<double>::random(Shape::dense(grid), 1, 1, {ranks, Distribution::even(grid, ranks.size())});
    const GeneratedTensor<double> b{Shape::dense(grid), [&](const TileInfo&, std::span<double> tile) {
                                        std::this_thread::sleep_for(std::chrono::milliseconds(700));
                                        for (double& x : tile) x = 1;
                                    }};
    std::puts("begins");
    std::fflush(stdout);
    contract("ij,jk->ik", a, b, {.threads = 1});
}

/// contract_until on devices, which host threads play: others wait for its tiles of A.
void devices_until(Communicator& ranks, bool mine, int nth) {
    testing::SquareProduct product(48, 4);
    product.made_for_devices(1 << 20);
    product.request.how.algorithm = Algorithm::outer_product;
    product.machine.ranks = product.machine.ranks_per_node = ranks.size();
    product.machine.threads_per_rank = 2;
    const Plan plan = product.plan();
    const auto a = Tensor<double>::random(product.shape, 1, 1, {ranks, plan.distribution_a});
    std::atomic<int> seen{0};
    const TileSource<double> stored{a.impl().tiles(), {}};
    TileSource<double> made;
    made.make = [&](const TileInfo&, std::span<double> tile) {
        if (mine && ++seen >= nth) throw UserError("no more tiles");
        for (double& x : tile) x = 1;
    };
    TileSink<double> sink;
    sink.consume = [](std::int64_t, std::span<const double>, double) {};
    const auto peak = plan.device_counts[static_cast<std::size_t>(ranks.rank())].peak_bytes;
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(make_host_device({peak, device_reserve_bytes(1 << 20), plan.scalar, 0, 0}));
    DeviceOptions options;
    options.ranks = &ranks;
    options.threads = 2;
    execute_on<double>(devices, plan, ranks.rank(), stored, made, sink, {}, options);
}

int main(int argc, char** argv) {
    if (argc != 3) return 9;
    const std::string how = argv[1];
    const int chosen = std::atoi(argv[2]);  // -1: all
    Communicator& ranks = mpi_world();
    const bool mine = chosen < 0 || ranks.rank() == chosen;
    if (how == "exit") {  // a program that just ends, without saying so to the others
        if (mine) return 5;
        ranks.barrier();
        return 0;
    }
    return run_ranks_or_abort(ranks, [&] {
        if (how == "generator") {
            const TileGrid grid{Tiling::uniform(64, 4)};
            Tensor<double>::generate(Shape::dense(grid),
                                     [&](const TileInfo& info, std::span<double>) {
                                         if (mine && info.tile.value >= 8)
                                             throw UserError("no integrals for this tile");
                                     },
                                     1, {ranks, Distribution::even(grid, ranks.size())});
        } else if (how.starts_with("contract")) {
            contract_until(ranks, mine, std::stoi(how.substr(how.find('-') + 1)), how.starts_with("contract_each"),
                           "outer_product");
        } else if (how.starts_with("stationary_b") || how.starts_with("replicate_b") || how.starts_with("split_k")) {
            const auto dash = how.find('-');
            contract_until(ranks, mine, std::stoi(how.substr(dash + 1)), false, how.substr(0, dash));
        } else if (how.starts_with("devices")) {
            devices_until(ranks, mine, std::stoi(how.substr(how.find('-') + 1)));
        } else if (how == "slow") {
            contract_slowly(ranks);
        } else if (how == "memory") {
            if (mine) throw std::bad_alloc();
        } else if (how == "bug") {
            if (mine) throw InternalError("internal: it cannot be");
        } else if (how == "machine") {
            if (mine) throw MachineError("no disk");
        } else if (how == "receive") {  // others wait for a message that never comes
            if (mine) throw UserError("nothing to send");
            char byte = 0;
            const auto transfer = ranks.receive(chosen, 1, std::vector<MessagePiece>{{&byte, 1}});
            while (!transfer->done()) {
            }
        }
        ranks.barrier();
    });
}
