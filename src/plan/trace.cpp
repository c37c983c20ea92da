#include "tessera/plan/trace.hpp"

#include <algorithm>

namespace tessera {

DeviceOverlap device_overlap(const Trace& trace) {
    struct Change {
        double time;
        int transfers, works, makes;
    };
    std::vector<Change> changes;
    for (const auto& s : trace.spans) {
        const auto kind = trace.lanes[static_cast<std::size_t>(s.lane)].kind;
        const int transfer = kind == LaneKind::load || kind == LaneKind::store || kind == LaneKind::copy;
        const int work = kind == LaneKind::compute || kind == LaneKind::make;
        const int make = kind == LaneKind::core && s.kind == StepKind::make;
        if (transfer + work + make == 0 || s.end <= s.start) continue;
        changes.push_back({s.start, transfer, work, make});
        changes.push_back({s.end, -transfer, -work, -make});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& x, const Change& y) { return x.time < y.time; });
    DeviceOverlap out;
    int transfers = 0, works = 0, makes = 0;
    double since = 0;
    for (const auto& c : changes) {
        const double passed = c.time - since;
        if (works > 0) out.work_seconds += passed;
        if (transfers > 0) out.transfer_seconds += passed;
        if (transfers > 0 && works > 0) out.hidden_seconds += passed;
        if (makes > 0) out.make_seconds += passed;
        since = c.time;
        transfers += c.transfers;
        works += c.works;
        makes += c.makes;
    }
    return out;
}

}  // namespace tessera
