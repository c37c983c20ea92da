#pragma once
// Tickets of a stream: points that other streams can be made to wait for and the host is told of.

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "device/device.hpp"

namespace tessera {

class StreamQueue {
  public:
    /// Called with the time the point was reached; must not block.
    using Reached = std::function<void(double seconds)>;

    StreamQueue(Device& device, Lane lane) : device_(device), lane_(lane) {}
    ~StreamQueue();
    StreamQueue(const StreamQueue&) = delete;
    StreamQueue& operator=(const StreamQueue&) = delete;

    /// A point behind everything issued so far. From the lane's thread.
    std::int64_t mark(Reached reached = {});
    /// Lets a lane of a device wait for a point of this stream.
    void hold(Device& device, Lane lane, std::int64_t ticket);
    /// Calls back for what was reached since the last call; true when there was any. From one thread.
    bool poll(bool timed);

  private:
    struct Point {
        std::int64_t ticket;
        Device::Event event;
        Reached reached;
    };
    Device& device_;
    Lane lane_;
    std::mutex mutex_;
    std::deque<Point> points_;
    std::int64_t last_ = 0;
};

}  // namespace tessera
