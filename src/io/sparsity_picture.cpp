#include "io/sparsity_picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "base/units.hpp"

namespace tessera {
namespace {

constexpr Color kPaper{255, 255, 255}, kPlot{246, 246, 243}, kGrid{226, 226, 222}, kFrame{90, 90, 96}, kInk{40, 40, 46};
constexpr Color kStoredZero{205, 214, 222};
constexpr int kMargin = 24, kTick = 6, kSmallestCell = 8;

Color mix(Color from, Color to, double t) {
    const auto channel = [t](int x, int y) { return static_cast<std::uint8_t>(std::lround(x + (y - x) * t)); };
    return {channel(from.r, to.r), channel(from.g, to.g), channel(from.b, to.b)};
}

/// Pale yellow (small) to nearly black violet (large): brightness falls evenly, so it reads in grey as well.
Color shade(double t) {
    static constexpr std::array<Color, 6> kStops{
        {{250, 226, 140}, {246, 173, 88}, {226, 108, 92}, {172, 58, 112}, {102, 32, 110}, {32, 16, 66}}};
    const double at = std::clamp(t, 0.0, 1.0) * (kStops.size() - 1);
    const auto i = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
    return mix(kStops[i], kStops[i + 1], at - static_cast<double>(i));
}

/// One side of the matrix: the tiles of some consecutive indices, and where they fall in the picture.
class Axis {
  public:
    Axis(const TileGrid& grid, int first, int last) : grid_(grid), first_(first), last_(last) {
        for (int d = first; d < last; ++d) {
            const Tiling& tiling = grid.tiling(d);
            tiles_ *= static_cast<double>(tiling.tile_count());
            elements_ *= static_cast<double>(tiling.extent());
            const auto sizes = tiling.sizes();
            smallest_ *= sizes.empty() ? 0.0 : static_cast<double>(*std::min_element(sizes.begin(), sizes.end()));
        }
    }

    double tiles() const { return tiles_; }
    double elements() const { return elements_; }
    int pixels() const { return pixels_; }

    void fit(int pixels) {
        pixels_ = pixels;
        proportional_ = elements_ > 0 && smallest_ * pixels >= 3 * elements_;
        if (!proportional_ && tiles_ >= 1 && tiles_ <= pixels)
            pixels_ = static_cast<int>(pixels / static_cast<int>(tiles_)) * static_cast<int>(tiles_);
    }

    /// The pixels of the tile with these coordinates.
    std::pair<int, int> range(const IndexVector& coordinates) const {
        // Nested like the row-major order: begin, scaled by the indices inside, plus the place within this tile.
        double begin = 0, size = 1, inner = proportional_ ? elements_ : tiles_;
        const double all = inner;
        for (int d = first_; d < last_; ++d) {
            const Tiling& tiling = grid_.tiling(d);
            const TileIndex tile{coordinates[d]};
            if (proportional_) {
                inner /= static_cast<double>(tiling.extent());
                begin += size * static_cast<double>(tiling.begin(tile).value) * inner;
                size *= static_cast<double>(tiling.size(tile));
            } else {
                inner /= static_cast<double>(tiling.tile_count());
                begin += static_cast<double>(tile.value) * inner;
            }
        }
        if (proportional_)
            return {static_cast<int>(std::lround(begin * pixels_ / all)),
                    static_cast<int>(std::lround((begin + size) * pixels_ / all))};
        const int from = std::min(pixels_ - 1, static_cast<int>(begin * pixels_ / all + 1e-9));
        if (tiles_ > pixels_) return {from, from + 1};
        return {from, from + pixels_ / static_cast<int>(tiles_)};
    }

    /// How many tiles of this side share a pixel.
    double tiles_at(int pixel) const {
        if (tiles_ <= pixels_) return 1;
        const double per = tiles_ / pixels_;
        return std::max(1.0, std::ceil((pixel + 1) * per - 1e-6) - std::ceil(pixel * per - 1e-6));
    }

    /// Boundaries between all tiles (where they are few enough to see), or between those of the outermost index.
    std::vector<int> boundaries(bool outermost) const {
        std::vector<int> at;
        double count = tiles_;
        if (first_ == last_) count = 0;
        if (first_ < last_ && outermost) count = static_cast<double>(grid_.tiling(first_).tile_count());
        if (count * kSmallestCell > pixels_) return at;
        IndexVector coordinates = IndexVector::filled(grid_.rank(), 0);
        for (int n = 0; n < static_cast<int>(count); ++n) {
            int rest = n;
            for (int d = last_ - 1; d >= first_; --d) {
                const int here =
                    outermost ? (d == first_ ? 1 << 30 : 1) : static_cast<int>(grid_.tiling(d).tile_count());
                coordinates[d] = rest % here;
                rest /= here;
            }
            at.push_back(range(coordinates).first);
        }
        return at;
    }

