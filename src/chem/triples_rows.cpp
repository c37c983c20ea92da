#include "chem/triples_rows.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::chem {

namespace {

using device::OrbitRow;

constexpr std::int64_t kWide = 8, kNarrow = 4;  // the device kernel's tiles of virtual orbitals; cores take the first
constexpr std::int64_t kLongBox = 32;
constexpr double kChunkFlops = 1e13;  // a quarter of a second on an H200
constexpr std::int64_t kMostRows = 1 << 16;

std::int64_t tiles_of(std::int64_t extent, std::int64_t tile) { return (extent + tile - 1) / tile; }

class Rows {
  public:
    explicit Rows(std::vector<OrbitRow>& out) : out_(out) {}
    void add(std::int64_t wide, std::int64_t second, std::int64_t third, float low, float high) {
        out_.push_back({{static_cast<int>(wide), static_cast<int>(second), static_cast<int>(third)}, {low, high}});
    }

  private:
    std::vector<OrbitRow>& out_;
};

/// One range three times. A wide tile is two narrow ones: w is 2 w and 2 w + 1. Weights are the orders of a triple of
/// narrow tiles: six, three where two are the same, one.
void cube_rows(std::int64_t extent, std::vector<OrbitRow>& out) {
    Rows rows(out);
    const auto narrow = tiles_of(extent, kNarrow), wide = tiles_of(extent, kWide);
    const auto half = [&](std::int64_t w) { return 2 * w + 1 == narrow; };  // the last one
    for (std::int64_t x = 0; x < wide; ++x) {
        // Of two others in one wide tile.
        for (std::int64_t y = 0; y < wide; ++y) {
            if (y == x) continue;
            if (half(x)) {
                // The wide tile is that of the two, so that no half of it is empty.
                rows.add(y, 2 * y, 2 * x, 3, 6);
                rows.add(y, 2 * y + 1, 2 * x, 0, 3);
                continue;
            }
            rows.add(x, 2 * y, 2 * y, 3, 3);
            if (half(y)) continue;
            rows.add(x, 2 * y, 2 * y + 1, 6, 6);
            rows.add(x, 2 * y + 1, 2 * y + 1, 3, 3);
        }
        // All three in it.
        if (half(x)) {
            rows.add(x, 2 * x, 2 * x, 1, 0);
        } else {
            rows.add(x, 2 * x, 2 * x, 1, 3);
            rows.add(x, 2 * x + 1, 2 * x + 1, 3, 1);
        }
    }
    // In three different ones: the smallest is taken whole.
    for (std::int64_t third = 0; third < narrow; ++third)
        for (std::int64_t second = 0; second / 2 < third / 2; ++second)
            for (std::int64_t x = 0; x < second / 2; ++x) rows.add(x, second, third, 6, 6);
}

}  // namespace

std::vector<TriplesPart> triples_parts(std::int64_t virtuals, std::int64_t longest) {
    const auto count = tiles_of(virtuals, longest);
    const auto size = tiles_of(tiles_of(virtuals, count), kWide) * kWide;
    const auto ranges = tiles_of(virtuals, size);
    const auto extent = [&](std::int64_t g) { return std::min(size, virtuals - g * size); };
    std::vector<TriplesPart> out;
    const auto add = [&](std::int64_t x, std::int64_t y, std::int64_t z) {
        out.push_back({{x * size, y * size, z * size}, {extent(x), extent(y), extent(z)}});
    };
    for (std::int64_t x = 0; x < ranges; ++x) {
        add(x, x, x);
        for (std::int64_t y = 0; y < ranges; ++y)
            if (y != x) add(x, y, y);
        for (std::int64_t y = x + 1; y < ranges; ++y)
            for (std::int64_t z = y + 1; z < ranges; ++z) add(x, y, z);
    }
    return out;
}

std::vector<OrbitRow> device_rows(const TriplesPart& part) {
    std::vector<OrbitRow> out;
    if (part.same(0, 1)) {
        cube_rows(part.extent[0], out);
        return out;
    }
    Rows rows(out);
    const bool pairs = part.same(1, 2);
    for (std::int64_t third = 0; third < tiles_of(part.extent[2], kNarrow); ++third)
        for (std::int64_t second = 0; second < (pairs ? third + 1 : tiles_of(part.extent[1], kNarrow)); ++second)
            for (std::int64_t x = 0; x < tiles_of(part.extent[0], kWide); ++x) {
                const float orders = pairs && second == third ? 3 : 6;
                rows.add(x, second, third, orders, orders);
            }
    return out;
}

std::vector<TriplesBox> core_boxes(const TriplesPart& part) {
    std::vector<TriplesBox> out;
    const bool cube = part.same(0, 1), pairs = part.same(1, 2);
    const auto tile = [&](int n, std::int64_t t) {
        const auto at = static_cast<std::size_t>(n);
        return std::pair(part.begin[at] + t * kWide, std::min(kWide, part.extent[at] - t * kWide));
    };
    for (std::int64_t third = 0; third < tiles_of(part.extent[2], kWide); ++third)
        for (std::int64_t second = 0; second < (pairs ? third + 1 : tiles_of(part.extent[1], kWide)); ++second) {
            const auto [a, na] = tile(2, third);
            const auto [b, nb] = tile(1, second);
            const double orders = pairs && second == third ? 3 : 6;
            const auto add = [&](std::int64_t from, std::int64_t to, double of) {
                for (std::int64_t c = from; c < to; c += kLongBox)
                    out.push_back({{c, b, a}, {std::min(kLongBox, to - c), nb, na}, of});
            };
            if (!cube) {
                add(part.begin[0], part.begin[0] + part.extent[0], orders);
                continue;
            }
            add(part.begin[0], b, orders);
            add(b, b + nb, second == third ? 1 : 3);
        }
    return out;
}

std::vector<TriplesChunk> triples_chunks(std::span<const std::vector<OrbitRow>> rows_of_parts, std::int64_t occupied,
                                         std::int64_t virtuals) {
    const auto cube = std::pow(static_cast<double>(tiles_of(occupied, kNarrow) * kNarrow), 3);
    const double of_row =
        12 * kWide * kNarrow * kNarrow * cube * static_cast<double>(occupied + virtuals);  // the kernel's, padded
    const auto most = std::clamp<std::int64_t>(static_cast<std::int64_t>(kChunkFlops / of_row), 1, kMostRows);
    std::vector<TriplesChunk> out;
    for (std::size_t p = 0; p < rows_of_parts.size(); ++p) {
        const auto rows = static_cast<std::int64_t>(rows_of_parts[p].size());
        for (std::int64_t first = 0; first < rows; first += most)
            out.push_back({p, first, std::min(most, rows - first)});
    }
    return out;
}

double tree_sum(std::span<const double> x) {
    if (x.empty()) return 0;
    if (x.size() == 1) return x[0];
    const auto half = (x.size() + 1) / 2;
    return tree_sum(x.first(half)) + tree_sum(x.subspan(half));
}

}  // namespace tessera::chem
