#pragma once
// How much work a step of a plan is, in bytes, and in seconds of arithmetic.

#include <cstdint>
#include <vector>

#include "tessera/machine/machine_model.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera {

class StepCosts {
  public:
    explicit StepCosts(const Plan& plan);

    struct Work {
        double flops = 0, seconds = 0;
    };
    /// Chains [begin, end) one after the other at this rate; seconds are 0 where the rate is unknown.
    Work compute(const PlanStep& step, const GemmModel& gemm) const;
    /// Of item i of a step that moves or makes tiles.
    double item_bytes(const PlanStep& step, std::int64_t item) const;
    double bytes(const PlanStep& step) const;

  private:
    const Plan& plan_;
    double scalar_bytes_, flops_per_product_, rate_factor_;
    std::vector<float> depth_;     // per tile of A: elements along the contracted indices
    std::vector<float> elements_;  // per tile of C
    float batch_ = 1;
};

}  // namespace tessera