    std::string title(const char* side) const {
        if (first_ == last_) return fmt::format("{} none", side);
        const auto indices =
            last_ - first_ == 1 ? fmt::format("index {}", first_) : fmt::format("indices {}-{}", first_, last_ - 1);
        return fmt::format("{} {}, {} tiles", side, indices, number(tiles_));
    }

  private:
    static std::string number(double n) {
        return n < 1e15 ? format_count(static_cast<std::int64_t>(n)) : fmt::format("{:.1e}", n);
    }
    const TileGrid& grid_;
    int first_, last_;
    double tiles_ = 1, elements_ = 1, smallest_ = 1;
    int pixels_ = 1;
    bool proportional_ = false;
};

/// The powers of ten that the shades span.
struct Decades {
    int lo = -1, hi = 0;
    double place(double log_norm) const { return (log_norm - lo) / (hi - lo); }
};

double norm_per_element(const Shape& shape, std::int64_t slot) {
    return shape.norm_of(slot) / std::sqrt(static_cast<double>(shape.grid().tile_elements(shape.tile(slot))));
}

Decades decades_of(const Shape& shape) {
    double lo = INFINITY, hi = 0;
    for (std::int64_t s = 0; s < shape.tile_count(); ++s)
        if (const double n = norm_per_element(shape, s); n > 0) lo = std::min(lo, n), hi = std::max(hi, n);
    if (hi == 0) return {};
    Decades d;
    d.hi = static_cast<int>(std::ceil(std::log10(hi) - 1e-9));
    // More than twelve would leave too little difference between neighbours.
    d.lo = std::max(static_cast<int>(std::floor(std::log10(lo) + 1e-9)), d.hi - 12);
    if (d.lo >= d.hi) d.lo = d.hi - 1;
    return d;
}

/// What lies under a pixel.
struct Cell {
    double sum = 0;  // of (norm / largest norm)^2
    float tiles = 0, elements = 0;
};

void paint(Image& image, int left, int top, const Shape& shape, const Axis& rows, const Axis& columns,
           const Decades& decades) {
    const int width = columns.pixels(), height = rows.pixels();
    std::vector<Cell> cells(static_cast<std::size_t>(width) * height);
    double largest = 0;
    for (double n : shape.norms()) largest = std::max(largest, n);
    for (std::int64_t s = 0; s < shape.tile_count(); ++s) {
        const auto coordinates = shape.grid().coordinates(shape.tile(s));
        const auto [y0, y1] = rows.range(coordinates);
        const auto [x0, x1] = columns.range(coordinates);
        const double part = largest > 0 ? shape.norm_of(s) / largest : 0;
        const auto elements = static_cast<float>(shape.grid().tile_elements(shape.tile(s)));
        for (int y = y0; y < y1; ++y)
            for (int x = x0; x < x1; ++x) {
                Cell& cell = cells[static_cast<std::size_t>(y) * width + x];
                cell.tiles += 1;
                cell.sum += part * part;
                cell.elements += elements;
            }
    }
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x) {
            const Cell& cell = cells[static_cast<std::size_t>(y) * width + x];
            if (cell.tiles == 0) continue;
            const double rms = largest * std::sqrt(cell.sum / cell.elements);
            const Color color = rms > 0 ? shade(decades.place(std::log10(rms))) : kStoredZero;
            // The square root lets a lonely tile among many be seen.
            const double cover = std::sqrt(std::min(1.0, cell.tiles / (rows.tiles_at(y) * columns.tiles_at(x))));
            image.at(left + x, top + y) = mix(kPlot, color, std::max(0.2, cover));
        }
}

/// The scale of shades, with the powers of ten it spans.
void paint_scale(Image& image, int left, int top, int width, const Decades& decades, int scale) {
    const int height = 7 * scale;
    for (int x = 0; x < width; ++x) image.fill(left + x, top, left + x + 1, top + height, shade((x + 0.5) / width));
    const int count = decades.hi - decades.lo;
    const int widest = Image::text_width("1e-10", scale) + 8 * scale;
    const int step = std::max(1, (count * widest + width - 1) / width);
    for (int d = count; d >= 0; d -= step) {
        const int x = left + d * (width - 1) / count;
        image.fill(x, top + height, x + 1, top + height + 4, kFrame);
        const auto label = fmt::format("1e{}", decades.lo + d);
        const int centred = x - Image::text_width(label, scale) / 2;
        image.text(centred, top + height + 7, label, kInk, scale);
    }
}

}  // namespace

