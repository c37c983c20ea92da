#include "plan/summation.hpp"

#include <cmath>

#include "base/check.hpp"
#include "shape/product_shape.hpp"
#include "tessera/index/contraction_spec.hpp"

namespace tessera {

namespace {

std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// The fixed tree over leaves [at, at + span), of which those from n on do not exist.
std::uint64_t tree(const std::vector<std::uint64_t>& leaves, std::size_t at, std::size_t span) {
    if (span == 1) return leaves[at];
    const auto half = span / 2;
    const auto left = tree(leaves, at, half);
    return at + half < leaves.size() ? Summation::joined(left, tree(leaves, at + half, half)) : left;
}

}  // namespace

Summation::Summation(const Plan& plan) {
    const bool added = plan.added.tile_count() > 0;
    const auto all =
        product_shape(ContractionSpec(plan.spec), plan.a, plan.b,
                      {plan.filter, plan.alpha_magnitude, plan.shape_given ? &plan.c : nullptr,
                       added ? &plan.added : nullptr, plan.beta_magnitude, plan.c.symmetry(), &plan.views_a});
    const auto known = static_cast<std::int64_t>(plan.products.size());
    const auto expected = static_cast<std::int64_t>(all.products.size());
    for (std::int64_t p = 0; p < std::min(known, expected); ++p)
        ensure(plan.products[p].a == all.products[p].a && plan.products[p].b == all.products[p].b,
               "product {}: tiles {} and {} are missing, or not in their order", p, all.products[p].a,
               all.products[p].b);
    ensure(known == expected, "{} products, {} follow from the shapes", known, expected);
    ensure(plan.counts.products == known, "{} products, {} are counted", known, plan.counts.products);
    const double flops = all.flops * flops_per_multiply_add(plan.scalar) / 2;
    ensure(std::abs(plan.counts.flops - flops) <= 1e-9 * flops, "{} flops, {} are counted", flops, plan.counts.flops);
    const double whole = all.whole_flops * flops_per_multiply_add(plan.scalar) / 2;
    ensure(std::abs(plan.counts.whole_flops - whole) <= 1e-9 * whole, "{} flops without symmetry, {} are counted",
           whole, plan.counts.whole_flops);
    ensure(plan.segments == all.segments, "{} segments, {} are counted", all.segments, plan.segments);
    ensure(plan.counts.left_out_bound == all.left_out_bound, "a norm of {} is left out, {} is counted",
           all.left_out_bound, plan.counts.left_out_bound);
    ensure(plan.skipped.size() == (plan.filter > 0 ? static_cast<std::size_t>(plan.c.tile_count()) : 0),
           "what is skipped is known of {} of {} result tiles", plan.skipped.size(), plan.c.tile_count());

    // The plan's result may have further tiles, without products: those of a C that is added to.
    std::int64_t j = 0;
    first_.push_back(0);
    for (std::int64_t c = 0; c < plan.c.tile_count(); ++c) {
        const bool reached = j < all.c.tile_count() && all.c.ordinals()[j] == plan.c.ordinals()[c];
        first_.push_back(reached ? all.first[j + 1] : first_.back());
        if (plan.filter > 0)
            ensure(plan.skipped[c] == (reached ? all.skipped[j] : 0.0f), "result tile {}: {} is skipped, {} is counted",
                   c, reached ? all.skipped[j] : 0.0f, plan.skipped[c]);
        j += reached;
    }
    ensure(j == all.c.tile_count(), "{} of {} result tiles are in the plan", j, all.c.tile_count());
    if (all.segments > 1) {
        segment_.reserve(all.products.size());
        for (std::int64_t p = 0; p < expected; ++p) segment_.push_back(all.segment[all.k(p)]);
    }
}

Summation::Value Summation::segment(std::int32_t c, std::int64_t first, std::int64_t last) const {
    ensure(first >= first_[c] && last <= first_[c + 1] && first <= last && (first < last || products_of(c) == 0),
           "result tile {}: products {} to {} of {} to {}", c, first, last, first_[c], first_[c + 1]);
    if (first == last) return mixed(~static_cast<Value>(c));
    const bool begins = first == first_[c] || (!segment_.empty() && segment_[first - 1] != segment_[first]);
    const bool ends = last == first_[c + 1] || (!segment_.empty() && segment_[last] != segment_[last - 1]);
    const bool one = segment_.empty() || segment_[first] == segment_[last - 1];
    ensure(begins && ends && one, "result tile {}: products {} to {} are not one segment", c, first, last);
    return mixed(static_cast<Value>(first) + 1);
}

Summation::Value Summation::joined(Value to, Value from) { return mixed(to * 0x9e3779b97f4a7c15u + mixed(from)); }

Summation::Value Summation::result(std::int32_t c) const {
    std::vector<Value> leaves;
    for (auto first = first_[c]; first < first_[c + 1];) {
        auto last = segment_.empty() ? first_[c + 1] : first + 1;
        while (last < first_[c + 1] && segment_[last] == segment_[first]) ++last;
        leaves.push_back(segment(c, first, last));
        first = last;
    }
    if (leaves.empty()) leaves.push_back(segment(c, first_[c], first_[c]));
    std::size_t span = 1;
    while (span < leaves.size()) span *= 2;
    return tree(leaves, 0, span);
}

}  // namespace tessera
