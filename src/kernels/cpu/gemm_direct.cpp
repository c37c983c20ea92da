// Small tiles: the register kernels read A and B where they lie and walk the whole chain with the sums in registers.

#include <algorithm>

#include "kernels/cpu/gemm_driver.hpp"

namespace tessera::kernels::cpu {

namespace {

constexpr std::int64_t kDirectBytes = 96 << 10;  // of B: beyond, packing pays
constexpr std::int64_t kLargeBytes = 256 << 10;  // of C: beyond, it leaves the caches before they are done
constexpr std::int64_t kAheadBytes = 24 << 10;   // tiles up to this are fetched whole
constexpr std::int64_t kAheadSpan = 8 << 10;     // this far ahead, a few links when tiles are small

template <class R>
bool reads_in_place(const RealChain<R>& chain, std::int64_t max_rows) {
    if (!is_unit(*chain.c_n) || !is_plain(*chain.c_m)) return false;
    const RealLink<R>* before = nullptr;  // most links have the layouts of the one before
    for (const RealLink<R>& link : chain.links) {
        if (link.factor != 1) return false;
        if (before && link.a_m == before->a_m && link.a_k == before->a_k && link.b_k == before->b_k &&
            link.b_n == before->b_n)
            continue;
        before = &link;
        if (!is_unit(*link.b_n) || !is_plain(*link.b_k) || !is_plain(*link.a_m) || !is_plain(*link.a_k)) return false;
        // Few rows: B is read once or twice, so packing it cannot pay.
        if (link.k * chain.n * static_cast<std::int64_t>(sizeof(R)) > kDirectBytes && chain.m > max_rows) return false;
    }
    return true;
}

/// The lines that dense tiles cover, which most often have the layout of the one before.
template <class R>
class Lines {
  public:
    /// None when the tile is large or full of holes.
    Lookahead of(const R* base, const Axes& rows, const Axes& cols) {
        if (&rows != rows_ || &cols != cols_) {
            rows_ = &rows;
            cols_ = &cols;
            bytes_ = bytes_of(rows, cols);
        }
        if (bytes_ == 0) return {nullptr, 0};
        const auto address = reinterpret_cast<std::uintptr_t>(base);
        const std::uintptr_t first = address / 64 * 64;
        return {reinterpret_cast<const char*>(first),
                ceil_div(static_cast<std::int64_t>(address - first) + bytes_, 64)};
    }

  private:
    static std::int64_t bytes_of(const Axes& rows, const Axes& cols) {
        const std::int64_t m = rows.extent(), n = cols.extent();
        const std::int64_t bytes = m * n * static_cast<std::int64_t>(sizeof(R));
        if (bytes > kAheadBytes || !is_plain(rows) || !is_plain(cols)) return 0;
        return (m - 1) * plain_stride(rows) + (n - 1) * plain_stride(cols) + 1 > m * n ? 0 : bytes;
    }

