#include "execute/cpu/array_product.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <vector>

#include "base/parallel.hpp"
#include "kernels/gemm.hpp"
#include "storage/buffer.hpp"

namespace tessera {

namespace {

using kernels::Axes;
using kernels::MatrixLayout;

constexpr std::int64_t kTileOfK = 256;  // elements of k in an automatic tile: what segments are made of
constexpr double kMostSegments = 64;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A range of each index of a group.
struct Box {
    std::array<std::int64_t, kMaxRank> begin{}, extent{};
};

/// What a box is in one of the arrays.
std::int64_t offset_of(const ArrayLabels& g, const Box& box, int array) {
    std::int64_t at = 0;
    for (int i = 0; i < g.count; ++i) at += box.begin[i] * g.label[i].stride[array];
    return at;
}

/// Neighbours that walk memory as one become one axis.
Axes axes_of(const ArrayLabels& g, const Box& box, int array) {
    Axes axes;
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

/// The boxes that positions [begin, end) of a group are, in order.
void boxes_of(const ArrayLabels& g, std::int64_t begin, std::int64_t end, std::vector<Box>& out) {
    while (begin < end) {
        // The largest whole box from here on: as many of the fastest indices as begin and end allow.
        Box box;
        std::int64_t unit = 1;
        int i = g.count - 1;
        for (; i > 0 && begin % (unit * g.label[i].extent) == 0 && begin + unit * g.label[i].extent <= end; --i)
            unit *= g.label[i].extent;
        std::int64_t rest = begin;
        for (int j = g.count - 1; j >= 0; --j) {
            box.begin[j] = rest % g.label[j].extent;
            rest /= g.label[j].extent;
            box.extent[j] = j > i ? g.label[j].extent : 1;
        }
        std::int64_t steps = 1;
        if (i >= 0) {
            steps = std::min((end - begin) / unit, g.label[i].extent - box.begin[i]);
            box.extent[i] = steps;
        }
        out.push_back(box);
        begin += steps * unit;
    }
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
            size[i] = ceil_div(g.label[i].extent, parts[i]);
            parts[i] = ceil_div(g.label[i].extent, size[i]);
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

int unit_label(const ArrayLabels& g, int array) {
    for (int i = 0; i < g.count; ++i)
        if (g.label[i].stride[array] == 1) return i;
    return -1;
}

/// Blocks of about `target` elements that lie together in C and are read by whole lines from the group's operand.
Cut cut(const ArrayLabels& g, int array, std::int64_t target) {
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
        if (i >= 0) grow(i, kLine);
    for (const int i : first)
        if (i >= 0) grow(i, target);
    std::array<int, kMaxRank> order{};
    for (int i = 0; i < g.count; ++i) order[i] = i;
    std::sort(order.begin(), order.begin() + g.count,
              [&](int x, int y) { return std::abs(g.label[x].stride[2]) < std::abs(g.label[y].stride[2]); });
    for (int o = 0; o < g.count; ++o) grow(order[o], target);
    out.set(g);
    return out;
}

/// Slowest in C first, neighbours that walk both arrays as one fused.
ArrayLabels along_c(const ArrayLabels& g) {
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

/// k keeps its order.
ArrayLabels fused(const ArrayLabels& g) {
    ArrayLabels out;
    for (int i = 0; i < g.count; ++i) {
        const auto& next = g.label[i];
        if (next.extent == 1) continue;
        if (out.count > 0) {
            auto& last = out.label[out.count - 1];
            if (last.stride[0] == next.extent * next.stride[0] && last.stride[1] == next.extent * next.stride[1]) {
                last = {last.extent * next.extent, next.stride};
                continue;
            }
        }
        out.label[out.count++] = next;
    }
    return out;
}

template <Scalar T>
bool all_finite(const T* x, std::int64_t n, std::int64_t stride) {
    using R = RealOf<T>;
    if constexpr (is_complex<T>) {
        const R* r = reinterpret_cast<const R*>(x);
        R zero = 0;
        for (std::int64_t i = 0; i < n; ++i) zero += r[2 * i * stride] * R(0) + r[2 * i * stride + 1] * R(0);
        return zero == R(0);
    } else if (stride == 1) {
        R zero[16] = {};
        std::int64_t i = 0;
        for (; i + 16 <= n; i += 16)
            for (int l = 0; l < 16; ++l) zero[l] += x[i + l] * R(0);
        for (int l = 0; i < n; ++i, ++l) zero[l] += x[i] * R(0);
        R sum = 0;
        for (const R z : zero) sum += z;
        return sum == R(0);
    } else {
        R zero = 0;
        for (std::int64_t i = 0; i < n; ++i) zero += x[i * stride] * R(0);
        return zero == R(0);
    }
}

}  // namespace

KSegments k_segments(const ArrayLabels& m, const ArrayLabels& n, const ArrayLabels& k, const ArrayLabels& batch) {
    KSegments out;
    if (k.extent() <= 1) return out;  // one product, or none
    std::int64_t inner = 1;
    int i = k.count - 1;
    while (i > 0 && inner * k.label[i].extent <= kTileOfK) inner *= k.label[i--].extent;
    out.cut = i;
    const auto parts = ceil_div(k.label[i].extent, std::max<std::int64_t>(1, kTileOfK / inner));
    out.tile = ceil_div(k.label[i].extent, parts);
    out.tiles = ceil_div(k.label[i].extent, out.tile);
    for (int j = 0; j < i; ++j) out.tiles *= k.label[j].extent;
    const double points = static_cast<double>(batch.extent()), rows = static_cast<double>(m.extent()),
                 cols = static_cast<double>(n.extent()), depth = static_cast<double>(k.extent());
    const double both = points * depth * (rows + cols), result = points * rows * cols;
    if (both < 16 * result) return out;
    while (out.segments < kMostSegments && 2.0 * out.segments <= both / (4 * result)) out.segments *= 2;
    out.segments = static_cast<int>(std::min<std::int64_t>(out.segments, out.tiles));
    return out;
}

namespace {

template <Scalar T>
class Product {
  public:
    Product(const ArrayProduct<T>& p, int threads)
        : p_(p), m_(along_c(p.m)), n_(along_c(p.n)), k_(fused(p.k)), batch_(along_c(p.batch)), threads_(threads) {
        segments_ = k_segments(p.m, p.n, p.k, p.batch);
        cut_k();
        cut_c();
    }

    std::int64_t scratch() const {
        const std::int64_t c = m_.extent() * n_.extent() * batch_.extent();
        return static_cast<std::int64_t>(sizeof(T)) * (segments_.segments > 1 ? segments_.segments * c : 0) +
               (in_block() ? threads_ * block_bytes() : 0);
    }

    bool run() {
        if (segments_.segments > 1) partial_ = Buffer(scratch());
        const std::int64_t items = batch_.extent() * cut_m_.total * cut_n_.total * segments_.segments;
        std::atomic<std::int64_t> next{0};
        std::atomic<bool> finite{true};
        parallel_region(static_cast<int>(std::min<std::int64_t>(threads_, items)), [&](int, int) {
            kernels::GemmWorkspace workspace;
            Buffer block(in_block() ? block_bytes() : 0);
            Work work;
            for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;)
                if (!item(i, workspace, reinterpret_cast<T*>(block.data()), work)) finite = false;
        });
        if (segments_.segments > 1 && !join()) finite = false;
        return finite;
    }

  private:
    struct Work {
        std::vector<kernels::ChainLink<T>> links;
        std::vector<MatrixLayout> layouts;
    };

    bool in_block() const { return segments_.segments == 1 && (p_.alpha != T(1) || p_.beta != T(0)); }
    std::int64_t block_bytes() const { return static_cast<std::int64_t>(sizeof(T)) * cut_m_.largest * cut_n_.largest; }

    void cut_k() {
        first_box_.push_back(0);
        const auto depth = k_.extent();
        for (int s = 0; s < segments_.segments; ++s) {
            boxes_of(k_, begin_of(s), s + 1 == segments_.segments ? depth : begin_of(s + 1), boxes_);
            first_box_.push_back(boxes_.size());
        }
    }
    /// Where a segment begins: with the first tile whose place it is.
    std::int64_t begin_of(int s) const {
        if (s == 0) return 0;
        const auto tile = ceil_div(s * segments_.tiles, segments_.segments);
        std::int64_t inner = 1;
        for (int i = segments_.cut + 1; i < p_.k.count; ++i) inner *= p_.k.label[i].extent;
        const auto extent = p_.k.count ? p_.k.label[segments_.cut].extent : 1;
        const auto along = ceil_div(extent, segments_.tile);
        return (tile / along * extent + tile % along * segments_.tile) * inner;
    }

    void cut_c() {
        constexpr std::int64_t kSide = 384, kBlock = 65536, kLeastSide = 48, kLongest = 4096;
        const auto m = m_.extent(), n = n_.extent();
        std::int64_t rows = std::min(m, kSide), cols = std::min(n, kSide);
        if (cols < kSide) rows = std::min({m, kLongest, std::max(rows, kBlock / cols)});
        if (rows < kSide) cols = std::min({n, kLongest, std::max(cols, kBlock / rows)});
        for (;;) {
            cut_m_ = cut(m_, 0, rows);
            cut_n_ = cut(n_, 1, cols);
            if (threads_ == 1 || batch_.extent() * cut_m_.total * cut_n_.total * segments_.segments >= 4 * threads_)
                return;
            auto& larger = rows >= cols ? rows : cols;
            if (larger <= kLeastSide) return;
            larger = std::max(kLeastSide, larger / 2);
        }
    }

    bool item(std::int64_t i, kernels::GemmWorkspace& workspace, T* block, Work& w) {
        const int s = static_cast<int>(i % segments_.segments);
        i /= segments_.segments;
        const Box n = cut_n_.box(n_, i % cut_n_.total);
        i /= cut_n_.total;
        const Box m = cut_m_.box(m_, i % cut_m_.total);
        i /= cut_m_.total;
        Box point;
        for (int j = batch_.count - 1; j >= 0; --j) {
            point.begin[j] = i % batch_.label[j].extent;
            point.extent[j] = 1;
            i /= batch_.label[j].extent;
        }
        const T* a = p_.a + offset_of(m_, m, 0) + offset_of(batch_, point, 0);
        const T* b = p_.b + offset_of(n_, n, 1) + offset_of(batch_, point, 1);
        T* c = p_.c + offset_of(m_, m, 2) + offset_of(n_, n, 2) + offset_of(batch_, point, 2);

        const auto first = first_box_[s], count = first_box_[s + 1] - first;
        w.links.clear();
        w.layouts.clear();
        w.layouts.reserve(2 * count);
        const Axes rows = axes_of(m_, m, 0), cols = axes_of(n_, n, 1);
        for (std::size_t j = first; j < first + count; ++j) {
            w.layouts.push_back({rows, axes_of(k_, boxes_[j], 0)});
            w.layouts.push_back({axes_of(k_, boxes_[j], 1), cols});
            w.links.push_back({a + offset_of(k_, boxes_[j], 0), b + offset_of(k_, boxes_[j], 1),
                               &w.layouts[w.layouts.size() - 2], &w.layouts.back()});
        }
        MatrixLayout own{axes_of(m_, m, 2), axes_of(n_, n, 2)};
        T* to = c;
        if (segments_.segments > 1 || block) {
            // Compact: a block of this thread's, or its place in the segment's own C.
            std::int64_t step = 1;
            to = block ? block : partial(s) + compact_offset(m, n, point);
            if (block) {
                own = {{}, {}};
                if (n_.extent() > 0) own.cols.push_back({extent_of(n_, n), 1});
                step = extent_of(n_, n);
                own.rows.push_back({extent_of(m_, m), step});
            } else {
                own = {compact_axes(m_, m, n_.extent()), compact_axes(n_, n, 1)};
            }
        }
        const kernels::Chain<T> chain{to, &own, w.links, true};
        kernels::multiply_chains<T>({&chain, 1}, {p_.conjugate_a, p_.conjugate_b}, workspace);
        if (segments_.segments > 1) return true;
        bool finite = true;
        rows_of_c(m, n,
                  [&](std::int64_t at, std::int64_t in_block, std::int64_t count_, std::int64_t step,
                      std::int64_t block_step) {
                      T* x = c + at;
                      if (block) put(block + in_block, block_step, x, step, count_);
                      finite = all_finite(x, count_, step) && finite;
                  });
        return finite;
    }

    /// C = alpha sum + beta C, for one row.
    void put(const T* sum, std::int64_t sum_step, T* c, std::int64_t step, std::int64_t count) const {
        if (p_.beta == T(0)) {
            for (std::int64_t e = 0; e < count; ++e) c[e * step] = sum[e * sum_step] * p_.alpha;
            return;
        }
        const bool scaled = p_.alpha != T(1);
        for (std::int64_t e = 0; e < count; ++e) {
            T value = sum[e * sum_step];
            if (scaled) value *= p_.alpha;
            value += p_.beta * c[e * step];
            c[e * step] = value;
        }
    }

    static std::int64_t extent_of(const ArrayLabels& g, const Box& box) {
        std::int64_t n = 1;
        for (int i = 0; i < g.count; ++i) n *= box.extent[i];
        return n;
    }

    /// Calls visit(offset in C, offset in the compact block, count, step in C, step in the block) for rows along the
    /// index of C that steps least.
    template <class Visit>
    void rows_of_c(const Box& m, const Box& n, Visit&& visit) const {
        const auto rows = extent_of(m_, m), cols = extent_of(n_, n);
        const auto last = [](const ArrayLabels& g) {
            return g.count ? std::abs(g.label[g.count - 1].stride[2]) : INT64_MAX;
        };
        const bool by_n = last(n_) <= last(m_);
        const ArrayLabels &along = by_n ? n_ : m_, &across = by_n ? m_ : n_;
        const Box &along_box = by_n ? n : m, &across_box = by_n ? m : n;
        const Axes runs = axes_of(along, along_box, 2), others = axes_of(across, across_box, 2);
        const auto along_step = by_n ? std::int64_t{1} : cols, across_step = by_n ? cols : std::int64_t{1};
        const auto run = runs.count ? runs.axis[runs.count - 1].extent : 1;
        const auto step = runs.count ? runs.axis[runs.count - 1].stride : 1;
        const auto many = by_n ? rows : cols, pieces = (by_n ? cols : rows) / run;
        for (std::int64_t x = 0; x < many; ++x) {
            const auto at = others.offset(x);
            for (std::int64_t y = 0; y < pieces; ++y)
                visit(at + runs.offset(y * run), x * across_step + y * run * along_step, run, step, along_step);
        }
    }

    // Partial sums: a compact C for each segment, batch by batch, row-major in the order of m_ and n_.
    T* partial(int s) {
        return reinterpret_cast<T*>(partial_.data()) + s * m_.extent() * n_.extent() * batch_.extent();
    }
    static Axes compact_axes(const ArrayLabels& g, const Box& box, std::int64_t unit) {
        Axes axes;
        std::array<std::int64_t, kMaxRank> stride{};
        for (int i = g.count - 1; i >= 0; --i) {
            stride[i] = unit;
            unit *= g.label[i].extent;
        }
        for (int i = 0; i < g.count; ++i) {
            if (box.extent[i] == 1) continue;
            if (axes.count > 0 && axes.axis[axes.count - 1].stride == box.extent[i] * stride[i])
                axes.axis[axes.count - 1] = {axes.axis[axes.count - 1].extent * box.extent[i], stride[i]};
            else
                axes.push_back({box.extent[i], stride[i]});
        }
        return axes;
    }
    static std::int64_t position(const ArrayLabels& g, const Box& box) {
        std::int64_t at = 0;
        for (int i = 0; i < g.count; ++i) at = at * g.label[i].extent + box.begin[i];
        return at;
    }
    std::int64_t compact_offset(const Box& m, const Box& n, const Box& point) const {
        return (position(batch_, point) * m_.extent() + position(m_, m)) * n_.extent() + position(n_, n);
    }

    /// Joins the partial sums by the fixed tree, block of C by block.
    bool join() {
        std::atomic<bool> finite{true};
        const auto rows = m_.extent(), cols = n_.extent(), points = batch_.extent();
        constexpr std::int64_t kChunk = 4096;
        const auto total = points * rows * cols;
        const int used = total < 4 * kChunk ? 1 : threads_;
        parallel_for(ceil_div(total, kChunk), used, 1, [&](std::int64_t chunk) {
            const auto begin = chunk * kChunk, end = std::min(total, begin + kChunk);
            for (int span = 1; span < segments_.segments; span *= 2)
                for (int to = 0; to + span < segments_.segments; to += 2 * span) {
                    T* __restrict x = partial(to);
                    const T* __restrict y = partial(to + span);
                    for (auto e = begin; e < end; ++e) x[e] += y[e];
                }
        });
        const T* sum = partial(0);
        parallel_for(points, used, 1, [&](std::int64_t i) {
            Box point, m, n;
            auto rest = i;
            for (int j = batch_.count - 1; j >= 0; --j) {
                point.begin[j] = rest % batch_.label[j].extent;
                rest /= batch_.label[j].extent;
            }
            for (int j = 0; j < m_.count; ++j) m.extent[j] = m_.label[j].extent;
            for (int j = 0; j < n_.count; ++j) n.extent[j] = n_.label[j].extent;
            T* c = p_.c + offset_of(batch_, point, 2);
            rows_of_c(m, n,
                      [&](std::int64_t at, std::int64_t in_block, std::int64_t count, std::int64_t step,
                          std::int64_t block_step) {
                          put(sum + i * rows * cols + in_block, block_step, c + at, step, count);
                          if (!all_finite(c + at, count, step)) finite = false;
                      });
        });
        return finite;
    }

    const ArrayProduct<T>& p_;
    ArrayLabels m_, n_, k_, batch_;
    int threads_;
    KSegments segments_;
    std::vector<Box> boxes_;  // of k, by segment
    std::vector<std::size_t> first_box_;
    Cut cut_m_, cut_n_;
    Buffer partial_;
};

}  // namespace

template <Scalar T>
std::int64_t scratch_bytes(const ArrayProduct<T>& product, int threads) {
    return Product<T>(product, resolve_threads(threads)).scratch();
}

template <Scalar T>
bool multiply(const ArrayProduct<T>& product, int threads) {
    return Product<T>(product, resolve_threads(threads)).run();
}

#define TESSERA_INSTANTIATE(T)                                        \
    template std::int64_t scratch_bytes(const ArrayProduct<T>&, int); \
    template bool multiply(const ArrayProduct<T>&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
