#pragma once
// Which steps of a plan surely come before which.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/plan/plan.hpp"

namespace tessera {

/// Which steps are surely over before a step starts. Asked of the few pairs that share memory or a result tile.
class StepOrder {
  public:
    explicit StepOrder(const Plan& plan)
        : plan_(plan), dependencies_(plan.dependencies), seen_(plan.steps.size(), -1) {}
    /// To be called when every step's dependencies are known to be in range: from here on last ones first.
    void index() {
        for (const auto& s : plan_.steps) {
            const auto first = dependencies_.begin() + s.first_dependency;
            std::sort(first, first + s.dependencies, std::greater<>());
        }
    }

    bool before(std::int32_t earlier, std::int32_t later) {
        if (earlier >= later) return false;
        // Tiles that come and go together ask the same question.
        auto& known = known_[(static_cast<std::uint32_t>(earlier) * 0x9e3779b1u ^ static_cast<std::uint32_t>(later)) %
                             known_.size()];
        if (known.earlier == earlier && known.later == later) return known.yes;
        known = {earlier, later, search(earlier, later)};
        return known.yes;
    }

  private:
    struct Answer {
        std::int32_t earlier = -1, later = -1;
        bool yes = false;
    };

    bool search(std::int32_t earlier, std::int32_t later) {
        // Search backwards from `later`; step numbers only fall along dependencies.
        ++stamp_;
        stack_.assign(1, later);
        while (!stack_.empty()) {
            const auto& s = plan_.steps[stack_.back()];
            stack_.pop_back();
            for (std::int64_t d = s.first_dependency; d < s.first_dependency + s.dependencies; ++d) {
                const auto from = dependencies_[d];
                if (from == earlier) return true;
                if (from < earlier) break;
                if (seen_[from] == stamp_) continue;
                seen_[from] = stamp_;
                if (plan_.steps[from].dependencies > 0) stack_.push_back(from);
            }
        }
        return false;
    }

    const Plan& plan_;
    std::vector<std::int32_t> dependencies_;  // as the plan's; each step's last ones first
    std::array<Answer, 8192> known_{};
    std::vector<std::int64_t> seen_;
    std::vector<std::int32_t> stack_;
    std::int64_t stamp_ = -1;
};

}  // namespace tessera
