#pragma once
// Transfers of one rank's devices over links that they share, and the work of devices that are one GPU: rates by
// max-min fairness, anew whenever one starts or ends.

#include <array>
#include <cstdint>
#include <vector>

namespace tessera {

class SharedLinks {
  public:
    using Links = std::uint64_t;  // a bit each
    enum Link : Links { host_in = 1, host_out = 2, far_in = 4, far_out = 8 };
    static constexpr int kLinks = 4, kMostGpus = 60;
    /// The work of a GPU: seconds of it instead of bytes, one a second.
    static Links gpu(int number) { return Links{1} << (kLinks + number); }

    /// Bytes per second of each link in the order of the bits; 0: no limit.
    explicit SharedLinks(const std::array<double, kLinks>& capacity, int gpus = 0)
        : capacity_(capacity.begin(), capacity.end()) {
        capacity_.resize(static_cast<std::size_t>(kLinks + gpus), 1.0);
    }

    bool limits(Links links) const;
    /// Bytes that will cross, for moved(), whether or not a limit applies.
    void count(double bytes, Links links);
    void add(double now, std::int32_t step, double bytes, double own_rate, Links links);
    /// When the next transfer is over; infinity without any.
    double next_end() const { return next_end_; }
    /// The transfers that are over by now, in step order.
    std::vector<std::int32_t> take_finished(double now);
    /// Bytes that crossed each link so far.
    const std::array<double, 4>& moved() const { return moved_; }

  private:
    struct Flow {
        std::int32_t step;
        Links links;
        double left, own_rate, rate;
    };
    void advance(double now);
    void share();

    std::vector<double> capacity_;
    std::array<double, 4> moved_{};
    std::vector<Flow> flows_;
    double now_ = 0, next_end_ = 1e300;
};

}  // namespace tessera
