// The two ways in which tiles of C form blocks: patches of neighbours, and the published worst fit of columns.

#include <algorithm>

#include "inspect/device_blocks.hpp"

namespace tessera {

namespace {

/// Items in groups of neighbours, none heavier than the cap unless it is one item, none of more than so many:
/// halved along the widest coordinate until they fit.
template <class At, class Weight>
void halve(std::vector<std::int32_t> items, std::int64_t cap, std::size_t most, const At& at, const Weight& weight,
           std::vector<std::vector<std::int32_t>>& out) {
    std::int64_t total = 0;
    for (auto i : items) total += weight(i);
    if (items.size() <= 1 || (total <= cap && items.size() <= most)) {
        if (!items.empty()) out.push_back(std::move(items));
        return;
    }
    auto pieces = total <= cap ? 2 : std::max<std::int64_t>(2, (total + total / 32 + cap - 1) / cap);
    if (items.size() > most) pieces = std::max(pieces, static_cast<std::int64_t>((items.size() + most - 1) / most));
    int best = 0;
    std::int64_t widest = -1;
    for (int d = 0; d < at(items[0]).size(); ++d) {
        std::int64_t low = INT64_MAX, high = INT64_MIN;
        for (auto i : items) {
            low = std::min(low, at(i)[d]);
            high = std::max(high, at(i)[d]);
        }
        if (high - low > widest) {
            widest = high - low;
            best = d;
        }
    }
    if (widest > 0)
        std::stable_sort(items.begin(), items.end(), [&](auto x, auto y) { return at(x)[best] < at(y)[best]; });
    const double share = static_cast<double>(pieces / 2) / static_cast<double>(pieces) * static_cast<double>(total);
    std::size_t cut = 0;
    double sum = 0;
    while (cut + 1 < items.size() && (cut == 0 || sum + 0.5 * static_cast<double>(weight(items[cut])) <= share))
        sum += static_cast<double>(weight(items[cut++]));
    std::vector<std::int32_t> rest(items.begin() + static_cast<std::ptrdiff_t>(cut), items.end());
    items.resize(cut);
    halve(std::move(items), cap, most, at, weight, out);
    halve(std::move(rest), cap, most, at, weight, out);
}

}  // namespace

std::vector<Block> patches_of(const Inspection& in, const std::vector<std::int32_t>& sums, int row_cuts,
                              const BlockLimits& limits) {
    const auto& bytes = in.bytes_on_device(Operand::c);
    std::int64_t total = 0;
    std::vector<std::int64_t> row_bytes(static_cast<std::size_t>(in.rows));
    std::vector<bool> has_sums(row_bytes.size());  // result tiles that stay take nothing
    for (auto i : sums) {
        has_sums[static_cast<std::size_t>(in.row[in.sums[i].c])] = true;
        row_bytes[in.row[in.sums[i].c]] += bytes[in.sums[i].c];
        total += bytes[in.sums[i].c];
    }
    std::vector<std::int32_t> rows;
    for (std::int32_t r = 0; r < in.rows; ++r)
        if (has_sums[static_cast<std::size_t>(r)]) rows.push_back(r);
    std::vector<std::vector<std::int32_t>> row_groups;
    if (row_cuts == 1 && limits.rows == SIZE_MAX)
        row_groups.push_back(rows);
    else
        halve(
            rows, row_cuts == 1 ? total : total / row_cuts + total / (8 * row_cuts), limits.rows,
            [&](auto r) -> const IndexVector& { return in.row_at[r]; }, [&](auto r) { return row_bytes[r]; },
            row_groups);
    std::vector<std::int32_t> group_of(static_cast<std::size_t>(in.rows), -1);
    for (std::size_t g = 0; g < row_groups.size(); ++g)
        for (auto r : row_groups[g]) group_of[r] = static_cast<std::int32_t>(g);
    std::vector<Block> blocks;
    for (std::size_t g = 0; g < row_groups.size(); ++g) {
        std::vector<std::vector<std::int32_t>> of_column(static_cast<std::size_t>(in.cols));
        std::vector<std::int64_t> column_bytes(static_cast<std::size_t>(in.cols));
        for (auto i : sums)
            if (group_of[in.row[in.sums[i].c]] == static_cast<std::int32_t>(g)) {
                of_column[in.col[in.sums[i].c]].push_back(i);
                column_bytes[in.col[in.sums[i].c]] += bytes[in.sums[i].c];
            }
        std::vector<std::int32_t> columns;
        for (std::int32_t c = 0; c < in.cols; ++c)
            if (!of_column[c].empty()) columns.push_back(c);
        std::vector<std::vector<std::int32_t>> patches;
        halve(
            columns, limits.bytes, limits.cols, [&](auto c) -> const IndexVector& { return in.col_at[c]; },
            [&](auto c) { return column_bytes[c]; }, patches);
        for (const auto& patch : patches) {
            Block block;
            for (auto c : patch)
                for (auto i : of_column[c]) {
                    // A column longer than the cap goes into several blocks.
                    if (!block.sums.empty() && block.bytes + bytes[in.sums[i].c] > limits.bytes) {
                        blocks.push_back(std::move(block));
                        block = {};
                    }
                    block.sums.push_back(i);
                    block.bytes += bytes[in.sums[i].c];
                    block.flops += in.sums[i].flops;
                }
            blocks.push_back(std::move(block));
        }
    }
    return blocks;
}

std::vector<Block> worst_fit(const Inspection& in, const std::vector<std::int32_t>& sums, int devices,
                             const BlockLimits& limits) {
    struct Column {
        std::vector<std::int32_t> sums;
        std::int64_t bytes = 0;
        double flops = 0;
    };
    std::vector<Column> columns(static_cast<std::size_t>(in.cols));
    std::vector<std::int32_t> seen(in.bytes(Operand::b).size(), -1);
    for (auto i : sums) {
        const auto& s = in.sums[i];
        auto& col = columns[in.col[s.c]];
        col.sums.push_back(i);
        col.bytes += in.bytes_on_device(Operand::c)[s.c];
        col.flops += s.flops;
        for (auto p = s.first; p < s.last; ++p) {
            const auto b = in.tile_of(Operand::b, p);
            if (seen[b] >= 0) continue;
            seen[b] = 0;
            col.bytes += in.bytes_on_device(Operand::b)[b];
        }
    }
    std::erase_if(columns, [](const Column& c) { return c.sums.empty(); });
    std::stable_sort(columns.begin(), columns.end(), [](const auto& x, const auto& y) { return x.bytes > y.bytes; });
    // Into the emptiest of the open blocks, one per device; where it fits none of them all are closed.
    std::vector<Block> blocks, open(static_cast<std::size_t>(devices));
    std::vector<std::size_t> taken(open.size());  // columns
    const auto close = [&] {
        std::fill(taken.begin(), taken.end(), 0);
        for (std::size_t d = 0; d < open.size(); ++d) {
            open[d].device = static_cast<int>(d);
            if (!open[d].sums.empty()) blocks.push_back(std::move(open[d]));
            open[d] = {};
        }
    };
    for (const auto& col : columns) {
        const auto full = [&](const Block& b) {
            return taken[static_cast<std::size_t>(&b - open.data())] >= limits.cols;
        };
        auto least = std::min_element(open.begin(), open.end(), [&](const Block& x, const Block& y) {
            return full(x) != full(y) ? full(y) : x.bytes < y.bytes;
        });
        if (least->bytes + col.bytes > limits.bytes || full(*least)) {
            close();
            least = open.begin();
        }
        ++taken[static_cast<std::size_t>(least - open.begin())];
        least->sums.insert(least->sums.end(), col.sums.begin(), col.sums.end());
        least->bytes += col.bytes;
        least->flops += col.flops;
    }
    close();
    for (auto& b : blocks) std::sort(b.sums.begin(), b.sums.end());
    return blocks;
}

}  // namespace tessera
