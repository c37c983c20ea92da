#include "execute/cpu/array_product.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "base/parallel.hpp"
#include "kernels/gemm.hpp"
#include "storage/buffer.hpp"
#include "tessera/kernels/transpose.hpp"

namespace tessera {

namespace {

using kernels::Axes;
using kernels::MatrixLayout;

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

template <Scalar T>
bool is_finite(const T& x) {
    using R = RealOf<T>;
    if constexpr (is_complex<T>)
        return x.real() * R(0) == R(0) && x.imag() * R(0) == R(0);
    else
        return x * R(0) == R(0);
}

/// Pieces of k that are summed apart; 1 unless C is small beside A and B. The rule of product_shape.cpp.
int segments_of(double points, double rows, double cols, double depth, std::int64_t tiles) {
    constexpr int kMostSegments = 64;
    const double both = points * depth * (rows + cols), result = points * rows * cols;
    int segments = 1;
    if (both < 16 * result) return segments;
    while (segments < kMostSegments && 2.0 * segments <= both / (4 * result)) segments *= 2;
    return static_cast<int>(std::clamp<std::int64_t>(tiles, 1, segments));
}

template <Scalar T>
class Product {
  public:
    Product(const ArrayProduct<T>& p, int threads)
        : p_(p), m_(along_c(p.m)), n_(along_c(p.n)), k_(p.k), batch_(along_c(p.batch)) {
        cut_k_.size = p.k_tile;
        cut_k_.set(k_);
        const auto rows = m_.extent(), cols = n_.extent();
        segments_ = segments_of(static_cast<double>(batch_.extent()), static_cast<double>(rows),
                                static_cast<double>(cols), static_cast<double>(k_.extent()), cut_k_.total);
        dots_ = rows == 1 && cols == 1;
        // Waking a thread takes about as long as so many products.
        constexpr double kWake = 2e5;
        const double reads = static_cast<double>(batch_.extent()) * static_cast<double>(k_.extent() * (rows + cols)),
                     products = static_cast<double>(batch_.extent()) * static_cast<double>(rows * cols) *
                                static_cast<double>(std::max<std::int64_t>(1, k_.extent()));
        threads_ = products * (is_complex<T> ? 4 : 1) + 8 * reads < kWake ? 1 : threads;
        cut_c();
    }

    std::int64_t scratch() const {
        return static_cast<std::int64_t>(sizeof(T)) * (in_parts() ? segments_ * c_elements() : 0) +
               (in_block() ? threads_ * block_bytes() : 0);
    }

    bool run() {
        if (in_parts()) partial_ = Buffer(static_cast<std::int64_t>(sizeof(T)) * segments_ * c_elements());
        std::atomic<bool> finite{true};
        if (dots_) {
            const auto sums = batch_.extent() * segments_, groups = ceil_div(sums, kernels::kDots);
            parallel_for(groups, threads_, 1, [&](std::int64_t g) { add_dots(g, sums); });
        } else {
            const auto items = ceil_div(batch_.extent(), points_) * cut_m_.total * cut_n_.total * segments_;
            std::atomic<std::int64_t> next{0};
            parallel_region(static_cast<int>(std::min<std::int64_t>(threads_, items)), [&](int, int) {
                kernels::GemmWorkspace workspace;
                Buffer block(in_block() ? block_bytes() : 0);
                Work work;
                for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;)
                    if (!item(i, workspace, reinterpret_cast<T*>(block.data()), work)) finite = false;
            });
        }
        if (in_parts() && !join()) finite = false;
        return finite;
    }

  private:
    struct Work {
        std::vector<kernels::Chain<T>> chains;
        std::vector<kernels::ChainLink<T>> links;
        std::vector<std::pair<Box, std::array<MatrixLayout, 2>>> layouts;  // by the extents of the tile of k
        std::vector<std::size_t> layout_of;                                // by tile of the segment
    };

    bool in_parts() const { return segments_ > 1 || dots_; }
    bool in_block() const { return !in_parts() && (p_.alpha != T(1) || p_.beta != T(0)); }
    std::int64_t c_elements() const { return m_.extent() * n_.extent() * batch_.extent(); }
    std::int64_t block_bytes() const {
        return static_cast<std::int64_t>(sizeof(T)) * cut_m_.largest * cut_n_.largest * points_;
    }
    /// The first tile of k in a segment.
    std::int64_t first_tile(std::int64_t s) const { return ceil_div(s * cut_k_.total, segments_); }

