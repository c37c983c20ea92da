#pragma once
// How far a rank is: flops done of those that it has to do.

#include <functional>
#include <mutex>

namespace tessera {

class Progress {
  public:
    using Report = std::function<void(double done, double total)>;
    /// No report: nothing is counted.
    Progress(const Report& report, double total) : report_(report), total_(total) {}

    /// From any thread; who finds another one reporting leaves it to the next.
    void add(double flops) {
        if (!report_) return;
        {
            const std::lock_guard lock(count_);
            done_ += flops;
        }
        const std::unique_lock reporting(reporting_, std::try_to_lock);
        if (reporting) report();
    }
    /// All is done and everyone has ended: says so where the last report came before.
    void end() {
        if (report_ && done_ > reported_) report();
    }

  private:
    void report() {
        {
            const std::lock_guard lock(count_);
            reported_ = done_;
        }
        report_(reported_, total_);
    }
    const Report& report_;
    const double total_;
    std::mutex count_, reporting_;
    double done_ = 0, reported_ = 0;
};

}  // namespace tessera
