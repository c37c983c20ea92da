// One device that holds A and B whole: C in strips that leave one after another.

#include <algorithm>

#include "inspect/device_blocks.hpp"

namespace tessera {

namespace {

/// A row or a column of tiles of C.
struct Line {
    std::vector<std::int32_t> sums;
    std::int64_t bytes = 0;
};

/// How many lines the first strip has: so many that their products take as long as what they are made of needs to come,
/// but at least one n-th and at most half of C.
std::size_t first_strip(const Inspection& in, const std::vector<Line>& lines, std::int64_t n, std::int64_t total) {
    const double rate = in.machine.device.gemm.flops_per_second, link = in.machine.host_to_device.bytes_per_second;
    const Operand operands[] = {Operand::a, Operand::b};
    std::vector<bool> came[2];
    for (int o = 0; o < 2; ++o) came[o].resize(in.bytes(operands[o]).size());
    std::int64_t c = 0, loaded = 0;
    double flops = 0;
    std::size_t count = 0;
    for (; count < lines.size(); ++count) {
        const bool waits = rate > 0 && link > 0 && static_cast<double>(loaded) / link > flops / rate;
        if (c * (waits ? 2 : n) >= total) break;
        c += lines[count].bytes;
        for (auto i : lines[count].sums) {
            flops += in.sums[i].flops;
            for (auto p = in.sums[i].first; p < in.sums[i].last; ++p)
                for (int o = 0; o < 2; ++o) {
                    const auto t = in.tile_of(operands[o], p);
                    if (!came[o][t]) loaded += in.bytes_on_device(operands[o])[t];
                    came[o][t] = true;
                }
        }
    }
    return count;
}

}  // namespace

UsedBytes used_bytes(const Inspection& in, const std::vector<std::int32_t>& sums) {
    UsedBytes out;
    std::vector<std::uint8_t> used_a(in.bytes(Operand::a).size()), used_b(in.bytes(Operand::b).size());
    for (auto i : sums)
        for (auto p = in.sums[i].first; p < in.sums[i].last; ++p) {
            const auto& product = in.product.products[p];
            used_a[product.a] = used_b[product.b] = 1;
        }
    for (std::size_t t = 0; t < used_a.size(); ++t) out.a += used_a[t] * in.bytes_on_device(Operand::a)[t];
    for (std::size_t t = 0; t < used_b.size(); ++t) out.b += used_b[t] * in.bytes_on_device(Operand::b)[t];
    return out;
}

bool strips_of(const Inspection& in, const std::vector<std::int32_t>& sums, const UsedBytes& used, std::int64_t n,
               std::int64_t memory, int regions, DeviceLayout& out) {
    const auto [a, b] = used;
    const bool columns = a <= b;
    std::vector<Line> lines(static_cast<std::size_t>(columns ? in.cols : in.rows));
    std::int64_t total = 0;
    for (auto i : sums) {
        auto& line = lines[(columns ? in.col : in.row)[in.sums[i].c]];
        const auto bytes = in.bytes_on_device(Operand::c)[in.sums[i].c];
        line.sums.push_back(i);
        line.bytes += bytes;
        total += bytes;
    }
    std::erase_if(lines, [](const Line& l) { return l.sums.empty(); });
    if (static_cast<std::int64_t>(lines.size()) < n) return false;

    std::vector<Block> blocks(1);
    const auto add = [&](const Line& line) {
        auto& block = blocks.back();
        block.sums.insert(block.sums.end(), line.sums.begin(), line.sums.end());
        block.bytes += line.bytes;
        for (auto i : line.sums) block.flops += in.sums[i].flops;
    };
    const auto first = first_strip(in, lines, n, total);
    for (std::size_t l = 0; l < first; ++l) add(lines[l]);
    for (std::size_t l = first; l < lines.size(); ++l) {
        // The last strip in two: it leaves when there is nothing else to do.
        const bool last = lines.size() - l <= (lines.size() - first) / static_cast<std::size_t>(2 * n);
        if (l == first || (blocks.back().bytes + lines[l].bytes / 2) * (last ? 2 * n : n) > total)
            blocks.emplace_back();
        add(lines[l]);
    }

    // A place for each, or as many of one size as there is room for, taken in turn.
    const auto room = memory - a - b;
    std::int64_t at = 0;
    if (total <= room) {
        for (auto& block : blocks) {
            block.region = at;
            at += block.bytes;
        }
    } else {
        std::int64_t most = 1;
        for (std::size_t i = 1; i < blocks.size(); ++i) most = std::max(most, blocks[i].bytes);
        const auto places = std::max<std::int64_t>(0, room - blocks[0].bytes) / most;
        if (places < regions) return false;
        for (std::int64_t i = 1; i < static_cast<std::int64_t>(blocks.size()); ++i) {
            blocks[i].region = blocks[0].bytes + (i - 1) % places * most;
            blocks[i].follows = i <= places ? -1 : static_cast<std::int32_t>(i - places);
        }
        at = blocks[0].bytes + places * most;
    }
    out.c_regions = 0;
    out.c_bytes = at;
    out.blocks = std::move(blocks);
    return true;
}

}  // namespace tessera