    void cut_c() {
        constexpr std::int64_t kSide = 512, kBlock = 131072, kLeastSide = 48, kLongest = 4096;
        constexpr std::int64_t kItem = 1 << 18;  // products, that are worth taking one by one
        const auto m = m_.extent(), n = n_.extent(), points = batch_.extent();
        std::int64_t rows = std::min(m, kSide), cols = std::min(n, kSide);
        if (cols < kSide) rows = std::min({m, kLongest, std::max(rows, kBlock / cols)});
        if (rows < kSide) cols = std::min({n, kLongest, std::max(cols, kBlock / rows)});
        const auto one = std::max<std::int64_t>(1, rows * cols * (k_.extent() / segments_));
        points_ = std::clamp<std::int64_t>(kItem / one, 1, ceil_div(points, 4 * threads_));
        for (;;) {
            cut_m_ = cut(m_, 0, rows);
            cut_n_ = cut(n_, 1, cols);
            if (threads_ == 1 || ceil_div(points, points_) * cut_m_.total * cut_n_.total * segments_ >= 3 * threads_)
                return;
            auto& larger = rows >= cols ? rows : cols;
            if (larger <= kLeastSide) return;
            larger = std::max(kLeastSide, larger / 2);
        }
    }

    Box point(std::int64_t i) const {
        Box out;
        for (int j = batch_.count - 1; j >= 0; --j) {
            out.begin[j] = i % batch_.label[j].extent;
            out.extent[j] = 1;
            i /= batch_.label[j].extent;
        }
        return out;
    }

    bool item(std::int64_t i, kernels::GemmWorkspace& workspace, T* block, Work& w) {
        const auto s = i % segments_;
        i /= segments_;
        const Box n = cut_n_.box(n_, i % cut_n_.total);
        i /= cut_n_.total;
        const Box m = cut_m_.box(m_, i % cut_m_.total);
        i /= cut_m_.total;
        const auto first_point = i * points_, end_point = std::min(batch_.extent(), first_point + points_);
        const auto rows = extent_of(m_, m), cols = extent_of(n_, n);

        MatrixLayout own{axes_of(m_, m, 2), axes_of(n_, n, 2)};
        if (segments_ > 1) {  // its place in the segment's own C
            own = {compact_axes(m_, m, n_.extent()), compact_axes(n_, n, 1)};
        } else if (block) {
            own = {{}, {}};
            own.rows.push_back({rows, cols});
            own.cols.push_back({cols, 1});
        }
        const auto first = first_tile(s), tiles = first_tile(s + 1) - first;
        find_layouts(m, n, first, tiles, w);
        w.links.clear();
        w.chains.clear();
        w.links.reserve(static_cast<std::size_t>(tiles * (end_point - first_point)));  // chains point into it
        bool not_finite = false;
        for (auto at = first_point; at < end_point; ++at) {
            const Box where = point(at);
            const T* a = p_.a + offset_of(m_, m, 0) + offset_of(batch_, where, 0);
            const T* b = p_.b + offset_of(n_, n, 1) + offset_of(batch_, where, 1);
            T* c = segments_ > 1 ? partial(s) + compact_offset(m, n, where)
                   : block       ? block + (at - first_point) * rows * cols
                                 : p_.c + offset_of(m_, m, 2) + offset_of(n_, n, 2) + offset_of(batch_, where, 2);
            const auto links = w.links.size();
            for (std::int64_t t = 0; t < tiles; ++t) {
                const Box tile = cut_k_.box(k_, first + t);
                const auto& layouts = w.layouts[w.layout_of[static_cast<std::size_t>(t)]].second;
                w.links.push_back({a + offset_of(k_, tile, 0), b + offset_of(k_, tile, 1), &layouts[0], &layouts[1]});
            }
            w.chains.push_back({c,
                                &own,
                                {w.links.data() + links, static_cast<std::size_t>(tiles)},
                                true,
                                in_parts() || block ? nullptr : &not_finite});
        }
        kernels::multiply_chains<T>(w.chains, {p_.conjugate_a, p_.conjugate_b}, workspace);
        if (!block || in_parts()) return !not_finite;
        bool finite = true;
        for (auto at = first_point; at < end_point; ++at)
            if (!put_block(m, n, point(at), block + (at - first_point) * rows * cols)) finite = false;
        return finite;
    }

