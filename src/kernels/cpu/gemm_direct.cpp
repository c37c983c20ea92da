// Small tiles: the register kernels read A and B where they lie and walk the whole chain with the sums in registers.

#include <algorithm>

#include "kernels/cpu/gemm_driver.hpp"

namespace tessera::kernels::cpu {

namespace {

constexpr std::int64_t kDirectBytes = 96 << 10;  // of B: beyond, packing pays
constexpr std::int64_t kAheadBytes = 24 << 10;   // tiles up to this are fetched whole
constexpr std::int64_t kAheadSpan = 8 << 10;     // this far ahead, a few links when tiles are small

template <class R>
bool reads_in_place(const RealChain<R>& chain, std::int64_t max_rows) {
    if (!is_unit(*chain.c_n) || !is_plain(*chain.c_m)) return false;
    const RealLink<R>* before = nullptr;  // most links have the layouts of the one before
    for (const RealLink<R>& link : chain.links) {
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

}  // namespace

template <class R>
bool multiply_direct(const KernelTable<R>& table, const RealChain<R>& chain, const RealChain<R>* next,
                     std::vector<Segment<R>>& segments) {
    if (!reads_in_place(chain, table.max_rows[1])) return false;
    const std::int64_t vectors = ceil_div(chain.n, table.lanes);
    const std::int64_t widest = vectors == 3 || vectors > 4 ? 3 : 2;
    const EvenSplit panels(vectors, ceil_div(vectors, widest));
    const std::int64_t tallest = table.max_rows[std::min(widest, vectors) - 1];
    const EvenSplit strips(chain.m, ceil_div(chain.m, tallest));
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
        call.lookahead = ahead;
        for (std::int64_t v = 0; v < panels.parts; ++v) {
            const std::int64_t j = panels.begin(v) * table.lanes;
            const std::int64_t cols = std::min(panels.size(v) * table.lanes, chain.n - j);
            call.last_lanes = static_cast<int>(cols - (panels.size(v) - 1) * table.lanes);
            const auto& kernels = table.micro[call.last_lanes < table.lanes][panels.size(v) - 1];
            for (std::int64_t t = 0; t < strips.parts; ++t) {
                const std::int64_t i = strips.begin(t);
                for (std::int64_t s = 0; s < count; ++s) {
                    const RealLink<R>& link = chain.links[first + s];
                    const std::int64_t a_row = plain_stride(*link.a_m);
                    segments[s] = {link.a + i * a_row,     link.b + j, link.k, a_row, plain_stride(*link.a_k),
                                   plain_stride(*link.b_k)};
                }
                call.c = chain.c + i * c_row + j;
                kernels[strips.size(t) - 1](call);
                call.lookahead = nullptr;
            }
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
