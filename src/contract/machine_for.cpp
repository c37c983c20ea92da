#include "contract/machine_for.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "device/sharing.hpp"
#include "device/store.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/base/error.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera {

namespace {

MachineModel usual_rates(Communicator& ranks, const Resources& here) {
    MachineModel m;
    m.name = "these ranks";
    const auto threads = static_cast<double>(largest_on_all(ranks, resolve_threads(here.threads)));
    m.gemm = {40e9 * threads, 20};
    m.make_bytes_per_second = 2e9 * threads;
    m.copy_bytes_per_second = 5e9 * threads;
    m.network = {5e9 * ranks.size(), 2e-6};
    if (here.devices.empty()) return m;
    m.device.gemm = {48e12, 300};
    m.device.make_bytes_per_second = 2e12;
    m.host_to_device = m.device_to_host = {40e9, 1e-5};  // from pageable memory, both ways at once
    m.device_to_device = {1e12, 1e-5};
    return m;
}

/// Each rank reads the file: one that cannot, or reads other figures, is found out by all.
MachineModel rates_of_file(Communicator& ranks, const Resources& here) {
    MachineModel m;
    std::exception_ptr mine;
    std::string text;
    try {
        m = read_machine(here.machine).machine;
        std::uint64_t h = 0;
        for (const char c : to_json(m)) h = combine(h, static_cast<unsigned char>(c));
        text = fmt::format("{} ({:016x})", m.name, h);
    } catch (const UserError& e) {
        mine = std::current_exception();
        text = e.what();
    }
    if (ranks.size() > 1) require_same_on_all(ranks, {{"the machine file", text}});
    if (mine) std::rethrow_exception(mine);
    require(here.devices.empty() || m.device.gemm.flops_per_second > 0,
            "machine {} has no devices: it says nothing of the {} to be used", m.name, here.devices.size());
    return m;
}

}  // namespace

Nodes nodes_of(Communicator& ranks) {
    double least_and_most[] = {-static_cast<double>(memory_bytes()),
                               static_cast<double>(std::min(ranks.size(), ranks_on_node()))};
    ranks.max(std::span<double>(least_and_most));
    return {static_cast<std::int64_t>(-least_and_most[0]), static_cast<int>(least_and_most[1])};
}

void require_host_room(const Plan& plan, const Nodes& nodes, bool handed_over) {
    std::int64_t there = 0;
    for (int r = 0; r < plan.ranks; ++r) {
        const auto& n = plan.rank_counts[static_cast<std::size_t>(r)];
        if (r % nodes.ranks == 0) there = 0;
        there += n.peak_bytes - (handed_over ? n.stored_c : 0);
        if (there > nodes.memory)
            throw MachineError(
                fmt::format("'{}': operands{} and tiles on their way take {}{} on the host, which has {}", plan.spec,
                            handed_over ? "" : ", result", nodes.ranks > 1 ? "of the ranks there " : "",
                            format_bytes(there), format_bytes(nodes.memory)));
    }
}

MachineModel machine_for(Communicator& ranks, const Resources& here, const Nodes& nodes) {
    MachineModel m = here.machine.empty() ? usual_rates(ranks, here) : rates_of_file(ranks, here);
    m.ranks = ranks.size();
    m.ranks_per_node = ranks.size();
    m.threads_per_rank = static_cast<int>(largest_on_all(ranks, resolve_threads(here.threads)));
    m.host_memory = nodes.memory;
    m.devices_per_rank = static_cast<int>(here.devices.size());
    m.devices_per_gpu = 1;
    m.device.memory = 0;
    if (m.devices_per_rank > 0 && StandInStores::in_use()) {
        m.device.memory = here.device_memory > 0 ? here.device_memory : std::int64_t{1} << 30;
        return m;
    }
    if (m.devices_per_rank > 0) m.device.memory = device_memory_for(ranks, here.devices, here.device_memory);
    return m;
}

}  // namespace tessera
