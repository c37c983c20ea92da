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

int buried_unit(const Axes& axes) {
    for (int i = 0; i + 1 < axes.count; ++i)
        if (axes.axis[i].stride == 1 && axes.axis[i].extent > 1) return i;
    return -1;
}

void find_unit_runs(const Axes& axes, int unit, std::int64_t begin, std::int64_t end, std::vector<Run>& runs) {
    runs.clear();
    std::int64_t step = 1;
    for (int i = unit + 1; i < axes.count; ++i) step *= axes.axis[i].extent;
    const std::int64_t span = axes.axis[unit].extent * step;
    for (std::int64_t base = begin / span * span; base < end; base += span)
        for (std::int64_t p = base; p < base + step; ++p) {
            const std::int64_t first = p >= begin ? p : p + ceil_div(begin - p, step) * step;
            const std::int64_t stop = std::min(end, base + span);
            if (first < stop)
                runs.push_back({first - begin, ceil_div(stop - first, step), axes.offset(first), 1, step});
        }
}

AxisOrder AxisOrder::of(const Axes& axes) {
    AxisOrder out;
    out.count = axes.count;
    for (int i = 0; i < axes.count; ++i) out.axis[i] = i;
    if (axes.count < 2) return out;  // before the sort, which allocates
    std::stable_sort(out.axis.begin(), out.axis.begin() + axes.count, [&](int x, int y) {
        // Axes of one position lie anywhere; keep them out of the way.
        const bool trivial_x = axes.axis[x].extent == 1, trivial_y = axes.axis[y].extent == 1;
        if (trivial_x != trivial_y) return trivial_x;
        return !trivial_x && axes.axis[x].stride > axes.axis[y].stride;
    });
    for (int i = 0; i < axes.count; ++i) out.changed = out.changed || out.axis[i] != i;
    return out;
}

