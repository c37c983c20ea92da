#include "tessera/io/show.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/units.hpp"

namespace tessera {
namespace {

constexpr std::size_t kColumns = 100;

/// A path too long for its line loses its middle.
std::string shortened(const std::string& text, std::size_t columns) {
    if (text.size() <= columns) return text;
    const std::size_t tail = (columns - 3) * 2 / 3, head = columns - 3 - tail;
    return text.substr(0, head) + "..." + text.substr(text.size() - tail);
}

std::string line(std::string_view label, const std::string& value) {
    return fmt::format("  {:<11}{}\n", label, shortened(value, kColumns - 13));
}

std::string percent(double share) {
    return fmt::format("{:.{}f} %", 100 * share, share >= 0.1 || share == 0 ? 1 : share >= 0.001 ? 2 : 4);
}

/// How many tiles have a norm per element in each power of ten: where screening would cut.
std::string histogram(const Shape& shape) {
    constexpr int kRows = 10, kBar = 40;
    std::vector<int> decades;
    std::int64_t zeros = 0;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const double elements = static_cast<double>(shape.grid().tile_elements(shape.tile(s)));
        const double rms = shape.norm_of(s) / std::sqrt(elements);
        if (rms > 0)
            decades.push_back(static_cast<int>(std::floor(std::log10(rms))));
        else
            ++zeros;
    }
    if (decades.empty()) return "";
    const auto [lo, hi] = std::minmax_element(decades.begin(), decades.end());
    const int top = *hi, rows = std::min(*hi - *lo + 1, kRows);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(rows), 0);
    for (int d : decades) ++counts[static_cast<std::size_t>(std::min(top - d, rows - 1))];
    const std::int64_t most = *std::max_element(counts.begin(), counts.end());
    std::string text = "  norm per element, tiles of each power of ten\n";
    for (int r = 0; r < rows; ++r) {
        const std::int64_t n = counts[static_cast<std::size_t>(r)];
        const bool below = r == rows - 1 && top - r > *lo;
        const auto bar = static_cast<int>((n * kBar + most - 1) / most);
        text += fmt::format("    {:>7} {:<40} {:>14}\n", fmt::format("{}1e{}", below ? "<=" : "", top - r),
                            std::string(static_cast<std::size_t>(bar), '#'), format_count(n));
    }
    if (zeros > 0) text += fmt::format("    {:>7} {:<40} {:>14}\n", "zero", "", format_count(zeros));
    return text;
}

}  // namespace

std::string describe_text(const TensorFileInfo& info) {
    const Shape& shape = info.shape;
    const TileGrid& grid = shape.grid();
    std::string text = fmt::format("{}\n", shortened(info.path, kColumns));
    text += line("holds", grid.rank() == 0 ? fmt::format("{} scalar (rank 0)", name(info.scalar))
                                           : fmt::format("{} tensor of rank {}", name(info.scalar), grid.rank()));
    for (int d = 0; d < grid.rank(); ++d) text += line(fmt::format("index {}", d), to_string(grid.tiling(d)));
    const double dense_bytes = static_cast<double>(grid.element_total()) * static_cast<double>(bytes_of(info.scalar));
    text += line("elements", fmt::format("{} ({} if dense)", format_count(grid.element_total()),
                                         dense_bytes < 0x1p62 ? format_bytes(static_cast<std::int64_t>(dense_bytes))
                                                              : fmt::format("{:.1e} bytes", dense_bytes)));
    text += line("stored", fmt::format("{} of {} tiles, {}", format_count(shape.tile_count()),
                                       format_count(grid.tile_total()), format_bytes(info.tile_bytes)));
    text += line("density", fmt::format("{} of elements, {} of tiles", percent(shape.density()),
                                        percent(grid.tile_total() == 0 ? 0.0
                                                                       : static_cast<double>(shape.tile_count()) /
                                                                             static_cast<double>(grid.tile_total()))));
    if (!shape.symmetry().none()) text += line("symmetry", shape.symmetry().text());
    if (shape.empty()) {
        text += line("norm", "0");
    } else {
        const auto [lo, hi] = std::minmax_element(shape.norms().begin(), shape.norms().end());
        text += line("norm", fmt::format("{:.6g}; of single tiles {:.3g} to {:.3g}", shape.norm(), *lo, *hi));
    }
    text += line("checksum", info.checksum ? fmt::format("{:016x}", *info.checksum) : "none");
    text += line("file", fmt::format("{}, format {}{}", format_bytes(info.file_bytes), info.version,
                                     info.writer.empty() ? "" : ", written by " + info.writer));
    return text + histogram(shape);
}

}  // namespace tessera