    /// Tiles of k of the same extents share their layouts.
    void find_layouts(const Box& m, const Box& n, std::int64_t first, std::int64_t tiles, Work& w) const {
        const Axes rows = axes_of(m_, m, 0), cols = axes_of(n_, n, 1);
        w.layouts.clear();
        w.layouts.reserve(std::size_t{1} << std::min(k_.count, 10));
        w.layout_of.clear();
        for (std::int64_t t = 0; t < tiles; ++t) {
            const Box tile = cut_k_.box(k_, first + t);
            std::size_t at = 0;
            while (at < w.layouts.size() && w.layouts[at].first.extent != tile.extent) ++at;
            if (at == w.layouts.size())
                w.layouts.push_back({tile, {MatrixLayout{rows, axes_of(k_, tile, 0)}, {axes_of(k_, tile, 1), cols}}});
            w.layout_of.push_back(at);
        }
    }

    /// Single elements: several sums at a time, each in its own order.
    void add_dots(std::int64_t group, std::int64_t all) {
        constexpr int kDots = kernels::kDots;
        T sums[kDots] = {};
        const T *a[kDots], *b[kDots];
        std::int64_t first[kDots], tiles[kDots], most = 0;
        const auto begin = group * kDots;
        const int used = static_cast<int>(std::min<std::int64_t>(kDots, all - begin));
        for (int d = 0; d < kDots; ++d) {
            const auto sum = std::min(begin + d, all - 1);  // the last one again
            const Box where = point(sum / segments_);
            a[d] = p_.a + offset_of(batch_, where, 0);
            b[d] = p_.b + offset_of(batch_, where, 1);
            first[d] = first_tile(sum % segments_);
            tiles[d] = first_tile(sum % segments_ + 1) - first[d];
            most = std::max(most, tiles[d]);
        }
        for (std::int64_t t = 0; t < most; ++t) {
            Box tile[kDots];
            bool alike = true;
            for (int d = 0; d < kDots; ++d) {
                if (t < tiles[d]) tile[d] = cut_k_.box(k_, first[d] + t);
                alike = alike && t < tiles[d] && tile[d].extent == tile[0].extent;
            }
            if (alike) {
                add_tiles(tile, a, b, sums);
                continue;
            }
            for (int d = 0; d < kDots; ++d) {
                if (t >= tiles[d]) continue;
                T alone[kDots] = {sums[d], sums[d], sums[d], sums[d]};
                const Box same[kDots] = {tile[d], tile[d], tile[d], tile[d]};
                const T *x[kDots] = {a[d], a[d], a[d], a[d]}, *y[kDots] = {b[d], b[d], b[d], b[d]};
                add_tiles(same, x, y, alone);
                sums[d] = alone[0];
            }
        }
        for (int d = 0; d < used; ++d) partial((begin + d) % segments_)[(begin + d) / segments_] = sums[d];
    }

    void add_tiles(const Box (&tile)[kernels::kDots], const T* const (&a)[kernels::kDots],
                   const T* const (&b)[kernels::kDots], T (&sums)[kernels::kDots]) const {
        // Axes that both arrays walk as one are one.
        std::array<std::array<std::int64_t, 3>, kMaxRank> axis;
        int count = 0;
        for (int i = 0; i < k_.count; ++i) {
            const auto extent = tile[0].extent[i];
            const auto sa = k_.label[i].stride[0], sb = k_.label[i].stride[1];
            if (extent == 1) continue;
            if (count > 0 && axis[count - 1][1] == extent * sa && axis[count - 1][2] == extent * sb)
                axis[count - 1] = {axis[count - 1][0] * extent, sa, sb};
            else
                axis[count++] = {extent, sa, sb};
        }
        const auto inner = count > 0 ? axis[count - 1] : std::array<std::int64_t, 3>{1, 0, 0};
        std::int64_t outer = 1;
        for (int i = 0; i + 1 < count; ++i) outer *= axis[i][0];
        const T *x[kernels::kDots], *y[kernels::kDots];
        for (std::int64_t o = 0; o < outer; ++o) {
            std::int64_t at_a = 0, at_b = 0, rest = o;
            for (int i = count - 2; i >= 0; --i) {
                at_a += rest % axis[i][0] * axis[i][1];
                at_b += rest % axis[i][0] * axis[i][2];
                rest /= axis[i][0];
            }
            for (int d = 0; d < kernels::kDots; ++d) {
                x[d] = a[d] + offset_of(k_, tile[d], 0) + at_a;
                y[d] = b[d] + offset_of(k_, tile[d], 1) + at_b;
            }
            kernels::add_dots<T>(x, y, inner[0], inner[1], inner[2], {p_.conjugate_a, p_.conjugate_b}, sums);
        }
    }

