#include "execute/device/stream_queue.hpp"

namespace tessera {

StreamQueue::~StreamQueue() {
    for (auto& p : points_) device_.recycle(p.event);
}

std::int64_t StreamQueue::mark(Reached reached) {
    const std::lock_guard lock(mutex_);
    points_.push_back({++last_, device_.record(lane_), std::move(reached)});
    return last_;
}

void StreamQueue::hold(Device& device, Lane lane, std::int64_t ticket) {
    // Under the lock: an event is not recycled, and so not recorded anew, while someone is made to wait for it.
    const std::lock_guard lock(mutex_);
    if (points_.empty() || ticket < points_.front().ticket) return;  // reached already
    device.wait(lane, points_[static_cast<std::size_t>(ticket - points_.front().ticket)].event);
}

bool StreamQueue::poll(bool timed) {
    bool any = false;
    for (;;) {
        Point point;
        double at = 0;
        {
            const std::lock_guard lock(mutex_);
            if (points_.empty() || !device_.complete(points_.front().event)) return any;
            point = std::move(points_.front());
            points_.pop_front();
            if (timed) at = device_.seconds(point.event);
            device_.recycle(point.event);
        }
        any = true;
        if (point.reached) point.reached(at);
    }
}

}  // namespace tessera
