// PNG files that decode to the pictures they were made from, and pictures of any tensor.
#include <gtest/gtest.h>
#include <png.h>

#include <array>
#include <cmath>
#include <set>

#include "base/hash.hpp"
#include "io/sparsity_picture.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

Image decode(const std::vector<std::byte>& bytes) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    EXPECT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0) << image.message;
    EXPECT_EQ(image.format, static_cast<png_uint_32>(PNG_FORMAT_RGB)) << "8-bit RGB in the file";
    image.format = PNG_FORMAT_RGB;
    std::vector<std::uint8_t> raw(PNG_IMAGE_SIZE(image));
    EXPECT_NE(png_image_finish_read(&image, nullptr, raw.data(), 0, nullptr), 0) << image.message;
    Image out(static_cast<int>(image.width), static_cast<int>(image.height), {});
    for (int y = 0, i = 0; y < out.height(); ++y)
        for (int x = 0; x < out.width(); ++x, i += 3) out.at(x, y) = {raw.at(i), raw.at(i + 1), raw.at(i + 2)};
    return out;
}

bool same(const Image& a, const Image& b) {
    if (a.width() != b.width() || a.height() != b.height()) return false;
    for (int y = 0; y < a.height(); ++y)
        for (int x = 0; x < a.width(); ++x)
            if (!(a.at(x, y) == b.at(x, y))) return false;
    return true;
}

TEST(Png, DecodesToThePictureItWasMadeFrom) {
    for (const auto& [width, height] : {std::pair{1, 1}, {3, 2}, {257, 130}, {1000, 3}}) {
        for (unsigned colours : {1u, 3u, 1u << 24}) {
            Image image(width, height, {});
            for (int y = 0; y < height; ++y)
                for (int x = 0; x < width; ++x) {
                    // Runs, repeats at many distances, and noise.
                    const auto v = mix64(static_cast<std::uint64_t>((x / 5 * 131 + y / 3 * 7) % 977)) % colours * 77;
                    image.at(x, y) = {static_cast<std::uint8_t>(v), static_cast<std::uint8_t>(v >> 8),
                                      static_cast<std::uint8_t>(v >> 16)};
                }
            EXPECT_TRUE(same(decode(encode_png(image)), image)) << width << " x " << height << ", " << colours;
        }
    }
    Image plain(1200, 1200, {250, 250, 250});
    const auto bytes = encode_png(plain);
    EXPECT_TRUE(same(decode(bytes), plain));
    EXPECT_LT(bytes.size(), 40000u);
}

TEST(Png, WhatCannotBeAPngIsAnErrorThatSaysSo) {
    try {
        encode_png(Image(0, 3, {}));
        FAIL() << "a picture without pixels";
    } catch (const MachineError& e) {
        EXPECT_NE(std::string(e.what()).find("0 x 3 pixels"), std::string::npos) << e.what();
    }
}

/// How many different colours a picture has inside its frame is a coarse but honest sign of what was drawn.
std::size_t colours(const Image& image) {
    std::set<std::array<int, 3>> seen;
    for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) {
            const Color c = image.at(x, y);
            seen.insert({c.r, c.g, c.b});
        }
    return seen.size();
}

TEST(SparsityPicture, AnyTensorIsDrawnWithinTheLimit) {
    const Tiling many = Tiling::uniform(30000, 3), few{3, 5, 2}, none;
    for (const TileGrid& grid :
         {TileGrid{}, TileGrid{few}, TileGrid{many}, TileGrid{none}, TileGrid{few, none}, TileGrid{few, many},
          TileGrid{many, many}, TileGrid{few, few, few}, TileGrid{many, many, few, many}}) {
        std::vector<ShapeEntry> entries;
        for (std::int64_t i = 0; i < std::min<std::int64_t>(grid.tile_total(), 5000); ++i)
            entries.push_back({TileOrdinal{grid.tile_total() <= 5000 ? i : grid.tile_total() / 5000 * i},
                               std::pow(10.0, -static_cast<double>(i % 9))});
        for (const Shape& shape : {Shape(grid), Shape(grid, entries)}) {
            const Image image = draw_sparsity(shape);
            EXPECT_LE(image.width(), 1200);
            EXPECT_LE(image.height(), 1200);
            if (shape.tile_count() >= 9) {
                EXPECT_GT(colours(image), 9u) << to_string(grid);
            }
        }
    }
    EXPECT_THROW(draw_sparsity(Shape(TileGrid{few}), {.row_indices = 2}), UserError);
}

TEST(SparsityPicture, TilesStandWhereTheyAre) {
    // One tile of four: only its quarter is coloured, and darker where the norm is larger.
    const TileGrid grid{Tiling{10, 10}, Tiling{10, 10}};
    const auto darkness = [&](std::int64_t tile, double norm, int row, int column) {
        const Image image = draw_sparsity(Shape(grid, {{TileOrdinal{tile}, norm}, {TileOrdinal{3 - tile}, 1e-6}}));
        // The frame: the first dark pixel from the right on a line through the upper half.
        const int left = 30, top = 72, size = 360;
        const Color c = image.at(left + size / 4 + column * size / 2, top + size / 4 + row * size / 2);
        return 765 - c.r - c.g - c.b;
    };
    EXPECT_GT(darkness(0, 1.0, 0, 0), 500);
    EXPECT_LT(darkness(0, 1.0, 0, 1), 60);
    EXPECT_LT(darkness(0, 1.0, 1, 0), 60);
    EXPECT_GT(darkness(1, 1.0, 0, 1), 500);
    EXPECT_GT(darkness(0, 1.0, 1, 1), 60) << "the small one is pale but seen";
    EXPECT_LT(darkness(0, 1.0, 1, 1), 300);
}

}  // namespace
}  // namespace tessera
