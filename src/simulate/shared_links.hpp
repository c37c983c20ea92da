#pragma once
// Transfers of one rank's devices over links that they share: rates by max-min fairness, anew whenever one starts or
// ends.

#include <array>
#include <cstdint>
#include <vector>

namespace tessera {

class SharedLinks {
  public:
    enum Link : std::uint8_t { host_in = 1, host_out = 2, far_in = 4, far_out = 8 };  // bits of Flow::links

    /// Bytes per second of each link in the order of the bits; 0: no limit.
    explicit SharedLinks(const std::array<double, 4>& capacity) : capacity_(capacity) {}

    bool limits(std::uint8_t links) const;
    /// Bytes that will cross, for moved(), whether or not a limit applies.
    void count(double bytes, std::uint8_t links);
    void add(double now, std::int32_t step, double bytes, double own_rate, std::uint8_t links);
    /// When the next transfer is over; infinity without any.
    double next_end() const { return next_end_; }
    /// The transfers that are over by now, in step order.
    std::vector<std::int32_t> take_finished(double now);
    /// Bytes that crossed each link so far.
    const std::array<double, 4>& moved() const { return moved_; }

  private:
    struct Flow {
        std::int32_t step;
        std::uint8_t links;
        double left, own_rate, rate;
    };
    void advance(double now);
    void share();

    std::array<double, 4> capacity_;
    std::array<double, 4> moved_{};
    std::vector<Flow> flows_;
    double now_ = 0, next_end_ = 1e300;
};

}  // namespace tessera
