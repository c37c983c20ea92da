// Tiles of any element type and layout seen as real matrices.

#include <algorithm>
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

// Each complex column as two real ones, next to each other.
template <Scalar T>
const MatrixLayout* RealView<T>::real_columns(const MatrixLayout* layout) {
    if constexpr (!is_complex<T>) return layout;
    std::unique_ptr<MatrixLayout>& made = rewritten_[layout];
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
    const MatrixLayout* c = real_columns(chain.c_layout);
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
        const MatrixLayout* a = real_columns(link.a_layout);
        const MatrixLayout* b = link.b_layout;
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
