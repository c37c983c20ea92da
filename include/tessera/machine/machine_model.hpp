#pragma once
// A machine as plain data: what the planner may use and how fast it is. Described, never probed by the planner itself.

#include <cstdint>
#include <string>

#include "tessera/base/api.hpp"

namespace TESSERA_API tessera {

/// Bytes per second and seconds per transfer, one way.
struct LinkModel {
    double bytes_per_second = 0;
    double latency = 0;
    bool operator==(const LinkModel&) const = default;
};

/// Rate of tile products: peak * s / (s + half_size), s the cube root of m n k.
struct GemmModel {
    double flops_per_second = 0;  // 0 where unknown
    double half_size = 0;
    bool operator==(const GemmModel&) const = default;
};

struct DeviceModel {
    std::int64_t memory = 0;  // bytes that a plan may use
    GemmModel gemm;
    double make_bytes_per_second = 0;  // tiles by device code
    double launch_seconds = 0;         // of one compute step
    bool operator==(const DeviceModel&) const = default;
};

struct MachineModel {
    std::string name = "one core";
    int ranks = 1;
    int ranks_per_node = 1;
    int threads_per_rank = 1;
    GemmModel gemm;                    // of a rank: all its threads
    std::int64_t host_memory = 0;      // per rank; 0: no limit
    double make_bytes_per_second = 0;  // tiles by a host generator, all threads of a rank
    double copy_bytes_per_second = 0;  // host memory, all threads of a rank
    int devices_per_rank = 0;
    /// So many devices of a rank, one after the other, are one and the same GPU (a device list may name it more than
    /// once): they share its arithmetic, its memory and its links to the host.
    int devices_per_gpu = 1;
    DeviceModel device;
    LinkModel host_to_device, device_to_host;  // of each device
    LinkModel device_to_device;                // within a rank
    double host_link_bytes_per_second = 0;     // shared by the devices of a rank, each way; 0: each has its own
    /// Devices of a rank from this number on are behind another socket: all that crosses shares far_link, each way.
    int near_devices = 0;  // 0: all are near
    double far_link_bytes_per_second = 0;
    LinkModel network;                // of a node, each way; latency per message
    double network_tile_seconds = 0;  // what a rank spends on each tile it sends or receives, besides its bytes
    LinkModel node_link;              // between the ranks of a node; 0: as the network
    bool operator==(const MachineModel&) const = default;
};

}  // namespace tessera
