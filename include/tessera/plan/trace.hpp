#pragma once
// Who did what when, as plain data: filled by the simulator or by an executor, written by io/trace.

#include <cstdint>
#include <vector>

#include "tessera/base/api.hpp"
#include "tessera/plan/plan.hpp"

namespace TESSERA_API tessera {

enum class LaneKind : std::uint8_t { core, compute, load, store, copy, send, receive, make };

/// One horizontal line of a trace: a thread of a rank, what a device computes, or one direction of a link.
struct TraceLane {
    std::int32_t rank = 0;
    LaneKind kind = LaneKind::core;
    std::int32_t index = 0;  // thread of the rank, device of the rank, 0 for the network
    bool operator==(const TraceLane&) const = default;
};

struct TraceSpan {
    std::int32_t lane = 0;
    std::int32_t step = 0;
    StepKind kind = StepKind::join;
    double start = 0, end = 0;  // seconds
    double amount = 0;          // flops of a compute step, bytes of all others
    bool operator==(const TraceSpan&) const = default;
};

struct Trace {
    std::vector<TraceLane> lanes;
    std::vector<TraceSpan> spans;
    std::int32_t ranks_per_node = 1;
};

/// Of one rank's lanes: seconds in which a device works (computes or makes tiles), in which something moves to, from or
/// between devices, and in how many of these a device also works; and seconds in which cores make tiles.
struct DeviceOverlap {
    double work_seconds = 0, transfer_seconds = 0, hidden_seconds = 0, make_seconds = 0;
};
DeviceOverlap device_overlap(const Trace& trace);

}  // namespace tessera
