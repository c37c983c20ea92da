#pragma once
// How a product of dense arrays is cut into blocks: boxes of its indices, and what they are in memory.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "execute/cpu/array_product.hpp"
#include "kernels/layout.hpp"

namespace tessera::arrays {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A range of each index of a group.
struct Box {
    std::array<std::int64_t, kMaxRank> begin{}, extent{};
};

/// What a box is in one of the arrays.
inline std::int64_t offset_of(const ArrayLabels& g, const Box& box, int array) {
    std::int64_t at = 0;
    for (int i = 0; i < g.count; ++i) at += box.begin[i] * g.label[i].stride[array];
    return at;
}

/// Neighbours that walk memory as one become one axis.
inline kernels::Axes axes_of(const ArrayLabels& g, const Box& box, int array) {
    kernels::Axes axes;
    for (int i = 0; i < g.count; ++i) {
        if (box.extent[i] == 1) continue;
        const kernels::Axis next{box.extent[i], g.label[i].stride[array]};
        if (axes.count > 0 && axes.axis[axes.count - 1].stride == next.extent * next.stride)
            axes.axis[axes.count - 1] = {axes.axis[axes.count - 1].extent * next.extent, next.stride};
        else
            axes.push_back(next);
    }
    return axes;
}

/// How the indices of a group are cut: blocks of so many steps each.
struct Cut {
    std::array<std::int64_t, kMaxRank> size{}, parts{};
    std::int64_t total = 1;    // blocks
    std::int64_t largest = 1;  // elements of one

    void set(const ArrayLabels& g) {
        total = largest = 1;
        for (int i = 0; i < g.count; ++i) {
            parts[i] = ceil_div(g.label[i].extent, size[i]);
            if (parts[i] > 0) size[i] = ceil_div(g.label[i].extent, parts[i]);
            total *= parts[i];
            largest *= size[i];
        }
    }
    /// Of block number n, the last index fastest.
    Box box(const ArrayLabels& g, std::int64_t n) const {
        Box out;
        for (int i = g.count - 1; i >= 0; --i) {
            out.begin[i] = n % parts[i] * size[i];
            out.extent[i] = std::min(size[i], g.label[i].extent - out.begin[i]);
            n /= parts[i];
        }
        return out;
    }
};

inline int unit_label(const ArrayLabels& g, int array) {
    for (int i = 0; i < g.count; ++i)
        if (g.label[i].stride[array] == 1) return i;
    return -1;
}

/// Blocks of about `target` elements that lie together in C and are read by whole lines from the group's operand.
inline Cut cut(const ArrayLabels& g, int array, std::int64_t target) {
    constexpr std::int64_t kLine = 32;
    Cut out;
    out.size.fill(1);
    const int first[2] = {unit_label(g, 2), unit_label(g, array)};
    std::int64_t taken = 1;
    const auto grow = [&](int i, std::int64_t most) {
        const auto others = taken / out.size[i];
        out.size[i] = std::clamp(std::min(most, target / others), out.size[i], g.label[i].extent);
        taken = others * out.size[i];
    };
    for (const int i : first)
        if (i >= 0) grow(i, g.label[i].extent <= 2 * kLine ? g.label[i].extent : kLine);
    // Then along C: runs of it that are short would have to be copied.
    std::array<int, kMaxRank> order{};
    for (int i = 0; i < g.count; ++i) order[i] = i;
    std::sort(order.begin(), order.begin() + g.count,
              [&](int x, int y) { return std::abs(g.label[x].stride[2]) < std::abs(g.label[y].stride[2]); });
    for (int o = 0; o < g.count; ++o) grow(order[o], target);
    out.set(g);
    return out;
}

/// Slowest in C first, neighbours that walk both arrays as one fused.
inline ArrayLabels along_c(const ArrayLabels& g) {
    ArrayLabels sorted, out;
    for (int i = 0; i < g.count; ++i)
        if (g.label[i].extent != 1) sorted.label[sorted.count++] = g.label[i];
    std::stable_sort(
        sorted.label.begin(), sorted.label.begin() + sorted.count,
        [](const ArrayLabel& x, const ArrayLabel& y) { return std::abs(x.stride[2]) > std::abs(y.stride[2]); });
    for (int i = 0; i < sorted.count; ++i) {
        const auto& next = sorted.label[i];
        if (out.count > 0) {
            auto& last = out.label[out.count - 1];
            bool joins = true;
            for (int o = 0; o < 3; ++o) joins = joins && last.stride[o] == next.extent * next.stride[o];
            if (joins) {
                last = {last.extent * next.extent, next.stride};
                continue;
            }
        }
        out.label[out.count++] = next;
    }
    return out;
}

}  // namespace tessera::arrays
