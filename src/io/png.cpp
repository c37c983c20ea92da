#include "io/png.hpp"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <string_view>

#include "io/file.hpp"
#include "tessera/base/error.hpp"

namespace tessera {
namespace {

/// The font: one glyph per character, seven rows of five dots, drawn for this file. Letters with a tail stand lower.
struct Glyph {
    char letter;
    std::string_view rows;
};
constexpr Glyph kFont[] = {
    {'0', " ### #   ##  ### # ###  ##   # ### "}, {'1', "  #   ##    #    #    #    #   ### "},
    {'2', " ### #   #    #  ##  #   #    #####"}, {'3', " ### #   #    #  ##     ##   # ### "},
    {'4', "   #   ##  # # #  # #####   #    # "}, {'5', "######    ####     #    ##   # ### "},
    {'6', " ### #    #    #### #   ##   # ### "}, {'7', "#####    #   #   #    #   #    #   "},
    {'8', " ### #   ##   # ### #   ##   # ### "}, {'9', " ### #   ##   # ####    #    # ### "},
    {'-', "               #####               "}, {'.', "                          ##   ##  "},
    {',', "                 ##   ##    #   #  "}, {'%', "##  ###  #   #   #   #   #  ###  ##"},
    {'/', "    #    #   #   #   #   #    #    "}, {'(', "  #   #   #    #    #     #     #  "},
    {')', "  #     #     #    #    #   #   #  "}, {'|', "  #    #    #    #    #    #    #  "},
    {'a', "           ###     # #####   # ####"}, {'b', "#    #    # ## ##  ##   ##   ##### "},
    {'c', "           ### #    #    #   # ### "}, {'d', "    #    # ## ##  ###   ##   # ####"},
    {'e', "           ### #   #######     ### "}, {'f', "  ##  #    #   ####  #    #    #   "},
    {'g', " #####   ##   ##   # ####    # ### "}, {'h', "#    #    # ## ##  ##   ##   ##   #"},
    {'i', "  #        ##    #    #    #   ### "}, {'j', "   #        ##    #    # #  #  ##  "},
    {'k', " #    #    #  # # #  ##   # #  #  #"}, {'l', " ##    #    #    #    #    #   ### "},
    {'m', "          ## # # # ## # ## # ## # #"}, {'n', "          # ## ##  ##   ##   ##   #"},
    {'o', "           ### #   ##   ##   # ### "}, {'p', "#### #   ##   ##   ##### #    #    "},
    {'q', " #####   ##   ##   # ####    #    #"}, {'r', "          # ## ##  ##    #    #    "},
    {'s', "           ### #     ###     ##### "}, {'t', " #    #   ###   #    #    #  #  ## "},
    {'u', "          #   ##   ##   ##  ## ## #"}, {'v', "          #   ##   ##   # # #   #  "},
    {'w', "          #   ## # ## # ## # # # # "}, {'x', "          #   # # #   #   # # #   #"},
    {'y', "#   ##   ##   ##   # ####    # ### "}, {'z', "          #####   #   #   #   #####"},
};

}  // namespace

void Image::fill(int x0, int y0, int x1, int y1, Color color) {
    for (int y = std::max(0, y0); y < std::min(height_, y1); ++y)
        for (int x = std::max(0, x0); x < std::min(width_, x1); ++x) at(x, y) = color;
}

int Image::text_width(const std::string& words, int scale) {
    return words.empty() ? 0 : (static_cast<int>(words.size()) * 6 - 1) * scale;
}

void Image::text(int x, int y, const std::string& words, Color color, int scale) {
    for (char letter : words) {
        const int lower = std::string_view("gpqy,").find(letter) != std::string_view::npos ? 2 : 0;
        for (const Glyph& glyph : kFont)
            for (int dot = 0; glyph.letter == letter && dot < 35; ++dot)
                if (glyph.rows[static_cast<std::size_t>(dot)] == '#') {
                    const int px = x + dot % 5 * scale, py = y + (dot / 5 + lower) * scale;
                    fill(px, py, px + scale, py + scale, color);
                }
        x += 6 * scale;
    }
}

std::vector<std::byte> encode_png(const Image& picture) {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = static_cast<png_uint_32>(picture.width());
    image.height = static_cast<png_uint_32>(picture.height());
    image.format = PNG_FORMAT_RGB;
    static_assert(sizeof(Color) == 3);
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    std::vector<std::byte> out(bytes);
    if (png_image_write_to_memory(&image, out.data(), &bytes, 0, picture.pixels().data(), 0, nullptr) == 0)
        throw MachineError(fmt::format("a PNG of {} x {} pixels cannot be made: {}", picture.width(), picture.height(),
                                       static_cast<const char*>(image.message)));
    out.resize(bytes);
    return out;
}

void write_png(const std::string& path, const Image& image) { write_file(path, encode_png(image)); }

}  // namespace tessera
