#include "execute/cpu/tile_layouts.hpp"

#include <map>
#include <unordered_map>

namespace tessera {

namespace {

/// Axes of a tile for these labels; neighbours that walk memory as one become one.
kernels::Axes axes_of(const std::string& group, const std::string& labels, const IndexVector& extents,
                      const IndexVector& strides) {
    kernels::Axes axes;
    for (char l : group) {
        const int d = static_cast<int>(labels.find(l));
        if (extents[d] == 1) continue;
        const kernels::Axis next{extents[d], strides[d]};
        if (axes.count > 0 && axes.axis[axes.count - 1].stride == next.extent * next.stride) {
            auto& last = axes.axis[axes.count - 1];
            last = {last.extent * next.extent, next.stride};
        } else {
            axes.push_back(next);
        }
    }
    return axes;
}

/// The sizes that an index has, and which of them each of its tiles has.
struct Sizes {
    std::vector<std::int64_t> sizes;
    std::vector<std::int32_t> of_tile;  // none where there is one size
};

Sizes sizes_of(const Tiling& tiling) {
    Sizes out;
    const auto offsets = tiling.offsets();
    std::map<std::int64_t, std::int32_t> known;
    bool one = true;
    for (std::size_t t = 1; t + 1 < offsets.size() && one; ++t)
        one = offsets[t + 1] - offsets[t] == offsets[1] - offsets[0];
    if (one) {
        out.sizes = {offsets.size() > 1 ? offsets[1] - offsets[0] : 0};
        return out;
    }
    out.of_tile.reserve(offsets.size());
    for (std::size_t t = 0; t + 1 < offsets.size(); ++t) {
        const auto size = offsets[t + 1] - offsets[t];
        const auto [it, fresh] = known.try_emplace(size, static_cast<std::int32_t>(out.sizes.size()));
        if (fresh) out.sizes.push_back(size);
        out.of_tile.push_back(it->second);
    }
    return out;
}

}  // namespace

TileLayouts::TileLayouts(const Shape& shape, const TileViews& views, const std::string& labels, const std::string& rows,
                         const std::string& cols, const std::string& batch) {
    const auto& grid = shape.grid();
    // A tile that is seen in another one is that one, its labels in another order.
    const auto add = [&](std::int64_t slot) {
        const auto seen = grid.tile_extents(shape.tile(slot));
        const auto stored_labels = views.empty() ? labels : in_order(labels, views[slot].order);
        const auto extents = views.empty() ? seen : views[slot].order.apply(seen);
        const auto strides = row_major_strides(extents);
        const auto axes = [&](const std::string& group) { return axes_of(group, stored_labels, extents, strides); };
        layouts_.push_back({{axes(rows), axes(cols)}, axes(batch)});
    };
    std::vector<Sizes> sizes;
    bool one = true;
    for (const auto& tiling : grid.tilings()) {
        sizes.push_back(sizes_of(tiling));
        one = one && sizes.back().of_tile.empty();
    }
    if (shape.empty()) return;
    if (one && views.empty()) {
        add(0);
        return;
    }

    // A tile's extents as one number: its digits are the sizes.
    std::unordered_map<std::int64_t, std::int32_t> known;
    class_of_.reserve(static_cast<std::size_t>(shape.tile_count()));
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        std::int64_t key = views.empty() ? 0 : views.view[static_cast<std::size_t>(s)], rest = shape.tile(s).value;
        for (int d = 0; d < grid.rank(); ++d) {
            const auto at = rest / grid.ordinal_strides()[d];
            rest -= at * grid.ordinal_strides()[d];
            const auto& size = sizes[static_cast<std::size_t>(d)];
            if (!size.of_tile.empty())
                key = key * static_cast<std::int64_t>(size.sizes.size()) + size.of_tile[static_cast<std::size_t>(at)];
        }
        const auto [it, fresh] = known.try_emplace(key, static_cast<std::int32_t>(layouts_.size()));
        if (fresh) add(s);
        class_of_.push_back(it->second);
    }
}

PlanLayouts::PlanLayouts(const Plan& plan) : PlanLayouts(plan, ContractionSpec(plan.spec)) {}
PlanLayouts::PlanLayouts(const Plan& plan, const ContractionSpec& spec) : PlanLayouts(plan, spec, MatrixView(spec)) {}
PlanLayouts::PlanLayouts(const Plan& plan, const ContractionSpec& spec, const MatrixView& view)
    : a(plan.a, plan.views_a, spec.a(), view.m, view.k, view.batch),
      b(plan.b, plan.views_b, spec.b(), view.k, view.n, view.batch),
      c(plan.c, {}, spec.c(), view.m, view.n, view.batch),
      all_batch(view.m.empty() && view.n.empty() && view.k.empty()) {}

}  // namespace tessera