    const Axes *rows_ = nullptr, *cols_ = nullptr;
    std::int64_t bytes_ = 0;
};

/// C in vectors of columns and strips of rows, for the register kernels.
struct Blocks {
    EvenSplit panels, strips;
};
template <class R>
Blocks blocks_of(const KernelTable<R>& table, std::int64_t m, std::int64_t n) {
    const auto pieces = [](std::int64_t total, std::int64_t most) { return total <= most ? 1 : ceil_div(total, most); };
    const std::int64_t vectors = pieces(n, table.lanes);
    const std::int64_t widest = vectors == 3 || vectors > 4 ? 3 : 2;
    const std::int64_t tallest = table.max_rows[std::min(widest, vectors) - 1];
    return {EvenSplit(vectors, pieces(vectors, widest)), EvenSplit(m, pieces(m, tallest))};
}

}  // namespace

template <class R>
void SmallProduct<R>::look_at(const MatrixLayout& c) {
    c_.layout = &c;
    c_.transposed = !is_unit(c.cols) && is_unit(c.rows);
    const Axes &rows = c_.transposed ? c.cols : c.rows, &cols = c_.transposed ? c.rows : c.cols;
    c_.fits = is_unit(cols) && is_plain(rows);
    c_.m = rows.extent();
    c_.n = cols.extent();
    c_.row = plain_stride(rows);
    const auto blocks = blocks_of(table_, std::max<std::int64_t>(c_.m, 1), std::max<std::int64_t>(c_.n, 1));
    c_.panels = blocks.panels;
    c_.strips = blocks.strips;
    link_.a = nullptr;  // whether its links fit depends on C
}

template <class R>
void SmallProduct<R>::look_at(const ChainLink<R>& link) {
    link_.a = link.a_layout;
    link_.b = link.b_layout;
    const Axes& a_m = c_.transposed ? link.b_layout->cols : link.a_layout->rows;
    const Axes& a_k = c_.transposed ? link.b_layout->rows : link.a_layout->cols;
    const Axes& b_k = c_.transposed ? link.a_layout->cols : link.b_layout->rows;
    const Axes& b_n = c_.transposed ? link.a_layout->rows : link.b_layout->cols;
    link_.k = a_k.extent();
    link_.fits = is_plain(a_m) && is_plain(a_k) && is_plain(b_k) && is_unit(b_n) &&
                 (c_.m <= table_.max_rows[1] || link_.k * c_.n * static_cast<std::int64_t>(sizeof(R)) <= kDirectBytes);
    link_.a_row = plain_stride(a_m);
    link_.a_k = plain_stride(a_k);
    link_.b_k = plain_stride(b_k);
}

template <class R>
bool SmallProduct<R>::multiply(const Chain<R>& chain) {
    if (chain.c_layout != c_.layout) look_at(*chain.c_layout);
    if (!c_.fits) return false;
    segments_.clear();
    for (const ChainLink<R>& link : chain.links) {
        if (link.a_layout != link_.a || link.b_layout != link_.b) look_at(link);
        if (!link_.fits || link.factor != 1) return false;
        if (link_.k == 0) continue;
        const R *a = c_.transposed ? link.b : link.a, *b = c_.transposed ? link.a : link.b;
        segments_.push_back({a, b, link_.k, link_.a_row, link_.a_k, link_.b_k});
    }
    if (c_.m == 0 || c_.n == 0 || (segments_.empty() && !chain.overwrite)) return true;
    MicroCall<R> call{};
    call.segments = segments_.data();
    call.segment_count = static_cast<std::int64_t>(segments_.size());
    call.c_row = c_.row;
    call.overwrite = chain.overwrite;
    call.fetch[0] = call.fetch[1] = reinterpret_cast<const char*>(chain.c);
    const auto move = [&](std::int64_t rows, std::int64_t cols) {
        for (Segment<R>& s : segments_) {
            s.a += rows * s.a_row;
            s.b += cols;
        }
    };
    for (std::int64_t v = 0; v < c_.panels.parts; ++v) {
        const std::int64_t j = c_.panels.begin(v) * table_.lanes;
        const std::int64_t width = c_.panels.size(v), cols = std::min(width * table_.lanes, c_.n - j);
        call.last_lanes = static_cast<int>(cols - (width - 1) * table_.lanes);
        const auto& kernels = table_.micro[call.last_lanes < table_.lanes][width - 1];
        for (std::int64_t t = 0; t < c_.strips.parts; ++t) {
            const std::int64_t rows = c_.strips.size(t);
            call.c = chain.c + c_.strips.begin(t) * c_.row + j;
            kernels[rows - 1](call);
            if (t + 1 < c_.strips.parts) move(rows, 0);
        }
        if (v + 1 < c_.panels.parts) move(-c_.strips.begin(c_.strips.parts - 1), cols);
    }
    return true;
}

template class SmallProduct<float>;
template class SmallProduct<double>;

template <class R>
bool multiply_direct(const KernelTable<R>& table, const RealChain<R>& chain, const RealChain<R>* next,
                     std::vector<Segment<R>>& segments) {
    if (!reads_in_place(chain, table.max_rows[1])) return false;
    const auto [panels, strips] = blocks_of(table, chain.m, chain.n);
    const std::int64_t c_row = plain_stride(*chain.c_m);

    constexpr std::int64_t kGroup = 32;  // links of one pass
    Lookahead ahead[2 * kGroup];
    const std::int64_t link_bytes =
        chain.links.empty() ? 1 : (chain.m + chain.n) * chain.links[0].k * static_cast<std::int64_t>(sizeof(R));
    const std::int64_t distance = std::clamp<std::int64_t>(kAheadSpan / link_bytes, 1, 4);
    const std::int64_t links = static_cast<std::int64_t>(chain.links.size());
    segments.resize(static_cast<std::size_t>(std::min(links, kGroup)));
    if (next) {
        const Lookahead c = Lines<R>().of(next->c, *next->c_m, *next->c_n);
        for (std::int64_t line = 0; line < c.lines; ++line) __builtin_prefetch(c.first + 64 * line, 1, 3);
    }
    MicroCall<R> call{};
    call.segments = segments.data();
    call.c_row = c_row;
    call.overwrite = chain.overwrite;
    call.fetch[0] = call.fetch[1] = reinterpret_cast<const char*>(chain.c);
    std::int64_t first = 0;
    Lines<R> lines_a, lines_b;
    do {
        const std::int64_t count = std::min(links - first, kGroup);
        for (std::int64_t s = 0; s < count; ++s) {
            const std::int64_t at = first + s + distance;
            const RealLink<R>* soon = at < links ? &chain.links[at]
                                      : next && at - links < static_cast<std::int64_t>(next->links.size())
                                          ? &next->links[at - links]
                                          : nullptr;
            ahead[2 * s] = soon ? lines_a.of(soon->a, *soon->a_m, *soon->a_k) : Lookahead{nullptr, 0};
            ahead[2 * s + 1] = soon ? lines_b.of(soon->b, *soon->b_k, *soon->b_n) : Lookahead{nullptr, 0};
        }
        call.segment_count = count;
        call.not_finite = first + count >= links ? chain.not_finite : nullptr;
        call.lookahead = ahead;
        const auto tile = [&](std::int64_t v, std::int64_t t, std::int64_t side_by_side = 1) {
            call.panels = side_by_side;
            const std::int64_t j = panels.begin(v) * table.lanes, i = strips.begin(t);
            const std::int64_t cols = std::min(panels.size(v) * table.lanes, chain.n - j);
            call.last_lanes = static_cast<int>(cols - (panels.size(v) - 1) * table.lanes);
            for (std::int64_t s = 0; s < count; ++s) {
                const RealLink<R>& link = chain.links[first + s];
                const std::int64_t a_row = plain_stride(*link.a_m);
                segments[s] = {link.a + i * a_row,     link.b + j, link.k, a_row, plain_stride(*link.a_k),
                               plain_stride(*link.b_k)};
            }
            call.c = chain.c + i * c_row + j;
            table.micro[call.last_lanes < table.lanes][panels.size(v) - 1][strips.size(t) - 1](call);
            call.lookahead = nullptr;
        };
        // A large C is written along its rows, panels of whole vectors in one go; else a panel of B stays near.
        if (chain.m * chain.n * static_cast<std::int64_t>(sizeof(R)) > kLargeBytes) {
            const std::int64_t whole = chain.n % table.lanes == 0 ? panels.parts : panels.parts - 1;
            for (std::int64_t t = 0; t < strips.parts; ++t)
                for (std::int64_t v = 0, end; v < panels.parts; v = end) {
                    end = v + 1;
                    while (end < whole && panels.size(end) == panels.size(v)) ++end;
                    tile(v, t, end - v);
                }
        } else {
            for (std::int64_t v = 0; v < panels.parts; ++v)
                for (std::int64_t t = 0; t < strips.parts; ++t) tile(v, t);
        }
        call.overwrite = false;
        first += count;
    } while (first < links);
    return true;
}

template bool multiply_direct(const KernelTable<float>&, const RealChain<float>&, const RealChain<float>*,
                              std::vector<Segment<float>>&);
template bool multiply_direct(const KernelTable<double>&, const RealChain<double>&, const RealChain<double>*,
                              std::vector<Segment<double>>&);

}  // namespace tessera::kernels::cpu
