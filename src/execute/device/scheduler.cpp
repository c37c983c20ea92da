#include "execute/device/scheduler.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "plan/lane_of.hpp"

namespace tessera {

namespace {

/// -1 where a step does not run on a stream.
std::int32_t stream_for(const PlanStep& s) {
    const auto lane = lane_of(s);
    return lane ? stream_of(s.device, *lane) : -1;
}

void keep_latest(std::vector<StreamPoint>& points, const StreamPoint& p) {
    for (auto& q : points)
        if (q.stream == p.stream) {
            q.ticket = std::max(q.ticket, p.ticket);
            return;
        }
    points.push_back(p);
}

}  // namespace

StepScheduler::StepScheduler(const Plan& plan, int rank, int devices, std::function<void(std::int32_t step)> host_ready)
    : plan_(plan),
      host_ready_(std::move(host_ready)),
      queue_(static_cast<std::size_t>(devices) * kLaneCount),
      head_(queue_.size()),
      wake_(queue_.size()) {
    std::int32_t last = 0;
    for (std::size_t i = 0; i < plan.steps.size(); ++i)
        if (plan.steps[i].rank == rank) step_of_.push_back(static_cast<std::int32_t>(i));
    if (!step_of_.empty()) {
        first_step_ = step_of_.front();
        last = step_of_.back() + 1;
    }
    local_of_.assign(static_cast<std::size_t>(last - first_step_), -1);
    for (std::size_t i = 0; i < step_of_.size(); ++i) local_of_[step_of_[i] - first_step_] = static_cast<int>(i);

    states_.resize(step_of_.size());
    first_dependent_.assign(step_of_.size() + 1, 0);
    for (std::size_t i = 0; i < step_of_.size(); ++i) {
        const auto& s = plan.steps[step_of_[i]];
        auto& state = states_[i];
        ensure(s.device < devices, "step {} is of device {} of {}", step_of_[i], s.device, devices);
        state.stream = stream_for(s);
        state.role = state.stream >= 0                                       ? Role::stream
                     : s.kind == StepKind::evict || s.kind == StepKind::join ? Role::transparent
                                                                             : Role::host;
        state.to_issue = state.to_finish = s.dependencies;
        if (state.stream >= 0) queue_[state.stream].push_back(static_cast<std::int32_t>(i));
        for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d) {
            const auto step = plan.dependencies[d];
            ensure(step >= first_step_ && step < step_of_[i] && local(step) >= 0, "step {} depends on step {}",
                   step_of_[i], step);
            ++first_dependent_[local(step) + 1];
        }
    }
    for (std::size_t i = 1; i < first_dependent_.size(); ++i) first_dependent_[i] += first_dependent_[i - 1];
    dependents_.resize(static_cast<std::size_t>(first_dependent_.back()));
    auto fill = first_dependent_;
    for (std::size_t i = 0; i < step_of_.size(); ++i) {
        const auto& s = plan.steps[step_of_[i]];
        for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
            dependents_[fill[local(plan.dependencies[d])]++] = static_cast<std::int32_t>(i);
    }
    open_ = static_cast<std::int64_t>(step_of_.size());
}

void StepScheduler::start() {
    Ready ready;
    std::unique_lock lock(mutex_);
    for (std::size_t i = 0; i < states_.size(); ++i) {
        const auto& s = states_[i];
        if (plan_.steps[step_of_[i]].dependencies > 0) continue;
        if (s.role == Role::host) ready.push_back(static_cast<std::int32_t>(i));
        if (s.role == Role::transparent) finish(static_cast<std::int32_t>(i), ready);
    }
    settle(lock, ready);
}

std::int32_t StepScheduler::next(std::int32_t stream, bool block) {
    std::unique_lock lock(mutex_);
    auto& head = head_[stream];
    const auto& queue = queue_[stream];
    if (failure_ || head == queue.size()) return -1;
    const auto& state = states_[queue[head]];
    if (!block && state.to_issue > 0) return -2;
    wake_[stream].wait(lock, [&] { return failure_ || state.to_issue == 0; });
    return failure_ ? -1 : step_of_[queue[head++]];
}

std::vector<StreamPoint> StepScheduler::waits(std::int32_t step) const {
    const std::lock_guard lock(mutex_);
    std::vector<StreamPoint> points;
    const auto& s = plan_.steps[step];
    for (auto d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d)
        for (const auto& p : states_[local(plan_.dependencies[d])].at) keep_latest(points, p);
    return points;
}

void StepScheduler::issued(std::int32_t step, StreamPoint at) {
    Ready ready;
    std::unique_lock lock(mutex_);
    states_[local(step)].at.assign(1, at);
    issue(local(step), ready);
    settle(lock, ready);
}

void StepScheduler::done(std::int32_t step) {
    Ready ready;
    std::unique_lock lock(mutex_);
    finish(local(step), ready);
    settle(lock, ready);
}

// Passing on goes over a list of work, not by recursion: chains of joins may be long.
void StepScheduler::issue(std::int32_t local_step, Ready& ready) {
    work_.emplace_back(local_step, false);
    finish(-1, ready);
}

void StepScheduler::finish(std::int32_t local_step, Ready& ready) {
    if (local_step >= 0) work_.emplace_back(local_step, true);
    while (!work_.empty()) {
        const auto [i, over] = work_.back();
        work_.pop_back();
        auto& s = states_[i];
        const bool now_issued = !s.is_issued, now_done = over && !s.is_done;
        if (!now_issued && !now_done) continue;
        s.is_issued = true;
        if (now_done) {
            s.is_done = true;
            if (--open_ == 0) all_done_.notify_all();
        }
        for (auto d = first_dependent_[i]; d < first_dependent_[i + 1]; ++d) {
            const auto t = dependents_[d];
            auto& next = states_[t];
            if (now_issued) {
                if (next.role == Role::transparent)
                    for (const auto& p : s.at) keep_latest(next.at, p);
                if (--next.to_issue == 0) {
                    if (next.role == Role::transparent) work_.emplace_back(t, false);
                    if (next.role == Role::stream) wake_[next.stream].notify_all();
                }
            }
            if (now_done && --next.to_finish == 0) {
                if (next.role == Role::transparent) work_.emplace_back(t, true);
                if (next.role == Role::host) ready.push_back(t);
            }
        }
    }
}

void StepScheduler::settle(std::unique_lock<std::mutex>& lock, Ready& ready) {
    const bool stop = failure_ != nullptr;
    lock.unlock();
    if (stop) return;
    for (const auto i : ready) host_ready_(step_of_[i]);
}

void StepScheduler::fail(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    for (auto& w : wake_) w.notify_all();
    all_done_.notify_all();
}

bool StepScheduler::failed() const {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
}

void StepScheduler::wait() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [&] { return failure_ || open_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace tessera
