#pragma once
// Which steps of a rank may go on: counts what each still waits for. A step of a device is issued to its stream as soon
// as all it depends on is issued (the device waits for the rest by itself); a step of the host runs when all of it is
// done.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "device/device.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

/// A place in a stream: everything up to the ticket.
struct StreamPoint {
    std::int32_t stream = 0;  // device * kLaneCount + lane
    std::int64_t ticket = 0;
};
constexpr std::int32_t stream_of(int device, Lane lane) { return device * kLaneCount + static_cast<int>(lane); }

class StepScheduler {
  public:
    /// host_ready is called, from any thread and without locks held, with each host step whose turn has come.
    StepScheduler(const Plan& plan, int rank, int devices, std::function<void(std::int32_t step)> host_ready);

    /// Starts what waits for nothing.
    void start();
    /// The next step of this stream, once it may be issued; -1 when there is none left, or something failed. Without
    /// `block`: -2 when the next one has to wait.
    std::int32_t next(std::int32_t stream, bool block = true);
    /// What the step's stream has to wait for, the latest point of each stream.
    std::vector<StreamPoint> waits(std::int32_t step) const;
    void issued(std::int32_t step, StreamPoint at);
    /// All of the step is over, also on the host. Host steps need not be issued before.
    void done(std::int32_t step);

    /// The first one is kept; everyone waiting here wakes up.
    void fail(std::exception_ptr why);
    bool failed() const;
    /// Returns when every step is done; throws what failed.
    void wait();

  private:
    enum class Role : std::uint8_t { stream, host, transparent };
    struct State {
        Role role = Role::host;
        bool is_issued = false, is_done = false;
        std::int32_t stream = -1;
        std::int32_t to_issue = 0, to_finish = 0;
        std::vector<StreamPoint> at;
    };
    using Ready = std::vector<std::int32_t>;
    std::int32_t local(std::int32_t step) const { return local_of_[step - first_step_]; }
    void issue(std::int32_t local_step, Ready& ready);
    void finish(std::int32_t local_step, Ready& ready);
    void settle(std::unique_lock<std::mutex>& lock, Ready& ready);

    const Plan& plan_;
    std::function<void(std::int32_t)> host_ready_;
    std::vector<std::int32_t> step_of_;   // local -> plan
    std::vector<std::int32_t> local_of_;  // plan - first_step_ -> local, -1 for other ranks'
    std::int32_t first_step_ = 0;
    std::vector<State> states_;
    std::vector<std::int64_t> first_dependent_;
    std::vector<std::int32_t> dependents_;
    std::vector<std::vector<std::int32_t>> queue_;  // by stream: local steps in the plan's order
    std::vector<std::size_t> head_;
    std::vector<std::pair<std::int32_t, bool>> work_;  // (step, finish) still to be passed on
    mutable std::mutex mutex_;
    std::vector<std::condition_variable> wake_;  // by stream
    std::condition_variable all_done_;
    std::int64_t open_ = 0;
    std::exception_ptr failure_;
};

}  // namespace tessera