bool reorder(const Axes& leader, const AxisOrder& order, const Axes& axes, Axes& out) {
    // Cut `axes` where leader's axes end, from the fastest on.
    std::array<Axes, kMaxAxes> part;  // by axis of leader, fastest first
    int at = axes.count - 1;
    Axis rest = at >= 0 ? axes.axis[at] : Axis{};
    for (int i = leader.count - 1; i >= 0; --i) {
        std::int64_t need = leader.axis[i].extent;
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

template <Scalar T>
const MatrixLayout* RealView<T>::ordered(const MatrixLayout* layout, const Leaders& leaders) {
    if (!leaders.rows && !leaders.cols) return layout;
    const auto [place, is_new] = ordered_.try_emplace({layout, leaders.rows, leaders.cols});
    if (is_new) {
        auto made = std::make_unique<MatrixLayout>(*layout);
        const auto follow = [](const Axes* leader, const Axes& axes, Axes& out) {
            return !leader || reorder(*leader, AxisOrder::of(*leader), axes, out);
        };
        if (follow(leaders.rows, layout->rows, made->rows) && follow(leaders.cols, layout->cols, made->cols))
            place->second = std::move(made);
    }
    return place->second.get();
}

template <Scalar T>
bool RealView<T>::all_follow(const Chain<T>& chain, const Leaders& leaders) {
    if (!leaders.rows && !leaders.cols) return true;
    if (!ordered(chain.c_layout, leaders)) return false;
    for (const ChainLink<T>& link : chain.links)
        if (!ordered(link.a_layout, {leaders.rows, nullptr}) || !ordered(link.b_layout, {nullptr, leaders.cols}))
            return false;
    return true;
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

// Columns that lie together in C are updated there, in panels of whole vectors: those of short runs are partly empty,
// which costs with every step of k; a copy costs once.
template <Scalar T>
bool RealView<T>::in_place(const Axes& rows, const Axes& cols, const Chain<T>& chain) const {
    if (!is_plain(rows) && rows.axis[rows.count - 1].extent < kShortRun) return false;
    if (is_unit(cols)) return true;
    if (inner_stride(cols) != 1) return false;
    return fills_vectors(cols.axis[cols.count - 1].extent * (is_complex<T> ? 2 : 1), chain);
}

template <Scalar T>
bool RealView<T>::fills_vectors(std::int64_t run, const Chain<T>& chain) const {
    constexpr std::int64_t kCopySteps = 48;  // of k, that a copy costs
    const std::int64_t empty = ceil_div(run, lanes_) * lanes_ - run;
    std::int64_t k = 0;
    for (const ChainLink<T>& link : chain.links) k += link.a_layout->cols.extent() * (is_complex<T> ? 2 : 1);
    return k * empty <= kCopySteps * run;
}

// In the order of C's memory C may be updated where it lies. Where it cannot, or where an operand would then be read
// across its memory in every block of k, rows follow A and columns follow B, and C is copied once for the whole chain.
template <Scalar T>
void RealView<T>::assign(const Chain<T>& chain, RealChain<RealOf<T>>& out) {
    using R = RealOf<T>;
    const MatrixLayout& given = *chain.c_layout;
    Leaders leaders;
    if (AxisOrder::of(given.rows).changed) leaders.rows = &given.rows;
    if (AxisOrder::of(given.cols).changed) leaders.cols = &given.cols;
    if (!all_follow(chain, leaders)) leaders = {};
    const MatrixLayout* c = ordered(chain.c_layout, leaders);
    // With rows of C contiguous and columns not, the transposed product runs along memory. Complex sums keep their
    // order only with A's elements spread and B's expanded, so they stay as they are.
    const bool transposed =
        !is_complex<T> && inner_stride(c->cols) != 1 && inner_stride(c->rows) == 1 && c->rows.count > 0;
    const Axes &along = transposed ? c->rows : c->cols, &across = transposed ? c->cols : c->rows;
    out.in_place = in_place(across, along, chain);
    if (!chain.links.empty()) {
        const MatrixLayout *a = chain.links[0].a_layout, *b = chain.links[0].b_layout;
        const auto buried = [&] {
            return buried_unit(ordered(a, {leaders.rows, nullptr})->rows) >= 0 ||
                   buried_unit(ordered(b, {nullptr, leaders.cols})->cols) >= 0;
        };
        const auto deep = [&] {
            std::int64_t k = 0;
            for (const ChainLink<T>& link : chain.links) k += link.a_layout->cols.extent();
            return k >= std::max(given.rows.extent(), given.cols.extent());
        };
        if (!out.in_place || (buried() && deep())) {
            const Leaders operands{&a->rows, &b->cols};
            if (all_follow(chain, operands)) {
                leaders = operands;
                out.in_place = false;
                c = ordered(chain.c_layout, leaders);
            }
        }
    }
    c = real_columns(c);
    out.c = reinterpret_cast<R*>(chain.c);
    out.c_m = &c->rows;
    out.c_n = &c->cols;
    out.overwrite = chain.overwrite;
    if (transposed) std::swap(out.c_m, out.c_n);
    out.run = out.c_n->count > 0 ? out.c_n->axis[out.c_n->count - 1].extent : 1;
    out.not_finite = chain.not_finite;
    out.m = out.c_m->extent();
    out.n = out.c_n->extent();
    out.links.clear();
    for (const ChainLink<T>& link : chain.links) {
        const MatrixLayout* a = real_columns(ordered(link.a_layout, {leaders.rows, nullptr}));
        const MatrixLayout* b = ordered(link.b_layout, {nullptr, leaders.cols});
        const std::int64_t k = a->cols.extent();
        if (k == 0) continue;
        const R* pa = reinterpret_cast<const R*>(link.a);
        const R* pb = reinterpret_cast<const R*>(link.b);
        const R factor = static_cast<R>(link.factor);
        if (transposed)  // real: there is nothing to conjugate
            out.links.push_back({pb, pa, &b->cols, &b->rows, &a->cols, &a->rows, k, factor});
        else
            out.links.push_back(
                {pa, pb, &a->rows, &a->cols, &b->rows, &b->cols, k, factor, link.conjugate_a, link.conjugate_b});
    }
    // Columns of B that lie apart, beside others that are further on: panels as long as they let B be packed along
    // memory.
    if (out.in_place && !is_complex<T> && !out.links.empty()) {
        const Axes &cols = *out.links[0].b_n, &k = *out.links[0].b_k;
        if (buried_unit(cols) >= 0 && inner_stride(k) != 1) {
            const std::int64_t run = cols.axis[cols.count - 1].extent;
            if (run < out.run && out.run % run == 0 && fills_vectors(run, chain)) out.run = run;
        }
    }
}

template class RealView<float>;
template class RealView<double>;
template class RealView<std::complex<float>>;
template class RealView<std::complex<double>>;

}  // namespace tessera::kernels::cpu
