#include "index/automatic_tiles.hpp"

#include <algorithm>
#include <string>

#include "index/matrix_view.hpp"

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
    for (int d = 0; d < a.size(); ++d) extent[static_cast<unsigned char>(spec.a()[static_cast<std::size_t>(d)])] = a[d];
    for (int d = 0; d < b.size(); ++d) extent[static_cast<unsigned char>(spec.b()[static_cast<std::size_t>(d)])] = b[d];
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

}  // namespace tessera
