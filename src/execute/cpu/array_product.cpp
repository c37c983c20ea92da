#include "execute/cpu/array_product.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <vector>

#include "base/parallel.hpp"
#include "execute/cpu/array_cut.hpp"
#include "execute/cpu/array_dots.hpp"
#include "execute/cpu/array_in_order.hpp"
#include "kernels/gemm.hpp"
#include "storage/buffer.hpp"

namespace tessera {

namespace {

using namespace arrays;
using kernels::Axes;
using kernels::MatrixLayout;

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
            // Each thread has a part of C, and helps the others when it is done: two that work on blocks beside each
            // other at the same time write to the same lines of memory.
            const auto items = ceil_div(batch_.extent(), points_) * cut_m_.total * cut_n_.total * segments_;
            const auto parts = std::min<std::int64_t>(threads_, items);
            std::vector<std::atomic<std::int64_t>> taken(static_cast<std::size_t>(parts));
            parallel_region(static_cast<int>(parts), [&](int thread, int) {
                kernels::GemmWorkspace workspace;
                Buffer block(in_block() ? block_bytes() : 0);
                Work work;
                for (std::int64_t p = 0; p < parts; ++p) {
                    const auto part = (thread + p) % parts, begin = items * part / parts,
                               count = items * (part + 1) / parts - begin;
                    auto& next = taken[static_cast<std::size_t>(part)];
                    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
                        if (!item(begin + i, workspace, reinterpret_cast<T*>(block.data()), work)) finite = false;
                }
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

    /// Single elements: several sums at a time.
    void add_dots(std::int64_t group, std::int64_t all) {
        constexpr int kDots = kernels::kDots;
        T sums[kDots] = {};
        std::array<DotWalk<T>, kDots> walks;
        const auto begin = group * kDots;
        const int used = static_cast<int>(std::min<std::int64_t>(kDots, all - begin));
        for (int d = 0; d < used; ++d) {
            const auto s = (begin + d) % segments_;
            const Box where = point((begin + d) / segments_);
            walks[static_cast<std::size_t>(d)] =
                DotWalk<T>(k_, cut_k_, p_.a + offset_of(batch_, where, 0), p_.b + offset_of(batch_, where, 1),
                           first_tile(s), first_tile(s + 1));
        }
        add_walks<T>(walks, {p_.conjugate_a, p_.conjugate_b}, sums);
        for (int d = 0; d < used; ++d) partial((begin + d) % segments_)[(begin + d) / segments_] = sums[d];
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
