#include "tessera/plan/trace.hpp"

#include <algorithm>

namespace tessera {

DeviceOverlap device_overlap(const Trace& trace) {
    struct Change {
        double time;
        int transfers, works;
    };
    std::vector<Change> changes;
    for (const auto& s : trace.spans) {
        const auto kind = trace.lanes[static_cast<std::size_t>(s.lane)].kind;
        const int transfer = kind == LaneKind::load || kind == LaneKind::store || kind == LaneKind::copy;
        const int work = kind == LaneKind::compute;
        if (transfer + work == 0 || s.end <= s.start) continue;
        changes.push_back({s.start, transfer, work});
        changes.push_back({s.end, -transfer, -work});
    }
    std::sort(changes.begin(), changes.end(), [](const Change& x, const Change& y) { return x.time < y.time; });
    DeviceOverlap out;
    int transfers = 0, works = 0;
    double since = 0;
    for (const auto& c : changes) {
        if (transfers > 0) out.transfer_seconds += c.time - since;
        if (transfers > 0 && works > 0) out.hidden_seconds += c.time - since;
        since = c.time;
        transfers += c.transfers;
        works += c.works;
    }
    return out;
}

}  // namespace tessera
