#include "execute/device/staging_ring.hpp"

#include <chrono>

#include "base/check.hpp"

namespace tessera {

std::optional<std::int64_t> StagingRing::find(std::int64_t bytes) {
    const auto size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    ensure(size <= bytes_, "a piece of {} bytes from a ring of {}", bytes, bytes_);
    std::int64_t at = 0;
    if (!pieces_.empty()) {
        const auto first = pieces_.front().offset, last = pieces_.back().end;
        // Behind the newest up to the end, then from the start up to the oldest. Never so full that they meet: an empty
        // and a full ring would look the same.
        if (pieces_.back().offset >= first) {
            if (last + size <= bytes_)
                at = last;
            else if (size < first)
                at = 0;
            else
                return std::nullopt;
        } else {
            if (last + size >= first) return std::nullopt;
            at = last;
        }
    }
    pieces_.push_back({at, at + size, false});
    return at;
}

std::optional<std::int64_t> StagingRing::try_take(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    return find(bytes);
}

std::optional<std::int64_t> StagingRing::take(std::int64_t bytes, const std::function<bool()>& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (stop()) return std::nullopt;
        if (const auto at = find(bytes)) return at;
        given_.wait_for(lock, std::chrono::milliseconds(20));
    }
}

void StagingRing::give(std::int64_t offset) {
    const std::lock_guard lock(mutex_);
    for (auto& p : pieces_)
        if (p.offset == offset && !p.free) {
            p.free = true;
            break;
        }
    while (!pieces_.empty() && pieces_.front().free) pieces_.pop_front();
    given_.notify_all();
}

}  // namespace tessera
