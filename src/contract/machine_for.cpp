#include "contract/machine_for.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "device/discovery.hpp"
#include "device/sharing.hpp"
#include "device/store.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/base/error.hpp"
#include "tessera/machine/machine_file.hpp"

namespace tessera {

namespace {

MachineModel usual_rates(Communicator& ranks, const Resources& here, const Nodes& nodes) {
    MachineModel m;
    m.name = "these ranks";
    const auto threads = static_cast<double>(largest_on_all(ranks, resolve_threads(here.threads)));
    m.gemm = {40e9 * threads, 20};
    m.make_bytes_per_second = 2e9 * threads;
    m.copy_bytes_per_second = 5e9 * threads;
    // Within a node ranks copy from each other; between nodes there is a network of 100 Gbit/s.
    const LinkModel copies{5e9 * nodes.most_ranks, 2e-6};
    m.network = nodes.memory.size() > 1 ? LinkModel{12.5e9, 2e-6} : copies;
    if (nodes.memory.size() > 1 && nodes.most_ranks > 1) m.node_link = copies;
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

/// Whether copies between two devices of a rank pass the host. Collective.
bool some_are_apart(Communicator& ranks, const std::vector<int>& devices) {
    bool apart = false;
    for (const int d : devices)
        for (const int e : devices) apart |= !device::reaches(d, e);
    return largest_on_all(ranks, apart ? 1 : 0) > 0;
}

}  // namespace

Nodes nodes_of(Communicator& ranks) {
    Nodes out;
    out.of_rank = ranks.nodes();
    const auto count = static_cast<std::size_t>(1 + *std::ranges::max_element(out.of_rank));
    std::vector<double> less(count, -HUGE_VAL);
    less[static_cast<std::size_t>(out.of_rank[static_cast<std::size_t>(ranks.rank())])] =
        -static_cast<double>(memory_bytes());
    ranks.max(std::span<double>(less));
    for (const double bytes : less) out.memory.push_back(static_cast<std::int64_t>(-bytes));
    out.least_memory = *std::ranges::min_element(out.memory);
    std::vector<int> on(count);
    for (const int node : out.of_rank) out.most_ranks = std::max(out.most_ranks, ++on[static_cast<std::size_t>(node)]);
    return out;
}

void require_host_room(const Plan& plan, const Nodes& nodes, bool handed_over) {
    std::vector<std::int64_t> there(nodes.memory.size());
    for (int r = 0; r < plan.ranks; ++r) {
        const auto& n = plan.rank_counts[static_cast<std::size_t>(r)];
        const auto node = static_cast<std::size_t>(nodes.of_rank[static_cast<std::size_t>(r)]);
        there[node] += n.peak_bytes - (handed_over ? n.stored_c : 0);
        if (there[node] > nodes.memory[node])
            throw MachineError(
                fmt::format("'{}': operands{} and tiles on their way take {}{} on the host{}, which has {}", plan.spec,
                            handed_over ? "" : ", result", nodes.most_ranks > 1 ? "of the ranks there " : "",
                            format_bytes(there[node]), there.size() > 1 ? fmt::format(" of rank {}", r) : "",
                            format_bytes(nodes.memory[node])));
    }
}

MachineModel machine_for(Communicator& ranks, const Resources& here, const Nodes& nodes) {
    MachineModel m = here.machine.empty() ? usual_rates(ranks, here, nodes) : rates_of_file(ranks, here);
    m.ranks = ranks.size();
    m.ranks_per_node = nodes.most_ranks;
    m.threads_per_rank = static_cast<int>(largest_on_all(ranks, resolve_threads(here.threads)));
    m.host_memory = nodes.least_memory;
    m.devices_per_rank = static_cast<int>(here.devices.size());
    m.devices_per_gpu = 1;
    m.device.memory = 0;
    if (m.devices_per_rank > 0 && StandInStores::in_use()) {
        m.device.memory = here.device_memory > 0 ? here.device_memory : std::int64_t{1} << 30;
        return m;
    }
    if (m.devices_per_rank == 0) return m;
    m.device.memory = device_memory_for(ranks, here.devices, here.device_memory);
    if (here.machine.empty() && some_are_apart(ranks, here.devices))
        m.device_to_device = {m.host_to_device.bytes_per_second / 2, 2 * m.host_to_device.latency};
    return m;
}

}  // namespace tessera