    /// C = alpha sum + beta C, for one row. False: it holds NaN or infinity.
    bool put(const T* sum, std::int64_t sum_step, T* c, std::int64_t step, std::int64_t count) const {
        const bool scaled = p_.alpha != T(1), adds = p_.beta != T(0);
        bool finite = true;
        for (std::int64_t e = 0; e < count; ++e) {
            T value = sum[e * sum_step];
            if (scaled) value *= p_.alpha;
            if (adds) value += p_.beta * c[e * step];
            c[e * step] = value;
            finite &= is_finite(value);
        }
        return finite;
    }

    /// Writes compact sums of a block of C to their place.
    bool put_block(const Box& m, const Box& n, const Box& where, const T* sums) const {
        T* c = p_.c + offset_of(m_, m, 2) + offset_of(n_, n, 2) + offset_of(batch_, where, 2);
        bool finite = true;
        rows_of_c(m, n,
                  [&](std::int64_t at, std::int64_t in_block, std::int64_t count, std::int64_t step,
                      std::int64_t block_step) {
                      if (!put(sums + in_block, block_step, c + at, step, count)) finite = false;
                  });
        return finite;
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
    T* partial(std::int64_t s) {
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
        const auto total = c_elements(), each = m_.extent() * n_.extent();
        constexpr std::int64_t kChunk = 4096;
        const int used = total < 4 * kChunk ? 1 : threads_;
        parallel_for(ceil_div(total, kChunk), used, 1, [&](std::int64_t chunk) {
            const auto begin = chunk * kChunk, end = std::min(total, begin + kChunk);
            for (int span = 1; span < segments_; span *= 2)
                for (int to = 0; to + span < segments_; to += 2 * span) {
                    T* __restrict x = partial(to);
                    const T* __restrict y = partial(to + span);
                    for (auto e = begin; e < end; ++e) x[e] += y[e];
                }
        });
        Box m, n;
        for (int j = 0; j < m_.count; ++j) m.extent[j] = m_.label[j].extent;
        for (int j = 0; j < n_.count; ++j) n.extent[j] = n_.label[j].extent;
        parallel_for(batch_.extent(), used, std::max<std::int64_t>(1, kChunk / each), [&](std::int64_t i) {
            if (!put_block(m, n, point(i), partial(0) + i * each)) finite = false;
        });
        return finite;
    }

    const ArrayProduct<T>& p_;
    ArrayLabels m_, n_, k_, batch_;
    int threads_ = 1;
    std::int64_t segments_ = 1;  // of k
    std::int64_t points_ = 1;    // of the batch in an item
    bool dots_ = false;          // C is a single element for each point
    Cut cut_m_, cut_n_, cut_k_;
    Buffer partial_;
};

/// Arrays whose neighbours in memory belong to other points of the batch are put in order first: that reads and writes
/// them once along memory, instead of a line for each element.
template <Scalar T>
class InOrder {
  public:
    explicit InOrder(const ArrayProduct<T>& p) : given_(p), ordered_(p) {
        ArrayLabels* const groups[3][3] = {{&ordered_.batch, &ordered_.m, &ordered_.k},
                                           {&ordered_.batch, &ordered_.k, &ordered_.n},
                                           {&ordered_.batch, &ordered_.m, &ordered_.n}};
        for (int o = 0; o < 3; ++o) {
            if (!is_mixed(p, o) || (o == 2 && (p.alpha != T(1) || p.beta != T(0)))) continue;
            Copy& copy = copies_[o];
            for (const auto* group : groups[o])
                for (int i = 0; i < group->count; ++i) {
                    copy.extents.push_back(group->label[i].extent);
                    copy.strides.push_back(group->label[i].stride[o]);
                }
            const auto packed = row_major_strides(copy.extents);
            int at = 0;
            for (auto* group : groups[o])
                for (int i = 0; i < group->count; ++i) group->label[i].stride[o] = packed[at++];
            copy.bytes = static_cast<std::int64_t>(sizeof(T)) * copy.extents.product();
        }
    }
    std::int64_t bytes() const { return copies_[0].bytes + copies_[1].bytes + copies_[2].bytes; }
    const ArrayProduct<T>& product() const { return ordered_; }