Image draw_sparsity(const Shape& shape, const PictureOptions& options) {
    const TileGrid& grid = shape.grid();
    const int split = options.row_indices.value_or(std::min(grid.rank(), std::max(1, grid.rank() / 2)));
    require(split >= 0 && split <= grid.rank(), "picture: {} row indices of a tensor of rank {}", split, grid.rank());
    require(options.limit >= 300, "picture: limit {} is below 300 pixels", options.limit);
    Axis rows(grid, 0, split), columns(grid, split, grid.rank());

    // A few tiles make a small picture; a long thin matrix is shown four times as long as wide.
    const int scale = 2, line = 10 * scale;
    const int above = kMargin + 3 * line + 8, below = kTick + (shape.empty() ? 0 : 3 * line) + kMargin;
    const int room = options.limit - std::max(above + below, 2 * kMargin + kTick);
    const double most = shape.empty() ? 1.0 : std::max({rows.tiles(), columns.tiles(), 1.0});
    const double size = std::min<double>(room, std::max(360.0, most * 24));
    const double ratio = rows.elements() > 0 && columns.elements() > 0
                             ? std::clamp(rows.elements() / columns.elements(), 0.25, 4.0)
                             : 1.0;
    rows.fit(static_cast<int>(size * std::min(1.0, ratio)));
    columns.fit(static_cast<int>(size / std::max(1.0, ratio)));

    const std::string first =
        fmt::format("{} of {} tiles, density {:.{}f} %", format_count(shape.tile_count()),
                    format_count(grid.tile_total()), 100 * shape.density(), shape.density() < 0.01 ? 3 : 1);
    const std::string second = rows.title("rows"), third = columns.title("columns");
    const Decades decades = decades_of(shape);
    int text_scale = scale;
    const auto words_width = [&] {
        return std::max({Image::text_width(first, text_scale), Image::text_width(second, text_scale),
                         Image::text_width(third, text_scale)});
    };
    if (words_width() > std::max(columns.pixels(), 760)) text_scale = 1;
    const int left = kMargin + kTick, top = above;
    const int wide = std::min(options.limit, 2 * kMargin + kTick + std::max(columns.pixels() + 1, words_width()));
    Image image(wide, top + rows.pixels() + below, kPaper);

    image.text(left, kMargin, first, kInk, text_scale);
    image.text(left, kMargin + line, second, kFrame, text_scale);
    image.text(left, kMargin + 2 * line, third, kFrame, text_scale);
    const int right = left + columns.pixels(), bottom = top + rows.pixels();
    image.fill(left, top, right, bottom, kPlot);
    paint(image, left, top, shape, rows, columns, decades);
    const auto lines_y = rows.boundaries(false), lines_x = columns.boundaries(false);
    if ((!lines_y.empty() || rows.tiles() == 1) && (!lines_x.empty() || columns.tiles() == 1)) {
        for (int y : lines_y) image.fill(left, top + y, right, top + y + 1, kGrid);
        for (int x : lines_x) image.fill(left + x, top, left + x + 1, bottom, kGrid);
    }
    for (int y : rows.boundaries(true)) image.fill(left - kTick, top + y, left - 1, top + y + 1, kFrame);
    for (int x : columns.boundaries(true)) image.fill(left + x, bottom + 1, left + x + 1, bottom + kTick, kFrame);
    image.fill(left - 1, top - 1, right + 1, top, kFrame);
    image.fill(left - 1, bottom, right + 1, bottom + 1, kFrame);
    image.fill(left - 1, top - 1, left, bottom + 1, kFrame);
    image.fill(right, top - 1, right + 1, bottom + 1, kFrame);

    if (!shape.empty()) {
        const int at = bottom + kTick + line / 2;
        image.text(left, at, "norm per element", kInk, text_scale);
        const int bar_left = left + Image::text_width("norm per element", text_scale) + 16 * scale;
        const int bar = std::min(560, wide - kMargin - bar_left - 12 * scale);
        if (bar >= 60) paint_scale(image, bar_left, at, bar, decades, text_scale);
    }
    return image;
}

void write_sparsity_png(const std::string& path, const Shape& shape, const PictureOptions& options) {
    write_png(path, draw_sparsity(shape, options));
}

}  // namespace tessera
