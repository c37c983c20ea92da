#pragma once
// Pictures: 8-bit RGB in memory, written as PNG by libpng.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct Color {
    std::uint8_t r = 0, g = 0, b = 0;
    bool operator==(const Color&) const = default;
};

/// Row by row from the top left.
class Image {
  public:
    Image(int width, int height, Color background)
        : width_(width), height_(height), pixels_(static_cast<std::size_t>(width) * height, background) {}
    int width() const { return width_; }
    int height() const { return height_; }
    Color& at(int x, int y) { return pixels_[static_cast<std::size_t>(y) * width_ + x]; }
    Color at(int x, int y) const { return pixels_[static_cast<std::size_t>(y) * width_ + x]; }
    std::span<const Color> pixels() const { return pixels_; }
    /// Pixels x0 <= x < x1, y0 <= y < y1, as far as they lie in the picture.
    void fill(int x0, int y0, int x1, int y1, Color color);
    /// A few words in a 5 x 7 font, each of its pixels `scale` pixels wide; (x, y) is the top left corner.
    void text(int x, int y, const std::string& words, Color color, int scale = 1);
    static int text_width(const std::string& words, int scale = 1);

  private:
    int width_, height_;
    std::vector<Color> pixels_;
};

std::vector<std::byte> encode_png(const Image& picture);
/// Put in the place of an old file in one step.
void write_png(const std::string& path, const Image& image);

}  // namespace tessera
