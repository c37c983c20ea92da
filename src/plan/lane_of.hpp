#pragma once
// Which stream of its device a step is on: one answer for the simulator, the scheduler and the interpreter.

#include <optional>

#include "machine/lane.hpp"
#include "tessera/plan/plan.hpp"
#include "tessera/plan/trace.hpp"

namespace tessera {

/// Nothing for steps of the host or between ranks, and for those that only order others.
constexpr std::optional<Lane> lane_of(const PlanStep& step) {
    if (step.device < 0) return std::nullopt;
    switch (step.kind) {
        case StepKind::load:
            return Lane::load;
        case StepKind::make:
            return Lane::make;
        case StepKind::compute:
        case StepKind::merge:
        case StepKind::finish:
            return Lane::compute;
        case StepKind::store:
            return Lane::store;
        case StepKind::copy:
            return Lane::copy;
        default:
            return std::nullopt;
    }
}

/// The line that a stream has in a trace.
constexpr LaneKind trace_line(Lane lane) {
    constexpr LaneKind lines[kLaneCount] = {LaneKind::load, LaneKind::make, LaneKind::compute, LaneKind::store,
                                            LaneKind::copy};
    return lines[static_cast<int>(lane)];
}

}  // namespace tessera