    /// Makes the copies of A and B, and room for C.
    void fill(int threads) {
        for (int o = 0; o < 3; ++o) {
            Copy& copy = copies_[o];
            if (copy.bytes == 0) continue;
            copy.memory = Buffer(copy.bytes, nullptr, "array in order");
            T* const to = reinterpret_cast<T*>(copy.memory.data());
            if (o < 2) copy_all(copy, o == 0 ? given_.a : given_.b, to, span_of(copy.strides), {}, threads);
            if (o == 0) ordered_.a = to;
            if (o == 1) ordered_.b = to;
            if (o == 2) ordered_.c = to;
        }
    }
    /// Takes the result to its place.
    void give_back(int threads) const {
        if (copies_[2].bytes > 0) copy_all(copies_[2], ordered_.c, given_.c, {}, span_of(copies_[2].strides), threads);
    }

  private:
    struct Copy {
        IndexVector extents, strides;
        std::int64_t bytes = 0;  // 0: the array is taken as it lies
        Buffer memory;
    };

    static std::span<const std::int64_t> span_of(const IndexVector& v) {
        return {v.begin(), static_cast<std::size_t>(v.size())};
    }
    static bool is_mixed(const ArrayProduct<T>& p, int o) {
        constexpr std::int64_t kLeast = 4;  // points beside each other that are worth it
        std::int64_t step_batch = INT64_MAX, step_others = INT64_MAX, beside = 1;
        for (const auto* group : {&p.batch, &p.m, &p.n, &p.k})
            for (int i = 0; i < group->count; ++i) {
                const auto& label = group->label[i];
                if (label.extent == 1 || (group == (o == 0 ? &p.n : o == 1 ? &p.m : &p.k))) continue;
                if (label.stride[o] <= 0) return false;  // repeated or walked backwards: as it lies
                if (group == &p.batch && label.stride[o] < step_batch) {
                    step_batch = label.stride[o];
                    beside = label.extent;
                }
                if (group != &p.batch) step_others = std::min(step_others, label.stride[o]);
            }
        return step_batch < step_others && step_others != INT64_MAX && beside >= kLeast;
    }
    static void copy_all(const Copy& copy, const T* from, T* to, std::span<const std::int64_t> from_strides,
                         std::span<const std::int64_t> to_strides, int threads) {
        std::array<int, kMaxRank> same;
        std::iota(same.begin(), same.end(), 0);
        const auto plan =
            kernels::plan_transpose(span_of(copy.extents), {same.data(), static_cast<std::size_t>(copy.extents.size())},
                                    static_cast<int>(sizeof(T)), from_strides, to_strides);
        kernels::TransposeArguments<T> arguments;
        arguments.threads = threads;
        kernels::transpose<T>(plan, from, to, arguments);
    }

    const ArrayProduct<T>& given_;
    ArrayProduct<T> ordered_;
    std::array<Copy, 3> copies_;
};

}  // namespace

template <Scalar T>
std::int64_t scratch_bytes(const ArrayProduct<T>& product, int threads) {
    const InOrder<T> in_order(product);
    return in_order.bytes() + Product<T>(in_order.product(), resolve_threads(threads)).scratch();
}

template <Scalar T>
bool multiply(const ArrayProduct<T>& product, int threads) {
    const int used = resolve_threads(threads);
    InOrder<T> in_order(product);
    in_order.fill(used);
    const bool finite = Product<T>(in_order.product(), used).run();
    in_order.give_back(used);
    return finite;
}

#define TESSERA_INSTANTIATE(T)                                        \
    template std::int64_t scratch_bytes(const ArrayProduct<T>&, int); \
    template bool multiply(const ArrayProduct<T>&, int);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
TESSERA_INSTANTIATE(std::complex<float>)
TESSERA_INSTANTIATE(std::complex<double>)

}  // namespace tessera
