#pragma once
// Sums of single elements, where a product of arrays has one element for each point: several side by side, each in its
// own order.

#include <algorithm>
#include <array>
#include <cstdint>

#include "execute/cpu/array_cut.hpp"
#include "execute/cpu/array_product.hpp"
#include "kernels/gemm.hpp"

namespace tessera::arrays {

/// Whether tiles that follow each other are the plain order of their elements.
inline bool is_plain_order(const ArrayLabels& k, const Cut& cut) {
    int i = k.count - 1;
    while (i >= 0 && cut.size[i] == k.label[i].extent) --i;
    for (--i; i >= 0; --i)
        if (cut.size[i] > 1) return false;
    return true;
}

/// One sum's way through its two arrays: stretches of constant steps.
template <Scalar T>
class DotWalk {
  public:
    DotWalk() = default;
    /// The tiles [first, last) of k.
    DotWalk(const ArrayLabels& k, const Cut& cut, const T* a, const T* b, std::int64_t first, std::int64_t last)
        : k_(&k), cut_(&cut), a_(a), b_(b), tile_(first), last_(last) {
        if (first < last && is_plain_order(k, cut)) {
            Box all;
            for (int i = 0; i < k.count; ++i) all.extent[i] = k.label[i].extent;
            open(all, place_of(first), place_of(last));
            tile_ = last;
        }
        next();
    }
    std::int64_t count = 0;  // of elements that lie at these steps; 0: the sum is done
    const T *x = nullptr, *y = nullptr;
    std::array<std::int64_t, 2> step{};

    void advance(std::int64_t steps) {
        count -= steps;
        x += steps * step[0];
        y += steps * step[1];
        if (count == 0) next();
    }

  private:
    struct Axis {
        std::int64_t extent, at;
        std::array<std::int64_t, 2> step;
    };

    /// Of a tile's first element, where tiles are in the plain order.
    std::int64_t place_of(std::int64_t tile) const {
        if (tile == cut_->total) return k_->extent();
        const Box box = cut_->box(*k_, tile);
        std::int64_t place = 0;
        for (int i = 0; i < k_->count; ++i) place = place * k_->label[i].extent + box.begin[i];
        return place;
    }

    /// Elements [begin, end) of a box. Indices that both arrays walk as one are one.
    void open(const Box& box, std::int64_t begin, std::int64_t end) {
        axes_ = 0;
        for (int i = 0; i < k_->count; ++i) {
            const auto extent = box.extent[i], sa = k_->label[i].stride[0], sb = k_->label[i].stride[1];
            if (extent == 1) continue;
            if (axes_ > 0 && axis_[axes_ - 1].step[0] == extent * sa && axis_[axes_ - 1].step[1] == extent * sb)
                axis_[axes_ - 1] = {axis_[axes_ - 1].extent * extent, 0, {sa, sb}};
            else
                axis_[axes_++] = {extent, 0, {sa, sb}};
        }
        if (axes_ == 0) axis_[axes_++] = {1, 0, {0, 0}};
        at_a_ = offset_of(*k_, box, 0);
        at_b_ = offset_of(*k_, box, 1);
        left_ = end - begin;
        for (int i = axes_ - 1; i >= 0; --i) {
            axis_[i].at = begin % axis_[i].extent;
            begin /= axis_[i].extent;
            move(i, axis_[i].at);
        }
    }
    void move(int axis, std::int64_t steps) {
        at_a_ += steps * axis_[axis].step[0];
        at_b_ += steps * axis_[axis].step[1];
    }

    void next() {
        while (left_ == 0) {
            if (tile_ >= last_) return;
            const Box box = cut_->box(*k_, tile_++);
            std::int64_t elements = 1;
            for (int i = 0; i < k_->count; ++i) elements *= box.extent[i];
            open(box, 0, elements);
        }
        Axis& inner = axis_[axes_ - 1];
        count = std::min(inner.extent - inner.at, left_);
        x = a_ + at_a_;
        y = b_ + at_b_;
        step = inner.step;
        left_ -= count;
        inner.at += count;
        move(axes_ - 1, count);
        for (int i = axes_ - 1; i > 0 && axis_[i].at == axis_[i].extent; --i) {
            move(i, -axis_[i].extent);
            axis_[i].at = 0;
            move(i - 1, 1);
            ++axis_[i - 1].at;
        }
    }

    const ArrayLabels* k_ = nullptr;
    const Cut* cut_ = nullptr;
    const T *a_ = nullptr, *b_ = nullptr;
    std::int64_t tile_ = 0, last_ = 0;
    std::array<Axis, kMaxRank> axis_;
    int axes_ = 0;
    std::int64_t at_a_ = 0, at_b_ = 0, left_ = 0;  // in the box
};

/// Runs the walks to their ends, those of the same steps side by side.
template <Scalar T>
void add_walks(std::array<DotWalk<T>, kernels::kDots>& walks, kernels::GemmFlags flags, T (&sums)[kernels::kDots]) {
    constexpr int kDots = kernels::kDots;
    for (;;) {
        int first = 0;
        while (first < kDots && walks[first].count == 0) ++first;
        if (first == kDots) return;
        const auto step = walks[first].step;
        const T *x[kDots], *y[kDots];
        T kept[kDots];
        bool goes_on[kDots];
        std::int64_t count = walks[first].count;
        for (int d = 0; d < kDots; ++d) {
            const auto& walk = walks[d];
            goes_on[d] = walk.count > 0 && walk.step == step;
            const auto& read = goes_on[d] ? walk : walks[first];  // one that waits reads along, and is put back
            x[d] = read.x;
            y[d] = read.y;
            kept[d] = sums[d];
            if (goes_on[d]) count = std::min(count, walk.count);
        }
        kernels::add_dots<T>(x, y, count, step[0], step[1], flags, sums);
        for (int d = 0; d < kDots; ++d) {
            if (goes_on[d])
                walks[d].advance(count);
            else
                sums[d] = kept[d];
        }
    }
}

}  // namespace tessera::arrays
