// The blocked tile product. B is packed into panels of a few vectors of columns, a block of which stays in the
// second-level cache; strips of A of a few rows, as they lie or packed just before use, stay in the first-level cache
// while they sweep the panels. Packing reads the tile through its axes, so no layout needs a transpose beforehand
// (the idea of TBLIS, Matthews 2018). Meanwhile the next strip and the next block of B are fetched from memory.

#include <algorithm>

#include "kernels/cpu/gemm_driver.hpp"

namespace tessera::kernels::cpu {

namespace {

constexpr std::int64_t kSweepRows = 16384;  // swept with one packing of B; bounds the list of strips
constexpr std::int64_t kPackGroup = 16;     // rows of B packed at a time, so that both sides stay near

// Runs of consecutive positions clipped to [begin, end): calls body(position, count, offset, stride).
template <class Body>
void clip(const std::vector<Run>& runs, std::int64_t begin, std::int64_t end, Body&& body) {
    for (const Run& run : runs) {
        const std::int64_t from = std::max(run.first, begin), to = std::min(run.first + run.count, end);
        if (run.first >= end) break;
        if (from < to) body(from, to - from, run.offset + (from - run.first) * run.stride, run.stride);
    }
}

// Runs for packing along k: where neither they nor the other dimension would walk memory element by element, those
// along a slower axis that does.
void find_packing_runs(const Axes& k, const Axes& other, std::int64_t begin, std::int64_t end, std::vector<Run>& runs) {
    const int unit = inner_stride(other) == 1 ? -1 : buried_unit(k);
    if (unit < 0)
        find_runs(k, begin, end, runs);
    else
        find_unit_runs(k, unit, begin, end, runs);
}

// The memory of positions [begin, end) of k, for a tile without holes; nothing where that is many small pieces.
template <class R>
void fetch_slice(Fetch& fetch, const R* tile, const Axes& k, const Axes& other, std::int64_t unit, std::int64_t begin,
                 std::int64_t end) {
    constexpr std::int64_t kLeastBytes = 1024;
    const std::int64_t size = static_cast<std::int64_t>(sizeof(R)) * unit, total = k.extent() * other.extent();
    std::int64_t span = 1;
    for (const Axes* axes : {&k, &other})
        for (int i = 0; i < axes->count; ++i) span += (axes->axis[i].extent - 1) * axes->axis[i].stride;
    fetch.clear();
    if (span != total) return;
    const Axis slowest = k.count > 0 ? k.axis[0] : Axis{1, total};
    const std::int64_t step = k.extent() / slowest.extent;  // positions
    const std::int64_t from = begin / step, to = ceil_div(end, step);
    if ((to - from) * slowest.stride * size >= kLeastBytes)
        fetch.set(tile + from * slowest.stride * unit, ceil_div((to - from) * slowest.stride * size, 64), 64,
                  slowest.extent * slowest.stride * size, total / (slowest.extent * slowest.stride));
    else if (begin == 0)
        fetch.set(tile, ceil_div(total * size, 64), 64, 0, 1);
}

}  // namespace

std::int64_t panel_bytes() {
    static const std::int64_t bytes = std::clamp(cache_sizes().l2 / 4 * 3, kPanelBytes / 8, kPanelBytes);
    return bytes;
}

// Blocks of at most kDepthBytes of k: long links evenly cut, short ones joined.
template <class R>
void PackedProduct<R>::cut_depth(const RealChain<R>& chain) {
    constexpr std::int64_t most = kDepthBytes / static_cast<std::int64_t>(sizeof(R));
    pieces_.clear();
    piece_runs_.clear();
    blocks_.clear();
    const auto add = [&](const RealLink<R>& link, std::int64_t begin, std::int64_t end) {
        if (blocks_.empty() || blocks_.back().k + end - begin > most)
            blocks_.push_back({static_cast<std::int64_t>(pieces_.size()), 0, 0});
        DepthBlock& block = blocks_.back();
        // Complex numbers whose neighbours along k lie apart are taken one by one, not their parts.
        const Axes& k = *link.a_k;
        const bool apart = complex_ && k.count > 1 && k.axis[k.count - 1].extent == 2;
        if (apart) {
            Axes numbers = k;
            --numbers.count;
            find_runs(numbers, begin / 2, end / 2, scratch_.runs[0]);
        } else {
            find_packing_runs(k, *link.a_m, begin, end, scratch_.runs[0]);
        }
        pieces_.push_back({&link, begin, end, block.k, static_cast<std::int64_t>(piece_runs_.size()),
                           static_cast<std::int64_t>(scratch_.runs[0].size()), apart});
        piece_runs_.insert(piece_runs_.end(), scratch_.runs[0].begin(), scratch_.runs[0].end());
        ++block.piece_count;
        block.k += end - begin;
    };
    const std::int64_t grain = complex_ ? 2 : 1;
    for (const RealLink<R>& link : chain.links) {
        const EvenSplit split(link.k / grain, ceil_div(link.k, most));
        for (std::int64_t i = 0; i < split.parts; ++i)
            add(link, split.begin(i) * grain, (split.begin(i) + split.size(i)) * grain);
    }
}

// How many columns the packed panels hold, whole vectors (and whole complex columns) of them; `grain`: in steps of so
// many. Runs of C's columns stay whole where they fit.
template <class R>
std::int64_t PackedProduct<R>::columns_per_block(const RealChain<R>& chain, std::int64_t depth,
                                                 std::int64_t& grain) const {
    const std::int64_t room = panel_bytes() / static_cast<std::int64_t>(sizeof(R)) / depth;
    grain = std::max(table_.lanes, 2);
    if (!chain.in_place || chain.run == chain.n) return std::clamp(room, grain, kMaxColumns) / grain * grain;
    const std::int64_t padded = ceil_div(chain.run, table_.lanes) * table_.lanes;
    if (padded > room) return std::clamp(room - 3 * table_.lanes, grain, kMaxColumns) / grain * grain;
    grain = chain.run;
    return std::clamp<std::int64_t>(room / padded, 1, std::max<std::int64_t>(1, kMaxColumns / padded)) * grain;
}

// Panels of two or three vectors for n columns, packed to the given depth.
template <class R>
void PackedProduct<R>::cut_columns(const RealChain<R>& chain, std::int64_t n_begin, std::int64_t n,
                                   std::int64_t depth) {
    std::vector<Run>& runs = scratch_.runs[0];
    runs.clear();
    if (chain.in_place)
        find_runs(*chain.c_n, n_begin, n_begin + n, runs);
    else
        runs.push_back({0, n, 0, 1});
    // A panel holds whole complex columns.
    const std::int64_t widest = complex_ && table_.lanes == 1 ? 2 : kMaxVectors;
    panels_.clear();
    widest_ = 1;
    R* packed = reinterpret_cast<R*>(scratch_.panel());
    const auto cut = [&](std::int64_t begin, std::int64_t count, std::int64_t c) {
        const std::int64_t vectors = ceil_div(count, table_.lanes);
        const EvenSplit split(vectors, ceil_div(vectors, widest));
        for (std::int64_t v = 0; v < split.parts; ++v) {
            const std::int64_t first = split.begin(v) * table_.lanes, width = split.size(v) * table_.lanes;
            const std::int64_t cols = std::min(width, count - first);
            panels_.push_back({begin + first, cols, width, c + first, static_cast<int>(split.size(v)),
                               static_cast<int>(cols - width + table_.lanes), packed});
            packed += width * depth;
            widest_ = std::max(widest_, split.size(v));
        }
    };
    std::size_t pieces = 0;
    for (const Run& run : runs)
        for (std::int64_t at = 0; at < run.count; ++pieces) {
            const std::int64_t begin = run.first + at, end = chain.run - (n_begin + begin) % chain.run;
            const std::int64_t count = chain.in_place ? std::min(end, run.count - at) : run.count;
            cut(begin, count, run.offset + at);
            at += count;
        }
    const bool whole = n_begin % chain.run == 0 && n % chain.run == 0;
    run_panels_ = chain.in_place && whole ? static_cast<std::int64_t>(panels_.size() / pieces) : 0;
}

// Strips within the runs of C's rows.
template <class R>
void PackedProduct<R>::cut_rows(const Axes& rows, R* c, std::int64_t begin, std::int64_t end) {
    const std::int64_t tallest = table_.max_rows[widest_ - 1];
    find_runs(rows, begin, end, scratch_.runs[0]);
    strips_.clear();
    for (const Run& run : scratch_.runs[0]) {
        const EvenSplit split(run.count, ceil_div(run.count, tallest));
        for (std::int64_t t = 0; t < split.parts; ++t)
            strips_.push_back({begin + run.first + split.begin(t), split.size(t),
                               c + run.offset + split.begin(t) * run.stride, run.stride});
    }
}

// Columns whose neighbours lie apart in B while those of some other run lie beside them: packed across the runs, so
// that B is read along memory. False: they do not lie so.
template <class R>
bool PackedProduct<R>::pack_across_runs(const RealChain<R>& chain, const Piece& piece, std::int64_t n_begin,
                                        std::int64_t n) {
    const RealLink<R>& link = *piece.link;
    const Axes& cols = *link.b_n;
    const int unit = buried_unit(cols);
    if (complex_ || run_panels_ == 0 || unit < 0 || inner_stride(*link.b_k) == 1) return false;
    const Axis inner = cols.axis[cols.count - 1];
    if (inner.extent != chain.run) return false;
    std::vector<Run>&n_runs = scratch_.runs[0], &k_runs = scratch_.runs[1];
    find_unit_runs(cols, unit, n_begin, n_begin + n, n_runs);
    find_runs(*link.b_k, piece.begin, piece.end, k_runs);
    const std::int64_t run_size = panels_.size() > static_cast<std::size_t>(run_panels_)
                                      ? panels_[static_cast<std::size_t>(run_panels_)].packed - panels_[0].packed
                                      : 0;
    for (const Run& k : k_runs)
        for (std::int64_t q = 0; q < k.count; ++q)
            for (const Run& run : n_runs) {
                if (run.first % chain.run != 0) continue;
                const R* src = link.b + run.offset + k.offset + q * k.stride;
                const auto at = static_cast<std::size_t>(run.first / chain.run * run_panels_);
                for (std::size_t v = at; v < at + static_cast<std::size_t>(run_panels_); ++v) {
                    const Panel& panel = panels_[v];
                    const std::int64_t j = panel.first - panels_[at].first;
                    table_.pack(src + j * inner.stride, 1, inner.stride, run.count, panel.cols,
                                panel.packed + (piece.at + k.first + q) * panel.width, run.step / chain.run * run_size);
                }
            }
    return true;
}

template <class R>
void PackedProduct<R>::pack_columns(const RealChain<R>& chain, const DepthBlock& block, std::int64_t n_begin,
                                    std::int64_t n) {
    pack_tiles(chain, block, n_begin, n);
    for (std::int64_t i = 0; i < block.piece_count; ++i) {
        const Piece& piece = pieces_[block.first_piece + i];
        if (piece.link->factor == 1) continue;
        for (const Panel& panel : panels_) {
            R* const to = panel.packed + piece.at * panel.width;
            for (std::int64_t e = 0; e < (piece.end - piece.begin) * panel.width; ++e) to[e] *= piece.link->factor;
        }
    }
}

template <class R>
void PackedProduct<R>::pack_tiles(const RealChain<R>& chain, const DepthBlock& block, std::int64_t n_begin,
                                  std::int64_t n) {
    const std::int64_t unit = complex_ ? 2 : 1;
    std::vector<Run>& n_runs = scratch_.runs[0];
    std::vector<Run>& k_runs = scratch_.runs[1];
    const Axes* known = nullptr;
    for (std::int64_t i = 0; i < block.piece_count; ++i) {
        const Piece& piece = pieces_[block.first_piece + i];
        const RealLink<R>& link = *piece.link;
        if (pack_across_runs(chain, piece, n_begin, n)) {
            known = nullptr;
            continue;
        }
        if (known != link.b_n) find_runs(*link.b_n, n_begin / unit, (n_begin + n) / unit, n_runs);
        known = link.b_n;
        const std::int64_t begin = piece.begin / unit, end = piece.end / unit, k = end - begin;
        if (complex_)
            find_runs(*link.b_k, begin, end, k_runs);
        else
            find_packing_runs(*link.b_k, *link.b_n, begin, end, k_runs);
        const bool stepping = !k_runs.empty() && k_runs[0].step > 1;
        const std::int64_t group = inner_stride(*link.b_n) == 1 ? kPackGroup : k;
        for (std::int64_t p = 0; p < k; p += group) {
            for (const Panel& panel : panels_) {
                R* to = panel.packed + piece.at * panel.width;
                clip(n_runs, panel.first / unit, (panel.first + panel.cols) / unit,
                     [&](std::int64_t j, std::int64_t j_count, std::int64_t j_offset, std::int64_t j_stride) {
                         const R* from = link.b + unit * j_offset;
                         R* column = to + unit * j - panel.first;
                         if (stepping) {
                             for (const Run& run : k_runs)
                                 table_.pack(from + run.offset, run.stride, j_stride, run.count, j_count,
                                             column + run.first * panel.width, run.step * panel.width);
                             return;
                         }
                         clip(k_runs, p, std::min(p + group, k),
                              [&](std::int64_t q, std::int64_t q_count, std::int64_t q_offset, std::int64_t q_stride) {
                                  R* dst = column + unit * q * panel.width;
                                  const R* src = from + unit * q_offset;
                                  if (complex_)
                                      table_.pack_complex(src, q_stride, j_stride, q_count, j_count, dst, panel.width,
                                                          flags_.conjugate_a != link.conjugate_a,
                                                          flags_.conjugate_b != link.conjugate_b);
                                  else
                                      table_.pack(src, q_stride, j_stride, q_count, j_count, dst, panel.width);
                              });
                     });
            }
        }
    }
    for (const Panel& panel : panels_)
        if (panel.cols < panel.width)
            for (std::int64_t p = 0; p < block.k; ++p)
                std::fill(panel.packed + p * panel.width + panel.cols, panel.packed + (p + 1) * panel.width, R(0));
}

// The segments of a piece for a strip: A as it lies when its rows run along k, packed otherwise.
template <class R>
void PackedProduct<R>::place_rows(const Piece& piece, const Strip& strip) {
    const RealLink<R>& link = *piece.link;
    std::vector<Run>& rows = scratch_.runs[2];
    find_runs(*link.a_m, strip.first, strip.first + strip.rows, rows);
    const Run* k_runs = piece_runs_.data() + piece.first_run;
    const bool few_panels = panels_.size() <= 2;
    const bool direct = !piece.apart && rows.size() == 1 && k_runs[0].step == 1 &&
                        (piece.run_count == 1 || k_runs[0].count >= 16) && (few_panels || k_runs[0].stride == 1);
    const std::int64_t pack_k = strip.rows;
    R* packed = reinterpret_cast<R*>(scratch_.strip()) + piece.at * kMaxStrip;
    for (std::int64_t i = 0; i < piece.run_count; ++i) {
        const Run& run = k_runs[i];
        if (direct) {
            segments_.push_back(
                {link.a + rows[0].offset + run.offset, nullptr, run.count, rows[0].stride, run.stride, 0});
            segment_at_.push_back(piece.at + run.first);
        } else if (piece.apart) {
            for (const Run& row : rows)
                table_.pack_parts(link.a + row.offset + run.offset, run.stride / 2, row.stride / 2, run.count,
                                  row.count, packed + 2 * run.first * pack_k + row.first, pack_k);
        } else {
            for (const Run& row : rows)
                table_.pack(link.a + row.offset + run.offset, run.stride, row.stride, run.count, row.count,
                            packed + run.first * pack_k + row.first, run.step * pack_k);
        }
    }
    if (!direct) {
        segments_.push_back({packed, nullptr, piece.end - piece.begin, 1, pack_k, 0});
        segment_at_.push_back(piece.at);
    }
}

template <class R>
void PackedProduct<R>::fetch_strip(const DepthBlock& block, const Strip& strip) {
    if (block.piece_count == 0) return;
    const Piece& piece = pieces_[block.first_piece];
    const RealLink<R>& link = *piece.link;
    if (!is_plain(*link.a_m)) return;  // fetch_rows saw to it
    next_rows_.clear();
    const Run& run = piece_runs_[piece.first_run];
    const std::int64_t size = sizeof(R), stride = plain_stride(*link.a_m);
    const R* first = link.a + strip.first * stride + run.offset;
    if (run.stride == 1)
        next_rows_.set(first, ceil_div(run.count * size, 64), 64, stride * size, strip.rows);
    else if (stride == (piece.apart ? 2 : 1))
        next_rows_.set(first, run.count, run.stride * size, 64, piece.apart ? ceil_div(strip.rows * 2 * size, 64) : 1);
}

template <class R>
void PackedProduct<R>::fetch_columns(const RealLink<R>& link, std::int64_t begin, std::int64_t end,
                                     std::int64_t n_begin, std::int64_t n) {
    const std::int64_t unit = complex_ ? 2 : 1, size = sizeof(R);
    next_columns_.clear();
    if (!is_plain(*link.b_k) || !is_plain(*link.b_n)) {
        if (n == link.b_n->extent() * unit)
            fetch_slice(next_columns_, link.b, *link.b_k, *link.b_n, unit, begin / unit, end / unit);
        return;
    }
    const std::int64_t step_k = plain_stride(*link.b_k) * unit, step_n = plain_stride(*link.b_n) * unit;
    const R* first = link.b + begin / unit * step_k + n_begin / unit * step_n;
    if (is_unit(*link.b_n))
        next_columns_.set(first, ceil_div(n * size, 64), 64, step_k * size, (end - begin) / unit);
    else if (step_k == unit)
        next_columns_.set(first, ceil_div((end - begin) * size, 64), 64, step_n * size, n / unit);
}

// Rows of A for the next block of k, where they are not fetched strip by strip.
template <class R>
void PackedProduct<R>::fetch_rows(const RealLink<R>& link, std::int64_t begin, std::int64_t end) {
    next_rows_.clear();
    if (!is_plain(*link.a_m)) fetch_slice(next_rows_, link.a, *link.a_k, *link.a_m, 1, begin, end);
}

// All strips of rows against all panels, for one block of k, which may be the first or the last.
template <class R>
void PackedProduct<R>::sweep(const RealChain<R>& chain, const DepthBlock& block, bool first, bool last) {
    const std::int64_t lines = std::max<std::int64_t>(block.k / 8, 1);
    const bool overwrite = chain.overwrite && first;
    const bool loads = !chain.in_place && first && !overwrite, stores = !chain.in_place && last;
    MicroCall<R> call{};
    call.overwrite = overwrite;
    call.not_finite = last ? chain.not_finite : nullptr;
    for (std::size_t t = 0; t < strips_.size(); ++t) {
        const Strip& strip = strips_[t];
        segments_.clear();
        segment_at_.clear();
        for (std::int64_t i = 0; i < block.piece_count; ++i) place_rows(pieces_[block.first_piece + i], strip);
        if (t + 1 < strips_.size()) fetch_strip(block, strips_[t + 1]);
        call.segments = segments_.data();
        call.segment_count = static_cast<std::int64_t>(segments_.size());
        call.c_row = strip.c_row;
        if (loads) copy_strip(chain, strip, false);
        if (loads || stores) {
            c_next_rows_.clear();
            if (t + 1 < strips_.size())
                find_runs(*chain.c_m, strips_[t + 1].first, strips_[t + 1].first + strips_[t + 1].rows, c_next_rows_);
        }
        for (std::size_t v = 0; v < panels_.size(); ++v) {
            const Panel& panel = panels_[v];
            for (std::size_t s = 0; s < segments_.size(); ++s) {
                segments_[s].b = panel.packed + segment_at_[s] * panel.width;
                segments_[s].b_k = panel.width;
            }
            call.c = strip.c + panel.c;
            call.c_next = v + 1 < panels_.size()   ? strip.c + panels_[v + 1].c
                          : t + 1 < strips_.size() ? strips_[t + 1].c + panels_[0].c
                                                   : nullptr;
            if (loads || stores) fetch_copy(chain, panel);
            Fetch* const fetches[2] = {&next_rows_, &next_columns_};
            for (int w = 0; w < 2; ++w) {
                const char* wanted = fetches[w]->next(lines);
                call.fetch[w] = wanted ? wanted : reinterpret_cast<const char*>(panel.packed);
                call.fetch_step[w] = wanted ? fetches[w]->step() : 0;
            }
            call.last_lanes = panel.last_lanes;
            table_.micro[0][panel.vectors - 1][strip.rows - 1](call);
        }
        if (stores) copy_strip(chain, strip, true);
    }
}

// A strip of C between its place and the contiguous copy that the kernels work on.
template <class R>
void PackedProduct<R>::copy_strip(const RealChain<R>& chain, const Strip& strip, bool store) {
    std::vector<Run>& rows = scratch_.runs[2];
    find_runs(*chain.c_m, strip.first, strip.first + strip.rows, rows);
    const std::int64_t width = strip.c_row;
    for (const Run& col : c_columns_) {
        for (const Run& row : rows) {
            R* c = chain.c + row.offset + col.offset;
            R* copy = strip.c + row.first * width + col.first;
            if (!store)
                table_.pack(c, row.stride, col.stride, row.count, col.count, copy, width);
            else if (col.stride == 1)
                table_.pack(copy, width, 1, row.count, col.count, c, row.stride);
            else if (row.stride == 1)
                table_.pack(copy, 1, width, col.count, row.count, c, col.stride);
            else
                for (std::int64_t j = 0; j < col.count; ++j)
                    for (std::int64_t i = 0; i < row.count; ++i)
                        c[i * row.stride + j * col.stride] = copy[i * width + j];
        }
    }
}

// Brings near what the next strip's copy will read and write below this panel.
template <class R>
void PackedProduct<R>::fetch_copy(const RealChain<R>& chain, const Panel& panel) {
    constexpr std::int64_t line = 64 / sizeof(R);
    for (const Run& row : c_next_rows_) {
        clip(c_columns_, panel.first, panel.first + panel.cols,
             [&](std::int64_t, std::int64_t count, std::int64_t offset, std::int64_t stride) {
                 const R* c = chain.c + row.offset + offset;
                 const std::int64_t rows = row.stride == 1 ? 1 : row.count;  // a few rows share a line
                 const std::int64_t step = stride == 1 ? line : 1;
                 for (std::int64_t i = 0; i < rows; ++i)
                     for (std::int64_t j = 0; j < count; j += step)
                         __builtin_prefetch(c + i * row.stride + j * stride, 1, 2);
             });
    }
}

template <class R>
void PackedProduct<R>::multiply(const RealChain<R>& chain, const RealChain<R>* next) {
    constexpr std::int64_t size = sizeof(R);
    cut_depth(chain);
    std::int64_t depth = 1;
    for (const DepthBlock& block : blocks_) depth = std::max(depth, block.k);
    std::int64_t grain;
    const std::int64_t most = columns_per_block(chain, depth, grain);
    const std::int64_t grains = ceil_div(chain.n, grain);
    const EvenSplit n_split(grains, ceil_div(grains, most / grain));
    // A copy of C that several blocks of k add to is kept meanwhile.
    const std::int64_t width = ceil_div(n_split.size(0) * grain, table_.lanes) * table_.lanes;
    const bool kept = !chain.in_place && blocks_.size() > 1;
    const EvenSplit m_split(chain.m,
                            ceil_div(chain.m, std::min(kSweepRows, kept ? kCopyBytes / size / width : kSweepRows)));

    for (std::int64_t jb = 0; jb < n_split.parts; ++jb) {
        const std::int64_t n_begin = n_split.begin(jb) * grain;
        const std::int64_t n = std::min(n_split.size(jb) * grain, chain.n - n_begin);
        cut_columns(chain, n_begin, n, depth);
        if (!chain.in_place) find_runs(*chain.c_n, n_begin, n_begin + n, c_columns_);
        for (std::int64_t ib = 0; ib < m_split.parts; ++ib) {
            const std::int64_t m_begin = m_split.begin(ib), m_end = m_begin + m_split.size(ib);
            if (chain.in_place) {
                cut_rows(*chain.c_m, chain.c, m_begin, m_end);
            } else {
                Axes copies;  // stride 0: every strip has its rows in the same place
                copies.push_back({m_end - m_begin, kept ? width : 0});
                cut_rows(copies, reinterpret_cast<R*>(scratch_.copy()), 0, m_end - m_begin);
                for (Strip& strip : strips_) strip.first += m_begin, strip.c_row = width;
            }
            for (std::size_t kb = 0; kb < blocks_.size(); ++kb) {
                const DepthBlock& block = blocks_[kb];
                pack_columns(chain, block, n_begin, n);
                if (kb + 1 < blocks_.size()) {
                    const Piece& piece = pieces_[blocks_[kb + 1].first_piece];
                    fetch_columns(*piece.link, piece.begin, piece.end, n_begin, n);
                    fetch_rows(*piece.link, piece.begin, piece.end);
                } else if (next && !next->links.empty() && jb + 1 == n_split.parts && ib + 1 == m_split.parts) {
                    const RealLink<R>& link = next->links[0];
                    fetch_columns(link, 0, std::min(link.k, depth), 0, std::min(n, next->n));
                    fetch_rows(link, 0, std::min(link.k, depth));
                } else {
                    next_columns_.clear();
                    next_rows_.clear();
                }
                sweep(chain, block, kb == 0, kb + 1 == blocks_.size());
            }
            if (blocks_.empty()) sweep(chain, {0, 0, 0}, true, true);
        }
    }
}

template class PackedProduct<float>;
template class PackedProduct<double>;

}  // namespace tessera::kernels::cpu
