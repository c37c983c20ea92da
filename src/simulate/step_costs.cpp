#include "simulate/step_costs.hpp"

#include <algorithm>
#include <cmath>

#include "index/matrix_view.hpp"

namespace tessera {

namespace {

std::vector<float> tile_elements(const Shape& shape) {
    std::vector<float> out(static_cast<std::size_t>(shape.tile_count()));
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        out[s] = static_cast<float>(shape.grid().tile_elements(shape.tile(s)));
    return out;
}

}  // namespace

StepCosts::StepCosts(const Plan& plan)
    : plan_(plan), scalar_bytes_(static_cast<double>(bytes_of(plan.scalar))), elements_(tile_elements(plan.c)) {
    const bool single = plan.scalar == ScalarKind::f32 || plan.scalar == ScalarKind::c64;
    flops_per_product_ = flops_per_multiply_add(plan.scalar);
    rate_factor_ = single ? 2 : 1;  // machines give the rate of doubles

    const ContractionSpec spec(plan.spec);
    depth_.assign(static_cast<std::size_t>(plan.a.tile_count()), 1.0f);
    if (spec.operand_count() != 2 || spec.needs_reduction(0) || spec.needs_reduction(1)) return;
    const MatrixView view(spec);
    double batch = 1;
    for (int d = 0; d < plan.a.grid().rank(); ++d) {
        if (view.part(Operand::a, d) == MatrixPart::batch)
            batch *= std::max(1.0, static_cast<double>(plan.a.grid().extents()[d]) /
                                       static_cast<double>(std::max<std::int64_t>(1, plan.a.grid().tile_counts()[d])));
        if (!view.contracted(Operand::a, d)) continue;
        const auto& tiling = plan.a.grid().tiling(d);
        const auto stride = plan.a.grid().ordinal_strides()[d], count = tiling.tile_count();
        for (std::size_t s = 0; s < depth_.size(); ++s)
            depth_[s] *= static_cast<float>(tiling.size(TileIndex{plan.a.ordinals()[s] / stride % count}));
    }
    batch_ = static_cast<float>(batch);
}

StepCosts::Work StepCosts::compute(const PlanStep& step, const GemmModel& gemm) const {
    Work work;
    const double per_flop = gemm.flops_per_second > 0 ? 1 / (gemm.flops_per_second * rate_factor_) : 0;
    for (auto i = step.begin; i < step.end; ++i) {
        const auto& chain = plan_.chains[i];
        const float c = elements_[plan_.sums[chain.sum].c] / static_cast<float>(chain.parts);
        for (auto p = chain.first_product; p < chain.first_product + chain.products; ++p) {
            const float mnk = c * depth_[plan_.products[p].a];
            const double flops = flops_per_product_ * static_cast<double>(mnk);
            work.flops += flops;
            // flops / (peak s / (s + half)): the part that grows with 1 / s is what small tiles lose.
            const float size = std::max(1.0f, std::cbrt(mnk / batch_));
            work.seconds += flops * per_flop * (1 + gemm.half_size / static_cast<double>(size));
        }
    }
    return work;
}

double StepCosts::item_bytes(const PlanStep& step, std::int64_t item) const {
    const auto sum_bytes = [&](std::int32_t sum) {
        return static_cast<double>(elements_[plan_.sums[sum].c]) * scalar_bytes_;
    };
    switch (step.kind) {
        case StepKind::make:
        case StepKind::send:
        case StepKind::receive:
        case StepKind::load:
        case StepKind::copy:
        case StepKind::evict:
            return static_cast<double>(plan_.arrivals[item].bytes);
        case StepKind::store:
        case StepKind::send_sums:
        case StepKind::receive_sums:
        case StepKind::merge:
            return sum_bytes(plan_.moves[item].from);
        case StepKind::finish:
            return sum_bytes(plan_.finish_sums[item]);
        case StepKind::compute:
        case StepKind::join:
            break;
    }
    return 0;
}

double StepCosts::bytes(const PlanStep& step) const {
    if (step.kind == StepKind::compute || step.kind == StepKind::join || step.kind == StepKind::evict) return 0;
    double sum = 0;
    for (auto i = step.begin; i < step.end; ++i) sum += item_bytes(step, i);
    return sum;
}

}  // namespace tessera
