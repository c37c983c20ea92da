#include "contract/machine_for.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/parallel.hpp"
#include "base/units.hpp"
#include "comm/same_on_all.hpp"
#include "execute/device/device_share.hpp"
#include "kernels/cuda/device.hpp"
#include "tessera/base/cpu.hpp"
#include "tessera/base/error.hpp"

namespace tessera {

namespace {

/// What an entry of the device list may take when nothing is said: nearly all that is free, shared by all entries of
/// all ranks that are the same device.
std::int64_t free_device_memory(Communicator& ranks, const std::vector<int>& devices) {
    std::vector<std::uint64_t> mine;
    for (int d : devices) mine.push_back(kernels::cuda::device_info(d).identity);
    std::map<std::uint64_t, std::int64_t> entries;
    for (const auto& theirs : ranks.all_gather(std::as_bytes(std::span(mine))))
        for (std::size_t i = 0; i < theirs.size() / sizeof(std::uint64_t); ++i) {
            std::uint64_t identity = 0;
            std::memcpy(&identity, theirs.data() + i * sizeof identity, sizeof identity);
            ++entries[identity];
        }
    std::int64_t least = INT64_MAX;
    for (std::size_t i = 0; i < devices.size(); ++i)
        least = std::min(least, kernels::cuda::free_bytes(devices[i]) / entries[mine[i]]);
    return -largest_on_all(ranks, -(least - least / 32));
}

/// A rank whose device cannot be used says so to the others, which would wait for it.
void require_usable(Communicator& ranks, const std::vector<int>& devices) {
    std::exception_ptr mine;
    try {
        for (int d : devices) (void)kernels::cuda::device_info(d);
    } catch (...) {
        mine = std::current_exception();
    }
    const bool any = largest_on_all(ranks, mine ? 1 : 0) > 0;
    if (mine) std::rethrow_exception(mine);
    if (any) throw MachineError("another rank cannot use its devices");
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

std::int64_t device_memory_for(Communicator& ranks, const std::vector<int>& devices, std::int64_t wanted) {
    require_usable(ranks, devices);
    require_device_memory(ranks, devices, wanted);
    return wanted > 0 ? wanted : free_device_memory(ranks, devices);
}

MachineModel machine_for(Communicator& ranks, const ContractOptions& options, const Nodes& nodes) {
    MachineModel m;
    m.name = "these ranks";
    m.ranks = ranks.size();
    m.ranks_per_node = ranks.size();
    m.threads_per_rank = static_cast<int>(largest_on_all(ranks, resolve_threads(options.threads)));
    m.host_memory = nodes.memory;
    m.gemm = {40e9 * m.threads_per_rank, 20};
    m.make_bytes_per_second = 2e9 * m.threads_per_rank;
    m.copy_bytes_per_second = 5e9 * m.threads_per_rank;
    m.network = {5e9 * m.ranks, 2e-6};
    m.devices_per_rank = static_cast<int>(options.devices.size());
    if (m.devices_per_rank > 0) {
        m.device.memory = device_memory_for(ranks, options.devices, options.device_memory);
        m.device.gemm = {48e12, 300};
        m.device.make_bytes_per_second = 2e12;
        m.host_to_device = m.device_to_host = {40e9, 1e-5};  // from pageable memory, both ways at once
        m.device_to_device = {1e12, 1e-5};
    }
    return m;
}

}  // namespace tessera
