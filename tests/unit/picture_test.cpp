// PNG files that a strict decoder (written here, independently of the encoder) accepts, and pictures of any tensor.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "base/hash.hpp"
#include "io/sparsity_picture.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

using Bytes = std::vector<std::byte>;

std::uint32_t u32(const Bytes& b, std::size_t at) {
    std::uint32_t v = 0;
    for (std::size_t i = 0; i < 4; ++i) v = v << 8 | static_cast<std::uint32_t>(b.at(at + i));
    return v;
}

/// Inflates one stream of fixed-code blocks, straight from the tables of RFC 1951.
Bytes inflate(const Bytes& in, std::size_t at) {
    static constexpr int kLength[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                      31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static constexpr int kLengthExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                           2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    static constexpr int kDistance[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                        33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                        1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
    std::size_t bit = at * 8;
    const auto one = [&] {
        const int v = (static_cast<int>(in.at(bit / 8)) >> (bit % 8)) & 1;
        ++bit;
        return v;
    };
    const auto number = [&](int n) {
        int v = 0;
        for (int i = 0; i < n; ++i) v |= one() << i;
        return v;
    };
    const auto code = [&](int n, int start = 0) {
        int v = start;
        for (int i = 0; i < n; ++i) v = v << 1 | one();
        return v;
    };
    Bytes out;
    EXPECT_EQ(number(3), 3) << "the last block, with fixed codes";
    for (;;) {
        int symbol = code(7);
        if (symbol <= 23) {
            symbol += 256;
        } else {
            symbol = code(1, symbol);
            if (symbol >= 0x30 && symbol <= 0xbf)
                symbol -= 0x30;
            else if (symbol >= 0xc0 && symbol <= 0xc7)
                symbol += 280 - 0xc0;
            else
                symbol = code(1, symbol) - 0x190 + 144;
        }
        if (symbol == 256) break;
        if (symbol < 256) {
            out.push_back(static_cast<std::byte>(symbol));
            continue;
        }
        const int length = kLength[symbol - 257] + number(kLengthExtra[symbol - 257]);
        const int d = code(5);
        const auto distance = static_cast<std::size_t>(kDistance[d] + number(d < 4 ? 0 : d / 2 - 1));
        if (distance > out.size()) throw std::runtime_error("a match before the beginning");
        for (int i = 0; i < length; ++i) out.push_back(out[out.size() - distance]);
    }
    return out;
}

/// Decodes what encode_png makes, checking every length on the way.
Image decode(const Bytes& png) {
    const auto width = static_cast<int>(u32(png, 16)), height = static_cast<int>(u32(png, 20));
    std::size_t at = 8;
    Image image(width, height, {});
    while (at < png.size()) {
        const std::size_t length = u32(png, at);
        if (static_cast<char>(png.at(at + 4)) == 'I' && static_cast<char>(png.at(at + 5)) == 'D') {
            const Bytes raw = inflate(png, at + 10);
            EXPECT_EQ(raw.size(), static_cast<std::size_t>(height) * (3 * width + 1));
            std::uint32_t a = 1, b = 0;
            for (auto x : raw) a = (a + static_cast<std::uint32_t>(x)) % 65521, b = (b + a) % 65521;
            EXPECT_EQ(u32(png, at + 8 + length - 4), b << 16 | a);
            std::size_t i = 0;
            for (int y = 0; y < height; ++y) {
                EXPECT_EQ(raw.at(i++), std::byte{2});
                for (int x = 0; x < width; ++x) {
                    const Color up = y ? image.at(x, y - 1) : Color{};
                    const auto next = [&](int v) {
                        return static_cast<std::uint8_t>(v + static_cast<int>(raw.at(i++)));
                    };
                    Color c;
                    c.r = next(up.r), c.g = next(up.g), c.b = next(up.b);
                    image.at(x, y) = c;
                }
            }
        }
        at += length + 12;
    }
    EXPECT_EQ(at, png.size());
    return image;
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

TEST(Png, ChunksCarryTheirChecks) {
    const auto bytes = encode_png(Image(2, 2, {1, 2, 3}));
    EXPECT_EQ(u32(bytes, 0), 0x89504e47u);
    EXPECT_EQ(u32(bytes, bytes.size() - 4), 0xae426082u) << "the CRC of an empty IEND is a known number";
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
