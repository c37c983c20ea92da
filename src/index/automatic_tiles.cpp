#include "index/automatic_tiles.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "index/einsum_spec.hpp"
#include "index/matrix_view.hpp"
#include "tessera/index/automatic_tiling.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kProducts = 256, kSide = 256, kPoints = 64;
constexpr std::int64_t kLines = 16;  // elements along the fastest index of an array: two lines of doubles

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Sizes of a group of labels, given slowest first: some elements of the fastest labels of the arrays, then as many as
/// the target allows, fastest label first.
void fill(const std::string& group, const TileSizes& extent, const std::string& fastest, std::int64_t target,
          TileSizes& size) {
    std::int64_t taken = 1;
    const auto grow = [&](char label, std::int64_t most) {
        auto& mine = size[static_cast<unsigned char>(label)];
        const auto others = taken / mine, whole = extent[static_cast<unsigned char>(label)];
        if (2 * whole <= 3 * most) most = whole;  // rather one tile than two halves
        const auto wanted = std::max(mine, std::min({most, target / others, whole}));
        mine = std::max<std::int64_t>(1, whole == 0 ? 1 : ceil_div(whole, ceil_div(whole, wanted)));
        taken = others * mine;
    };
    for (const char l : fastest)
        if (group.find(l) != std::string::npos) grow(l, kLines);
    for (const char l : fastest)
        if (group.find(l) != std::string::npos) grow(l, target);
    for (auto l = group.rbegin(); l != group.rend(); ++l) grow(*l, target);
}

}  // namespace

TileSizes automatic_tile_sizes(const ContractionSpec& spec, const IndexVector& a, const IndexVector& b) {
    TileSizes extent, size;
    extent.fill(1);
    size.fill(1);
    for (const auto& [labels, extents] : {std::pair{&spec.a(), &a}, {&spec.b(), &b}})
        for (int d = 0; d < extents->size(); ++d) {
            auto& known = extent[static_cast<unsigned char>((*labels)[static_cast<std::size_t>(d)])];
            known = std::max(known, (*extents)[d]);
        }
    std::string fastest;
    for (const auto* labels : {&spec.a(), &spec.b(), &spec.c()})
        if (!labels->empty() && fastest.find(labels->back()) == std::string::npos) fastest += labels->back();
    const MatrixView view(spec);
    fill(view.k, extent, fastest, kProducts, size);
    fill(view.m, extent, fastest, kSide, size);
    fill(view.n, extent, fastest, kSide, size);
    fill(view.batch, extent, fastest, kPoints, size);
    return size;
}

TileGrid automatic_grid(std::string_view text, int operand, const IndexVector& extents) {
    constexpr std::int64_t kUsual = 64;  // where there are not two operands
    const EinsumSpec spec(text);
    require(operand >= 0 && operand < spec.count(), "spec '{}': there is no operand {}", spec.text(), operand + 1);
    const auto& labels = spec.operands[static_cast<std::size_t>(operand)];
    TileSizes sizes;
    sizes.fill(kUsual);
    const bool known = static_cast<int>(labels.size()) == extents.size() && !spec.has_ellipsis();
    if (known && spec.count() == 2) {
        // What the other operand alone has is of no account here.
        const auto other = IndexVector::filled(static_cast<int>(spec.operands[operand == 0 ? 1 : 0].size()), 1);
        sizes =
            automatic_tile_sizes(ContractionSpec(text), operand == 0 ? extents : other, operand == 0 ? other : extents);
    }
    std::vector<Tiling> tilings;
    for (int d = 0; d < extents.size(); ++d)
        tilings.push_back(Tiling::uniform(
            extents[d], known ? sizes[static_cast<unsigned char>(labels[static_cast<std::size_t>(d)])] : kUsual));
    return TileGrid(std::move(tilings));
}

}  // namespace tessera
