// Tiles of any element type and layout seen as real matrices.

#include <algorithm>
#include <array>
#include <complex>
#include <utility>

#include "base/check.hpp"
#include "kernels/cpu/gemm_driver.hpp"

namespace tessera::kernels::cpu {

void find_runs(const Axes& axes, std::int64_t begin, std::int64_t end, std::vector<Run>& runs) {
    runs.clear();
    if (is_plain(axes)) {
        const std::int64_t stride = plain_stride(axes);
        if (begin < end) runs.push_back({0, end - begin, begin * stride, stride});
        return;
    }
    const Axis inner = axes.axis[axes.count - 1];
    for (std::int64_t p = begin; p < end;) {
        const std::int64_t count = std::min(inner.extent - p % inner.extent, end - p);
        runs.push_back({p - begin, count, axes.offset(p), inner.stride});
        p += count;
    }
}

AxisOrder AxisOrder::of(const Axes& c) {
    AxisOrder out;
    out.count = c.count;
    for (int i = 0; i < c.count; ++i) out.axis[i] = i;
    std::stable_sort(out.axis.begin(), out.axis.begin() + c.count, [&](int x, int y) {
        // Axes of one position lie anywhere; keep them out of the way.
        const bool trivial_x = c.axis[x].extent == 1, trivial_y = c.axis[y].extent == 1;
        if (trivial_x != trivial_y) return trivial_x;
        return !trivial_x && c.axis[x].stride > c.axis[y].stride;
    });
    for (int i = 0; i < c.count; ++i) out.changed = out.changed || out.axis[i] != i;
    return out;
}

bool reorder(const Axes& c, const AxisOrder& order, const Axes& axes, Axes& out) {
    // Cut `axes` where c's axes end, from the fastest on.
    std::array<Axes, kMaxAxes> part;  // by axis of c, fastest first
    int at = axes.count - 1;
    Axis rest = at >= 0 ? axes.axis[at] : Axis{};
    for (int i = c.count - 1; i >= 0; --i) {
        std::int64_t need = c.axis[i].extent;
        while (need > 1) {
            while (rest.extent == 1 && at > 0) rest = axes.axis[--at];
            if (rest.extent <= 1) return false;
            const std::int64_t take = std::min(need, rest.extent);
            if (need % take != 0 || rest.extent % take != 0 || part[i].count == kMaxAxes) return false;
            part[i].push_back({take, rest.stride});
            need /= take;
            rest = {rest.extent / take, rest.stride * take};
        }
    }
    out = Axes{};
    for (int i = 0; i < order.count; ++i) {
        const Axes& group = part[order.axis[i]];
        for (int g = group.count - 1; g >= 0; --g) {
            const Axis axis = group.axis[g];
            if (out.count > 0 && out.axis[out.count - 1].stride == axis.extent * axis.stride)
                out.axis[out.count - 1] = {out.axis[out.count - 1].extent * axis.extent, axis.stride};
            else if (out.count == kMaxAxes)
                return false;
            else
                out.push_back(axis);
        }
    }
    return true;
}

// The layout with its free dimension (A: rows, B: columns, C: both) in the order of C's memory; null if it cannot be.
template <Scalar T>
const MatrixLayout* RealView<T>::ordered(Role role, const MatrixLayout* layout, const MatrixLayout* c) {
    const auto [place, is_new] = ordered_[static_cast<int>(role)].try_emplace({layout, c});
    if (is_new) {
        auto made = std::make_unique<MatrixLayout>(*layout);
        const bool ok = (role == Role::b || reorder(c->rows, AxisOrder::of(c->rows), layout->rows, made->rows)) &&
                        (role == Role::a || reorder(c->cols, AxisOrder::of(c->cols), layout->cols, made->cols));
        if (ok) place->second = std::move(made);
    }
    return place->second.get();
}

// Each complex column as two real ones, next to each other.
template <Scalar T>
const MatrixLayout* RealView<T>::real_columns(const MatrixLayout* layout) {
    if constexpr (!is_complex<T>) return layout;
    std::unique_ptr<MatrixLayout>& made = real_[layout];
    if (!made) {
        made = std::make_unique<MatrixLayout>(*layout);
        for (Axes* axes : {&made->rows, &made->cols})
            for (int i = 0; i < axes->count; ++i) axes->axis[i].stride *= 2;
        Axes& cols = made->cols;
        if (cols.count > 0 && layout->cols.axis[cols.count - 1].stride == 1) {
            cols.axis[cols.count - 1] = {2 * cols.axis[cols.count - 1].extent, 1};
        } else {
            ensure(cols.count < kMaxAxes, "a tile of {} axes cannot be seen as real", cols.count);
            cols.push_back({2, 1});
        }
    }
    return made.get();
}

template <Scalar T>
void RealView<T>::assign(const Chain<T>& chain, RealChain<RealOf<T>>& out) {
    using R = RealOf<T>;
    const MatrixLayout* by = nullptr;  // whose axes are visited in memory order
    if ((chain.c_layout->rows.count > 1 || chain.c_layout->cols.count > 1) &&
        (AxisOrder::of(chain.c_layout->rows).changed || AxisOrder::of(chain.c_layout->cols).changed)) {
        by = chain.c_layout;
        for (const ChainLink<T>& link : chain.links)
            if (!ordered(Role::a, link.a_layout, by) || !ordered(Role::b, link.b_layout, by)) {
                by = nullptr;
                break;
            }
    }
    const MatrixLayout* c = real_columns(by ? ordered(Role::c, chain.c_layout, by) : chain.c_layout);
    // With rows of C contiguous and columns not, the transposed product runs along memory. Complex sums keep their
    // order only with A's elements spread and B's expanded, so they stay as they are.
    const bool transposed =
        !is_complex<T> && inner_stride(c->cols) != 1 && inner_stride(c->rows) == 1 && c->rows.count > 0;
    out.c = reinterpret_cast<R*>(chain.c);
    out.c_m = &c->rows;
    out.c_n = &c->cols;
    out.overwrite = chain.overwrite;
    if (transposed) std::swap(out.c_m, out.c_n);
    out.m = out.c_m->extent();
    out.n = out.c_n->extent();
    out.links.clear();
    for (const ChainLink<T>& link : chain.links) {
        const MatrixLayout* a = real_columns(by ? ordered(Role::a, link.a_layout, by) : link.a_layout);
        const MatrixLayout* b = by ? ordered(Role::b, link.b_layout, by) : link.b_layout;
        const std::int64_t k = a->cols.extent();
        if (k == 0) continue;
        const R* pa = reinterpret_cast<const R*>(link.a);
        const R* pb = reinterpret_cast<const R*>(link.b);
        if (transposed)
            out.links.push_back({pb, pa, &b->cols, &b->rows, &a->cols, &a->rows, k});
        else
            out.links.push_back({pa, pb, &a->rows, &a->cols, &b->rows, &b->cols, k});
    }
}

template class RealView<float>;
template class RealView<double>;
template class RealView<std::complex<float>>;
template class RealView<std::complex<double>>;

}  // namespace tessera::kernels::cpu
